"""Each invariant has a lawful history in which the checker is silent, and one that breaks it and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checker import broken_jobs, broken_pool
from tests.checker.check import check
from tests.checker.devices import an_attempt_is_granted_whole_and_ends_together
from tests.checker.evictions import freed_gpus_go_to_whom_they_were_freed_for
from tests.checker.evidence import Evidence
from tests.checker.lawful import (
    EPOCH,
    History,
    a_chain,
    checkpoint_damaged,
    checkpoint_given_up,
    lost_and_found,
    one_job,
    replacing,
    two_nodes,
)
from tests.checker.lives import a_cancelled_job_starts_no_more_and_goes
from tests.checker.table import DECIDED, NOT_DECIDED


def broken(evidence: Evidence) -> set[str]:
    """The numbers of the invariants that the history breaks."""
    return {finding.invariant for finding in check(evidence)}


def test_a_victim_that_is_asked_three_times_and_runs_on_each_time_was_not_evicted():
    history = History()
    gpus = history.node("n1")
    history.row("rule", queue="merge", level="Critical", victim_queue="merge", victim_level="Normal")
    victim, urgent = history.job("a", 5, gpus=2), history.job("b", 20, gpus=2, level="Critical")
    held = history.grant(victim, 10, *gpus)
    history.run(held, 11, 399)
    for at in (30, 130, 230):
        history.evict(held, at, wants=urgent)
        history.step(at + 5, "held", urgent, "HELD")
        history.step(at + 6, "running", victim, "RUNNING", attempt=held.attempt)
        history.step(at + 7, "requeued", urgent, "QUEUED")
    history.step(300, "held", urgent, "HELD")
    history.finish(held, 400)
    assert broken(history.evidence(401)) == set()


@pytest.mark.parametrize(("out_of_queue", "found"), [({}, {"I12"}), ({"depth": 1}, set()), ({"max_running": 2}, set())])
def test_a_job_that_waited_for_other_jobs_was_passed_over_by_nobody(out_of_queue, found):
    history = History()
    gpus = history.node("n1")
    history.job("a", 5, level="High", **out_of_queue)
    taken = history.grant(history.job("b", 6), 100, gpus[0])
    history.run(taken, 101, 199)
    history.finish(taken, 200)
    assert broken(history.evidence(201)) == found


BROKEN = broken_pool.BROKEN + broken_jobs.BROKEN


@pytest.mark.parametrize(("invariant", "history"), BROKEN, ids=[h.__name__ for _, h in BROKEN])
def test_a_history_that_breaks_one_invariant_is_found_to_break_that_one_alone(invariant, history):
    evidence = history()
    assert broken(evidence) == {invariant}, [str(f) for f in check(evidence)]


def test_an_artifact_whose_bytes_are_cut_off_is_found(tmp_path: Path):
    content = b"0123456789"
    sha = hashlib.sha256(content).hexdigest()
    blob = tmp_path / "objects" / sha[:2] / sha[2:]
    blob.parent.mkdir(parents=True)
    history, _ = one_job()
    entry = {"path": "model.safetensors", "size": len(content), "sha256": sha}
    history.row("artifact", id="m", kind="model", files=[entry], published=True, corrupt=False, job="a")
    found = []
    for stored in (content, content[:4]):
        blob.write_bytes(stored)
        found.append(broken(history.evidence(artifacts=tmp_path)))
    assert found == [set(), {"I20"}]


LAWFUL = {
    "one job": lambda: one_job()[0].evidence(settled=True),
    "one job after another": lambda: a_chain()[0].evidence(110, settled=True),
    "two nodes, one lost": lambda: two_nodes()[0].evidence(200),
    "a lost node": lambda: lost_and_found()[0].evidence(200, settled=True),
    "an eviction": lambda: broken_pool.an_eviction().evidence(120),
    "a checkpoint given up": checkpoint_given_up,
    "a damaged checkpoint": checkpoint_damaged,
    "a job in another's place": lambda: replacing().evidence(),
    "a failing GPU": broken_pool.a_gpu_that_failed_and_was_tested,
}


@pytest.mark.parametrize("history", LAWFUL.values(), ids=LAWFUL)
def test_a_lawful_history_is_silent(history):
    assert [str(f) for f in check(history())] == []


@pytest.mark.parametrize(("answered", "found"), [((), 0), ((61.0,), 0), ((51.0,), 1), ((41.0,), 1)])
def test_a_part_of_a_broken_gang_is_to_stop_once_its_node_hears_of_it(answered, found):
    # The gang broke at 40; the part lived until 62, and a node has 10 s for a kill.
    history, _grant = two_nodes()
    history.truth[-1].update(at=1062, wall=EPOCH + 62)
    history.truth += [{"event": "answered", "at": 1000 + at, "wall": EPOCH + at, "node": "n1", "sent": 999.9 + at}
                      for at in (30.0, *answered)]  # fmt: skip
    assert len(list(an_attempt_is_granted_whole_and_ends_together(history.evidence(200)))) == found


@pytest.mark.parametrize(("until", "found"), [(75.4, 0), (75.6, 1)])
def test_a_cancelled_job_may_live_until_the_fence_of_a_node_that_heard_nothing_since(until, found):
    # Cancelled at 20: 45 s to the fence and 10 s for the kill, more than the 40 s and a heartbeat of one that hears it.
    assert len(list(a_cancelled_job_starts_no_more_and_goes(broken_jobs.alive_after_a_cancel(until)))) == found


def test_one_of_a_lower_level_with_less_time_left_may_start_before_others_get_their_gpus():
    evidence = broken_pool.a_lower_level_went_first()
    min(evidence.table("attempt"), key=lambda row: row["granted_at"])["remaining_s"] -= 1
    assert not broken(evidence)


@pytest.mark.parametrize(("spared", "found"), [(True, 0), (False, 2)])
def test_what_was_kept_is_free_again_once_another_victim_did_not_save_and_runs_on(spared, found):
    history = broken_pool.an_eviction(end=False)
    if spared:
        history.event(85, "not_saved", "job", "b", actor="scheduler 1", data={"unsaved": 1})
    history.grant("a", 90, "n1-g0", "n1-g1")
    assert len(list(freed_gpus_go_to_whom_they_were_freed_for(history.evidence(120)))) == found


def test_every_invariant_is_decided_and_broken_once_or_has_its_reason():
    numbers = {f"I{n}" for n in range(1, 37)}
    assert set(DECIDED.values()) | set(NOT_DECIDED) == numbers
    assert not set(DECIDED.values()) & set(NOT_DECIDED)
    assert {number for number, _ in BROKEN} == set(DECIDED.values())


ENDINGS = ("SUCCEEDED", "FAILED", "PREEMPTED", "LOST")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ENDINGS), st.booleans(), st.integers(90, 300)), min_size=1, max_size=6))
def test_any_lawful_life_of_jobs_is_silent(lives):
    """Jobs one after another on one node: each attempt saves or not, and ends in one of the ways there are."""
    history, at = History(), 10.0
    gpus = history.node("n1")
    waiting: list[str] = []
    for number, (ending, saves, length) in enumerate(lives):
        job = waiting.pop() if waiting else history.job(f"j{number}", at, gpus=2)
        grant = history.grant(job, at + 5, *gpus)
        history.run(grant, at + 7, at + length - 1)
        if saves:
            history.save(grant, at + 20, number)
        if ending == "LOST":
            history.event(at + length, "node_lost", "node", "n1", actor="scheduler 1", data={"to": "LOST"})
        cause = {"LOST": {"cause": "node_lost"}, "PREEMPTED": {"why": "preempt"}, "FAILED": {}, "SUCCEEDED": {}}
        history.finish(grant, at + length, ending, **cause[ending])
        if ending == "LOST":
            history.node("n1", at + length + 1)
        waiting += [job] * (ending in ("LOST", "PREEMPTED"))
        history.find("job", "id", job)["app_failures"] += ending == "FAILED"
        at += length + 700
    assert [str(f) for f in check(history.evidence(at))] == []
