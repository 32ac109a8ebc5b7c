"""Starts before what is promised to others: the estimate, the reason, the plan and the scheduler itself agree."""

from __future__ import annotations

import pytest

from scheduling.core import played
from scheduling.core.decide import decide
from scheduling.core.estimate import Estimate, estimate
from scheduling.core.explain import Explainer
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob, Window

from .build import gang, gpus, job, live, loose, node, pool, rule, world
from .playing import true_starts

S = 1000


def below_a_large_one(*waiting: WaitingJob) -> Snapshot:
    """Node ``big`` has two groups of 4, one held to second 130 and one to 1210; a job of 8 has both from then on for
    1200 seconds. The other node is held for an hour."""
    the_pool = pool(gpus("big", 4, group="g0"), gpus("big", 4, group="g1", first=4), gpus("n1", 4, group="g2"))
    running = [
        live("a", *(f"big/{n}" for n in range(4)), ends=130),
        live("b", *(f"big/{n}" for n in range(4, 8)), ends=1210),
        live("c", *(f"n1/{n}" for n in range(4))),
    ]
    return world(the_pool, job("large", 8, at=1, seconds=1200), *waiting, running=running)


def short(seconds: int, **more) -> WaitingJob:
    return job("short", 4, at=2, seconds=seconds, rules=[rule("node", "In", "big")], **more)


def explained(snapshot: Snapshot) -> tuple[Scheduler, Explainer]:
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return scheduler, Explainer(scheduler)


def estimated(snapshot: Snapshot, name: str) -> Estimate:
    scheduler, explainer = explained(snapshot)
    found = estimate(scheduler, explainer, scheduler.waiting.by_id[name])
    assert found is not None
    return found


@pytest.mark.parametrize("jobs", [100, 0])
@pytest.mark.parametrize(("seconds", "start"), [(300, 130), (1080, 130), (1081, 2410)])
def test_a_job_is_expected_before_a_reservation_if_it_ends_by_its_start(seconds, start, jobs, monkeypatch):
    monkeypatch.setattr(played, "MAX_JOBS", jobs)  # with 0 no queue is short enough to be played
    found = estimated(below_a_large_one(short(seconds)), "short")
    assert (found.low, found.at, found.high) == (start * S, start * S, start * S)


@pytest.mark.parametrize(("seconds", "start"), [(1080, 130), (1081, 2410)])
def test_it_does_start_then(seconds, start):
    assert true_starts(below_a_large_one(short(seconds)))["short"] == start * S


def test_the_reasons_of_jobs_of_one_kind_tell_each_its_own_start():
    others = [job(f"other{n}", 4, at=3, seconds=n, rules=[rule("node", "In", "big")]) for n in (1080, 1081)]
    _, explainer = explained(below_a_large_one(*others))
    told = [dict(explainer.of(f"other{n}")[0].numbers)["earliest_at_ms"] for n in (1080, 1081)]
    assert told == [120 * S, 2400 * S]  # by the minute, down


def test_the_plan_of_such_a_job_is_told_the_same():
    scheduler, explainer = explained(below_a_large_one())
    found = preview(scheduler, explainer, short(300)).start
    assert found is not None
    assert (found.low, found.at, found.high) == (130 * S, 130 * S, 130 * S)


@pytest.mark.parametrize(("start_by", "codes"), [(131, ["BUSY"]), (130, ["EXPIRES", "BUSY"])])
def test_it_is_feared_to_leave_only_if_it_would_not_start_before_the_reservation_either(start_by, codes):
    _, explainer = explained(below_a_large_one(short(300, start_by_ms=start_by * S)))
    assert [reason.code for reason in explainer.of("short")] == codes


def test_who_may_lose_the_gap_to_others_is_told_the_start_behind_the_reservation_as_the_latest():
    waiting = [short(300), job("rival", 4, at=3, seconds=300, rules=[rule("node", "In", "big")])]
    found = estimated(below_a_large_one(*waiting), "short")
    assert (found.low, found.at, found.high) == (130 * S, 130 * S, 2410 * S)


def test_gpus_that_are_free_one_after_the_other_but_never_together_are_no_start():
    nodes = [node("n0"), node("n1")]
    closed = Window("service", ("n0",), 60 * S, 160 * S)
    the_pool = pool(gpus("n0", 1), gpus("n1", 1), nodes=nodes)
    running = [live("r", "n1/0", ends=50)]
    found = estimated(world(the_pool, gang("1", 2, 1, seconds=30), running=running, windows=(closed,)), "1")
    assert (found.low, found.at, found.high) == (160 * S, 160 * S, 160 * S)


def test_a_lower_reservation_that_fits_before_a_higher_one_starts_before_it():
    the_pool = pool(gpus("n0", 2), gpus("n1", 2))
    running = [live("r", "n0/0", "n0/1", ends=600), live("s", "n1/0", ends=100)]
    jobs = [gang("high", 2, 2, level="High"), job("low", 2, level="Low", seconds=500)]
    snapshot = world(the_pool, *jobs, running=running)
    assert {each.job: each.start_ms for each in decide(snapshot).reservations} == {"high": 600 * S, "low": 4200 * S}
    found = estimated(snapshot, "low")
    assert (found.low, found.at, found.high) == (100 * S, 100 * S, 100 * S)
    assert true_starts(snapshot)["low"] == 100 * S


def test_a_queue_that_is_too_long_to_be_played_is_told_by_its_work(monkeypatch):
    monkeypatch.setattr(played, "MAX_JOBS", 0)
    waiting = [job(str(n), at=n) for n in range(3)]
    found = estimated(world(loose(1), *waiting, running=[live("r", "n0/0")]), "2")
    first = 3610 * S
    assert (found.low, found.at, found.high) == (first, first + 7200 * S, first + 14_400 * S)
