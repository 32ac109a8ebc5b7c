"""Histories that break one invariant about GPUs, nodes and turns, each the least change of a lawful one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.checker.evidence import Evidence
from tests.checker.lawful import EPOCH, History, lost_and_found, one_job, two_nodes


def a_gpu_granted_twice() -> Evidence:
    history, grant = one_job()
    other = History()
    other.events, other.rows, other.truth = history.events, history.rows, history.truth
    held = other.grant(other.job("b", 55, gpus=1), 60, grant.gpus[0])
    other.run(held, 62, 69)
    other.finish(held, 70)
    # The events alone: the second grant is told before the first attempt's end.
    events = other.events
    end = next(i for i, e in enumerate(events) if e.type == "attempt_ended")
    granted = next(i for i, e in enumerate(events) if e.type == "granted" and e.object_id == "b")
    other.events = [
        replace(e, seq=n)
        for n, e in enumerate([*events[:end], *events[granted - 1 : granted + 1], *events[end : granted - 1],
                               *events[granted + 1 :]], 1)
    ]  # fmt: skip
    return other.evidence()


def a_fork_that_kept_a_gpu() -> Evidence:
    history, _ = one_job()
    later = history.grant(history.job("b", 55), 60, "n1-g0")
    history.run(later, 62, 69)
    history.say(later, 62, "collision", on="gpu:n1-g0", holder={"job": "a", "epoch": 1, "pid": 101})
    history.finish(later, 70)
    return history.evidence()


def released_before_exit() -> Evidence:
    history, _grant = one_job()
    history.truth[-1].update(at=1055, wall=EPOCH + 55)
    return history.evidence()


def used_without_a_grant() -> Evidence:
    history, _grant = one_job()
    next(r for r in history.truth if r["event"] == "start")["gpus"].append("n9-g9")
    return history.evidence()


def half_a_grant() -> Evidence:
    history = History()
    gpus = history.node("n1")
    grant = history.grant(history.job("a", 5, gpus=2), 10, gpus[0])
    history.run(grant, 12, 49)
    history.finish(grant, 50)
    return history.evidence()


def begun_before_all_had_claimed() -> Evidence:
    history, grant = one_job()
    history.find("part", "attempt", grant.attempt)["claimed_at"] = None
    return history.evidence()


def begun_before_all_were_ready() -> Evidence:
    history, grant = two_nodes()
    parts = [row for row in history.rows["part"] if row["attempt"] == grant.attempt]
    parts[1]["ready_at"] = EPOCH + 14
    return history.evidence(200)


def stayed_when_its_peer_was_lost() -> Evidence:
    history, _grant = two_nodes()
    history.truth[-1].update(at=1062, wall=EPOCH + 62)
    return history.evidence(200)


def nvlink_over_two_groups() -> Evidence:
    history, grant = one_job()
    history.find("gpu", "uuid", grant.gpus[1])["nvlink_group"] = "another"
    return history.evidence()


def granted_while_unhealthy() -> Evidence:
    history, _grant = one_job()
    history.change(history.last("gpu_state"), data={"to": "UNHEALTHY"})
    return history.evidence()


def too_little_memory() -> Evidence:
    history, _ = one_job(gpu_memory_min_mib=90_000)
    return history.evidence()


def a_lower_level_went_first() -> Evidence:
    history = History()
    gpus = history.node("n1")
    high, low = history.job("a", 5, gpus=2, level="Critical"), history.job("b", 6, gpus=2)
    grant = history.grant(low, 20, *gpus)
    history.run(grant, 22, 49)
    history.finish(grant, 50)
    later = history.grant(high, 60, *gpus)
    history.run(later, 62, 89)
    history.finish(later, 90)
    return history.evidence()


def an_eviction(*, rule: bool = True, gpus: tuple[str, ...] = (), victims: int = 1, end: bool = True) -> History:
    """A Critical job at 70 has a Normal one, which began at 10, leave both GPUs, and starts on them at 90."""
    history = History()
    held = history.node("n1")
    history.node("n2")
    if rule:
        history.row("rule", queue="merge", level="Critical", victim_queue="merge", victim_level="Normal")
    victim = history.grant(history.job("a", 5, gpus=2), 10, *held)
    history.run(victim, 12, 79)
    urgent = history.job("b", 65, gpus=2, level="Critical")
    history.evict(victim, 70, wants=urgent, gpus=gpus, victims=victims)
    history.save(victim, 75, 7)
    history.finish(victim, 80, "PREEMPTED", why="preempt", lost_ms=[[(EPOCH + 70) * 1000, (EPOCH + 80) * 1000]])
    for balance in history.rows["balance"]:
        balance["gpu_ms"] -= 2 * 10_000
    if end:
        grant = history.grant(urgent, 90, *held)
        history.run(grant, 92, 99)
        history.finish(grant, 100)
    return history


def evicted_against_the_rules() -> Evidence:
    return an_eviction(rule=False).evidence(120)


def evicted_for_other_gpus() -> Evidence:
    return an_eviction(gpus=("n2-g0", "n2-g1")).evidence(120)


def evicted_for_too_little() -> Evidence:
    return an_eviction(gpus=("n1-g0",)).evidence(120)


def more_victims_than_were_asked() -> Evidence:
    return an_eviction(victims=2).evidence(120)


def given_to_another_meanwhile() -> Evidence:
    history = an_eviction(end=False)
    other = history.grant(history.job("c", 81), 85, "n1-g0")
    history.run(other, 87, 95)
    history.finish(other, 96)
    return history.evidence(120)


def given_up_too_early() -> Evidence:
    history, _lost, _ = lost_and_found()
    before = history.last("node_lost")
    history.events.insert(before, replace(history.events[before], type="progress", object="job", object_id="a",
                                          at=EPOCH + 60, actor="node n1", attempt="", data={}))  # fmt: skip
    history.events = [replace(e, seq=n) for n, e in enumerate(history.events, 1)]
    return history.evidence(200)


def alive_after_the_lease() -> Evidence:
    history, _lost, _ = lost_and_found()
    next(r for r in history.truth if r["event"] == "died").update(at=1095, wall=EPOCH + 95)
    return history.evidence(200)


def alive_after_the_fence() -> Evidence:
    history, _grant = one_job()
    calls = [("answered", 1.0, 1.1), ("sent", 2.0, 2.0)]
    history.truth += [{"event": event, "at": 1000 + at, "wall": EPOCH + at, "node": "n1", "sent": 1000 + sent - 20,
                       "checked": True} for event, sent, at in calls]  # fmt: skip
    next(r for r in history.truth if r["event"] == "end").update(at=1048.0, wall=EPOCH + 48.0)
    return history.evidence()


def answered_and_given_up() -> Evidence:
    history, _lost, _again = lost_and_found()
    history.truth += [{"event": "answered", "at": 1000.0 + at, "wall": EPOCH + at, "node": "n1", "sent": 1000.0 + at}
                      for at in (30, 50)]  # fmt: skip
    return history.evidence(200)


def silence_counted_as_failures() -> Evidence:
    history, _grant = one_job()
    history.truth.append({"event": "sent", "at": 1045.0, "wall": EPOCH + 45, "node": "n1", "checked": True})
    failures(history, 1, 2, condemned=3)
    return history.evidence()


def failures(history: History, *counts: int, condemned: int) -> None:
    """The first GPU failed so many checks in a row each time; the ``condemned``-th made it UNHEALTHY."""
    for at, count in enumerate(counts, 60):
        to = "UNHEALTHY" if count == condemned else "SUSPECT"
        said = {"to": to, "failed_checks": count}
        history.event(at, "gpu_state", "gpu", "n1-g0", actor="node n1", node="n1", data=said)


def condemned_by_the_second_failure() -> Evidence:
    history, _grant = one_job()
    failures(history, 1, 2, condemned=2)
    return history.evidence()


def a_failure_was_skipped() -> Evidence:
    history, _grant = one_job()
    failures(history, 1, 3, condemned=3)
    return history.evidence()


def healthy_without_a_test() -> Evidence:
    history, _grant = one_job()
    failures(history, 1, 2, 3, condemned=3)
    history.event(90, "gpu_state", "gpu", "n1-g0", actor="node n1", data={"from": "UNHEALTHY", "to": "HEALTHY"})
    return history.evidence()


def a_gpu_that_failed_and_was_tested() -> Evidence:
    history, _grant = one_job()
    failures(history, 1, 2, 3, condemned=3)
    for at, to in ((80, "QUARANTINED"), (90, "HEALTHY")):
        history.event(at, "gpu_state", "gpu", "n1-g0", actor="node n1", data={"to": to})
    failures(history, 1, condemned=3)
    return history.evidence()


def alone_beside_free_gpus() -> Evidence:
    history, _ = one_job()
    history.job("b", 60)
    history.row("scheduler", holder="s", epoch=1, last_tick_at=EPOCH + 500)
    history.find("node", "name", "n1")["last_heartbeat_at"] = EPOCH + 495
    return history.evidence(500)


BROKEN: list[tuple[str, Callable[[], Evidence]]] = [
    ("I1", a_gpu_granted_twice),
    ("I2", a_fork_that_kept_a_gpu),
    ("I3", released_before_exit),
    ("I3", used_without_a_grant),
    ("I9", half_a_grant),
    ("I9", begun_before_all_had_claimed),
    ("I9", begun_before_all_were_ready),
    ("I9", stayed_when_its_peer_was_lost),
    ("I10", nvlink_over_two_groups),
    ("I11", granted_while_unhealthy),
    ("I11", too_little_memory),
    ("I12", a_lower_level_went_first),
    ("I14", evicted_against_the_rules),
    ("I15", evicted_for_other_gpus),
    ("I15", evicted_for_too_little),
    ("I15", more_victims_than_were_asked),
    ("I17", given_to_another_meanwhile),
    ("I21", given_up_too_early),
    ("I21", answered_and_given_up),
    ("I22", alive_after_the_lease),
    ("I22", alive_after_the_fence),
    ("I23", silence_counted_as_failures),
    ("I23", condemned_by_the_second_failure),
    ("I23", a_failure_was_skipped),
    ("I23", healthy_without_a_test),
    ("I29", alone_beside_free_gpus),
]
