"""Histories that break one invariant about jobs, accounts and stored bytes, each the least change of a lawful one."""

from __future__ import annotations

from collections.abc import Callable

from tests.checker.evidence import Evidence
from tests.checker.lawful import (
    EPOCH,
    FIRST,
    History,
    a_chain,
    began_earlier,
    given_up,
    lost_and_found,
    one_job,
    replacing,
)


def two_attempts_at_once() -> Evidence:
    history, _lost, again = lost_and_found()
    history.say(again, 102, "collision", on="job:a", holder={"job": "a", "epoch": 1, "pid": 101})
    return history.evidence(200)


def ended_twice() -> Evidence:
    history, _grant = one_job()
    history.step(60, "failed", "a", "FAILED")
    return history.evidence()


def never_ended() -> Evidence:
    history = History()
    history.job("a", 5)
    return history.evidence(9, settled=True)


def an_edge_that_is_none() -> Evidence:
    history, _grant = one_job()
    history.step(6, "held", history.job("b", 5), "HELD")
    history.step(7, "running", "b", "RUNNING")
    return history.evidence()


def a_late_word_of_a_fenced_attempt() -> Evidence:
    history, lost, _ = lost_and_found()
    history.event(160, "progress", "job", "a", actor="node n1", attempt=lost.attempt, epoch=lost.epoch)
    return history.evidence(200)


def an_output_of_a_lost_attempt() -> Evidence:
    history, lost, _again = lost_and_found()
    history.row("output", job="a", artifact="m", attempt=lost.attempt)
    return history.evidence(200)


def an_acknowledged_job_is_gone() -> Evidence:
    history, _ = one_job()
    history.truth.append({**history.truth[0], "job": "b", "key": "other"})
    return history.evidence()


def one_key_made_two_jobs() -> Evidence:
    history, _ = one_job()
    history.job("b", 60)
    history.truth[-1]["key"] = "key-a"
    return history.evidence(70)


def its_own_failure_given_back() -> Evidence:
    history, _grant = one_job()
    history.change(history.last("attempt_ended"), data={"lost_ms": [[(EPOCH + 10) * 1000, (EPOCH + 50) * 1000]]})
    for balance in history.rows["balance"]:
        balance["gpu_ms"] = 0.0
    return history.evidence()


def submitted_anew_after_a_loss() -> Evidence:
    history, *_ = lost_and_found()
    history.find("job", "id", "a")["submitted_at"] = EPOCH + 90
    return history.evidence(200)


def replaced_after_its_start() -> Evidence:
    history = History()
    gpus = history.node("n1", gpus=1)
    grant = history.grant(history.job("a", 5), 10, *gpus)
    history.run(grant, 12, 49)
    history.finish(grant, 50, "PREEMPTED", why="preempt")
    history.replace("a", "b", 60)
    return history.evidence()


def replaced_by_two() -> Evidence:
    history = replacing()
    history.job("c", 30, replaces="a", submitted_at=EPOCH + 5)
    history.change(history.last("submitted"), data={"replaces": "a", "since": "1970-01-12T13:46:45+00:00"})
    return history.evidence()


def replaced_by_a_job_that_is_not_there() -> Evidence:
    history = replacing()
    history.rows["job"] = [row for row in history.rows["job"] if row["id"] == "a"]
    history.truth.clear()
    return history.evidence()


def replaced_by_a_larger_one_at_the_same_place() -> Evidence:
    return replacing(gpus=2).evidence()


def a_place_that_nobody_had() -> Evidence:
    history = replacing(submitted_at=EPOCH + 1)
    history.change(history.last("submitted"), data={"since": "1970-01-12T13:46:41+00:00"})
    return history.evidence()


def gone_again_without_a_pause() -> Evidence:
    history, *_ = lost_and_found()
    index = history.last("granted")
    history.change(index, at=EPOCH + 96)
    for row in history.rows["allocation"]:
        if row["attempt"] == "a-2":
            row["granted_at"] = EPOCH + 96
            due = row["released_at"] - row["granted_at"]
    history.change(history.last("attempt_ended"), data={"gpu_ms": round(2000 * due)})
    for balance in history.rows["balance"]:
        balance["gpu_ms"] += 2 * 4000
    return history.evidence(200)


def evicted_by_a_job_that_is_changed_in_between() -> Evidence:
    history = History()
    gpus = history.node("n1")
    history.row("rule", queue="merge", level="Critical", victim_queue="merge", victim_level="Normal")
    victim, urgent = history.job("a", 5, gpus=2), history.job("b", 100, gpus=2, level="Critical")
    for at in (10, 310, 610):
        held = history.grant(victim, at, *gpus)
        history.run(held, at + 1, at + 199)
        history.evict(held, at + 190, wants=urgent)
        history.finish(held, at + 200, "PREEMPTED", why="preempt")
        urgent = history.replace(urgent, f"b-{at}", at + 201, gpus=2, level="Critical")
        history.step(at + 202, "held", urgent, "HELD")
    return history.evidence(811)


def evicted_again_and_again() -> Evidence:
    history = History()
    gpus = history.node("n1")
    history.row("rule", queue="merge", level="Critical", victim_queue="merge", victim_level="Normal")
    victim, urgent = history.job("a", 5, gpus=2), ""
    for at in (10, 310, 610):
        held = history.grant(victim, at, *gpus)
        history.run(held, at + 1, at + 199)
        if urgent:
            history.step(at + 180, "requeued", urgent, "QUEUED")  # released by its owner
        urgent = urgent or history.job("b", at + 180, gpus=2, level="Critical")
        history.evict(held, at + 190, wants=urgent)
        history.finish(held, at + 200, "PREEMPTED", why="preempt")
        taken = history.grant(urgent, at + 205, *gpus)
        history.run(taken, at + 206, at + 219)
        history.finish(taken, at + 220, "FAILED", to="QUEUED")
        history.step(at + 221, "held", urgent, "HELD")
    return history.evidence(900)


def resumed_from_nothing() -> Evidence:
    history, _lost, again = lost_and_found()
    history.find("attempt", "id", again.attempt)["resume"] = "never-committed"
    return history.evidence(200)


def the_step_went_back() -> Evidence:
    history, lost, _again = lost_and_found()
    history.find("attempt", "id", lost.attempt).update(resume_step=9)
    return history.evidence(200)


def a_checkpoint_was_given_up_after_one_attempt() -> Evidence:
    history, earlier = given_up(1)
    history.give_up("a", 361, earlier)
    return began_earlier(history)


def a_checkpoint_was_given_up_that_was_got_beyond() -> Evidence:
    history, earlier = given_up(reaches=8)
    history.give_up("a", 363, earlier)
    return began_earlier(history)


def a_checkpoint_was_given_up_for_damage_that_it_has_not() -> Evidence:
    history, earlier = given_up()
    history.give_up("a", 361, earlier, why="corrupt")
    return began_earlier(history)


def a_checkpoint_was_given_up_for_another_than_the_next_attempt_began_with() -> Evidence:
    history, earlier = given_up()
    history.give_up("a", 361, earlier)
    history.find("job", "id", "a")["saved"] = None
    return began_earlier(history)


def charged_twice() -> Evidence:
    history, _ = one_job()
    history.rows["balance"][0]["gpu_ms"] *= 2
    return history.evidence()


def not_a_number() -> Evidence:
    history, _ = one_job()
    history.rows["balance"][1]["gpu_ms"] = float("nan")
    return history.evidence()


def past_its_limit() -> Evidence:
    history, grant = one_job()
    history.find("attempt", "id", grant.attempt)["remaining_s"] = 5
    return history.evidence()


def started_after_a_cancel() -> Evidence:
    history = History()
    gpus = history.node("n1")
    history.step(6, "cancelled", history.job("a", 5), "CANCELLED")
    history.find("job", "id", "a")["state"] = "CANCELLED"
    grant = history.grant("a", 10, gpus[0])
    history.find("job", "id", "a")["state"] = "DISPATCHING"
    assert grant.epoch == 1
    return history.evidence(12)


def alive_after_a_cancel(until: float = 79) -> Evidence:
    history = History()
    gpus = history.node("n1")
    grant = history.grant(history.job("a", 5, gpus=2), 10, *gpus)
    history.run(grant, 12, until)
    history.step(20, "cancelling", "a", "CANCELLING")
    history.finish(grant, 80, "CANCELLED")
    return history.evidence()


def stuck_in_dispatching() -> Evidence:
    history = History()
    gpus = history.node("n1")
    history.grant(history.job("a", 5, gpus=2), 10, *gpus)
    return history.evidence(500)


def held_after_the_end() -> Evidence:
    history, _grant = one_job()
    for row in history.rows["allocation"]:
        row["released_at"] = None
    history.change(history.last("attempt_ended"), data={"gpu_ms": 0})
    for balance in history.rows["balance"]:
        balance["gpu_ms"] = 0.0
    return history.evidence()


def a_deposed_scheduler_wrote() -> Evidence:
    history, *_ = lost_and_found()
    history.change(history.last("node_lost"), actor="scheduler 2")
    return history.evidence(200)


def nobody_did_it() -> Evidence:
    history, _ = one_job()
    history.change(history.last("succeeded"), actor="")
    return history.evidence()


def a_state_of_no_event() -> Evidence:
    history, _ = one_job()
    history.find("job", "id", "a")["state"] = "FAILED"
    return history.evidence()


def too_much_log() -> Evidence:
    history, grant = one_job()
    history.row("log", attempt=grant.attempt, size=5000)
    return history.evidence()


def began_before_what_it_waits_for() -> Evidence:
    history = History()
    gpus = history.node("n1")
    first = history.grant(history.job("a", 5), 20, gpus[0])
    history.wait(history.job("b", 6), "a")
    second = history.grant("b", 21, gpus[1])
    for grant in (first, second):
        history.run(grant, 22, 49)
        history.finish(grant, 50)
    return history.evidence()


def failed_before() -> History:
    """A job that has failed at 50, and one that waited for it."""
    history = History()
    gpus = history.node("n1", gpus=1)
    grant = history.grant(history.job("a", 5), 10, *gpus)
    history.wait(history.job("b", 6), "a")
    history.run(grant, 12, 49)
    history.finish(grant, 50, "FAILED")
    history.find("job", "id", "b").update(awaits=0)
    return history


def began_after_a_failure() -> Evidence:
    history = failed_before()
    grant = history.grant("b", 60, *(row["uuid"] for row in history.rows["gpu"]))
    history.run(grant, 62, 99)
    history.finish(grant, 100)
    return history.evidence()


def waits_for_what_has_failed() -> Evidence:
    return failed_before().evidence(51)


def waits_for_what_has_succeeded() -> Evidence:
    history, _grant = one_job()
    history.job("b", 20)
    history.wait("b", "a")
    return history.evidence(51)


def ended_with_what_succeeded() -> Evidence:
    history, _grant = one_job()
    history.job("b", 20)
    history.wait("b", "a")
    history.find("job", "id", "b").update(awaits=0)
    history.step(51, "cancelled", "b", "CANCELLED", data={"cause": "after"})
    return history.evidence(52)


def began_without_its_input() -> Evidence:
    history, _grant = a_chain()
    history.find("job", "id", "b")["spec"] = {}
    assert history.find("output", "job", FIRST)
    return history.evidence(110)


BROKEN: list[tuple[str, Callable[[], Evidence]]] = [
    ("I4", two_attempts_at_once),
    ("I5", ended_twice),
    ("I5", never_ended),
    ("I6", an_edge_that_is_none),
    ("I7", a_late_word_of_a_fenced_attempt),
    ("I7", an_output_of_a_lost_attempt),
    ("I8", an_acknowledged_job_is_gone),
    ("I8", one_key_made_two_jobs),
    ("I18", submitted_anew_after_a_loss),
    ("I18", replaced_after_its_start),
    ("I18", replaced_by_two),
    ("I18", replaced_by_a_job_that_is_not_there),
    ("I18", replaced_by_a_larger_one_at_the_same_place),
    ("I18", a_place_that_nobody_had),
    ("I19", gone_again_without_a_pause),
    ("I19", evicted_again_and_again),
    ("I19", evicted_by_a_job_that_is_changed_in_between),
    ("I20", resumed_from_nothing),
    ("I20", the_step_went_back),
    ("I20", a_checkpoint_was_given_up_after_one_attempt),
    ("I20", a_checkpoint_was_given_up_that_was_got_beyond),
    ("I20", a_checkpoint_was_given_up_for_damage_that_it_has_not),
    ("I20", a_checkpoint_was_given_up_for_another_than_the_next_attempt_began_with),
    ("I24", charged_twice),
    ("I24", its_own_failure_given_back),
    ("I25", not_a_number),
    ("I26", past_its_limit),
    ("I27", started_after_a_cancel),
    ("I27", alive_after_a_cancel),
    ("I28", stuck_in_dispatching),
    ("I28", held_after_the_end),
    ("I32", a_deposed_scheduler_wrote),
    ("I33", nobody_did_it),
    ("I33", a_state_of_no_event),
    ("I35", too_much_log),
    ("I36", began_before_what_it_waits_for),
    ("I36", began_after_a_failure),
    ("I36", waits_for_what_has_failed),
    ("I36", waits_for_what_has_succeeded),
    ("I36", ended_with_what_succeeded),
    ("I36", began_without_its_input),
]
