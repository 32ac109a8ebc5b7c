"""A job whose ``start_by`` comes before its expected start is told so, with what would be in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core import played
from scheduling.core.decide import decide
from scheduling.core.estimate import estimate
from scheduling.core.explain import Explainer
from scheduling.core.plan import Reason
from scheduling.core.pool import Pool
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, Window

from .build import codes_of, gang, gpus, job, live, loose, order_of, pool, promised, rule, world

HOUR_MS = 3_600_000


def reasons(*jobs, the_pool: Pool | None = None, ends: int = 3600) -> tuple[Reason, ...]:
    """Why the job "1" waits for the GPU that another has until second ``ends``."""
    pool = loose(1) if the_pool is None else the_pool
    running = [live("r", "n0/0", ends=ends)] if pool.nodes else []
    plan = decide(world(pool, *jobs, running=running, now_ms=0))
    return next(hold.reasons for hold in plan.holds if hold.job == "1")


def test_a_job_that_is_expected_only_after_its_latest_start_is_told_when_it_leaves_and_what_would_be_in_time():
    first = reasons(job("1", start_by_ms=HOUR_MS // 2))[0]
    assert first.code == "EXPIRES"
    assert first.message == (
        "It leaves the queue on 1 Jan 1970, 00:30 UTC, before it is expected to start: on 1 Jan 1970, 01:00 UTC at the "
        "soonest."
    )


def test_what_is_said_to_be_in_time_is_in_time():
    late = job("1", start_by_ms=HOUR_MS // 2)
    ((least, _, _),) = later_starts(world(loose(1), late, running=[live("r", "n0/0", ends=3600)], now_ms=0), "1")
    assert [each.code for each in reasons(job("1", start_by_ms=least))] == ["BUSY"]


def test_why_it_waits_is_told_too():
    assert [each.code for each in reasons(job("1", start_by_ms=HOUR_MS // 2))] == ["EXPIRES", "BUSY"]


def test_a_start_at_the_very_instant_is_too_late():
    assert reasons(job("1", start_by_ms=HOUR_MS))[0].code == "EXPIRES"


def test_a_job_that_is_expected_around_its_latest_start_may_leave_the_queue():
    waits = [job("0", 1, at=0), job("1", at=1, start_by_ms=HOUR_MS + 60_000)]
    first = reasons(*waits)[0]
    assert (first.code, first.message) == (
        "MAY_EXPIRE",
        "It may leave the queue before it starts: it has until 1 Jan 1970, 01:01 UTC, and as the queue stands it does "
        "not start by then.",
    )
    seen = looked_at(world(loose(1), *waits, running=[live("r", "n0/0", ends=3600)], now_ms=0))
    first = seen.of("1")[0]
    assert first.code == "MAY_EXPIRE"
    assert "is expected between 1 Jan 1970, 01:00 UTC and 1 Jan 1970, 03:00 UTC" in first.message


@pytest.mark.parametrize("limit_ms", [HOUR_MS // 2, HOUR_MS + 60_000, 2 * HOUR_MS - 1])
def test_who_looks_at_one_that_leaves_is_told_when_it_would_start_if_it_stayed(limit_ms):
    def told(limit: int | None):
        waits = [job("0", 1, at=0), job("1", at=1, start_by_ms=limit)]
        snapshot = world(loose(1), *waits, running=[live("r", "n0/0", ends=3600)], now_ms=0)
        explainer = looked_at(snapshot)
        scheduler = explainer._scheduler
        return replace(estimate(scheduler, explainer, scheduler.waiting.by_id["1"]), promised=False)

    assert told(limit_ms) == told(None)


def looked_at(snapshot: Snapshot) -> Explainer:
    """The explanations for who looks at single jobs."""
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return Explainer(scheduler, plays_stays=True)


@pytest.mark.parametrize("start_by_ms", [None, HOUR_MS + 1])
def test_a_job_that_is_in_time_or_has_no_limit_is_told_nothing_of_it(start_by_ms):
    assert [each.code for each in reasons(job("1", start_by_ms=start_by_ms))] == ["BUSY"]


def test_a_job_without_a_place_in_the_pool_is_told_when_it_leaves():
    found = reasons(job("1", start_by_ms=HOUR_MS), the_pool=Pool())
    assert [each.code for each in found] == ["EXPIRES", "NO_NODES"]
    assert found[0].message.startswith("It leaves the queue on 1 Jan 1970, 01:00 UTC, and there is no start in sight")


def test_a_job_that_rests_after_a_failure_until_its_latest_start_is_told_so():
    late = job("1", eligible_at_ms=2 * HOUR_MS, start_by_ms=HOUR_MS)
    assert codes_of(decide(world(loose(1), late, now_ms=0))) == {"1": ["EXPIRES", "BACKOFF"]}


def test_an_expected_start_is_told_down_to_the_minute_and_what_would_be_in_time_up():
    late = job("1", start_by_ms=HOUR_MS // 2)
    assert "on 1 Jan 1970, 01:00 UTC at the soonest" in reasons(late, ends=3629)[0].message
    found = later_starts(world(loose(1), late, running=[live("r", "n0/0", ends=3629)], now_ms=0), "1")
    assert [least for least, _, _ in found] == [HOUR_MS + 60_000]


@pytest.mark.parametrize(("start_by_s", "holds", "starts"), [(180, [], ["small"]), (181, ["large"], [])])
def test_a_job_that_leaves_before_it_could_start_holds_no_reservation_and_keeps_nobody_waiting(
    start_by_s, holds, starts
):
    running = [live("r", *(f"n0/{n}" for n in range(26)), ends=180)]
    jobs = [job("large", 28, start_by_ms=start_by_s * 1000), job("small", 2, at=1, seconds=300)]
    plan = decide(world(loose(28), *jobs, running=running, now_ms=2000))
    assert (list(promised(plan)), order_of(plan)) == (holds, starts)


def test_the_next_job_gets_the_reservation_that_it_could_not_use():
    jobs = [job("late", 2, start_by_ms=100_000), job("next", 2, at=1)]
    plan = decide(world(loose(2), *jobs, running=[live("r", "n0/0", ends=180)], now_ms=2000))
    assert promised(plan) == {"next": (180, ["n0/0", "n0/1"])}


@pytest.mark.parametrize(("more_s", "holds"), [(0, []), (1, ["old"])])
def test_nor_does_one_that_waits_over_a_day(more_s, holds):
    now_ms = 25 * HOUR_MS
    old = job("old", start_by_ms=now_ms + (180 + more_s) * 1000)
    running = [live("r", "n0/0", now_ms=now_ms, seconds=180)]
    assert list(promised(decide(world(loose(1), old, running=running, now_ms=now_ms)))) == holds


@pytest.mark.parametrize(("start_by_s", "holds"), [(900, []), (901, ["1"])])
def test_nor_does_one_that_a_window_keeps_until_then(start_by_s, holds):
    closed = Window("service", ("n0",), 200_000, 900_000)
    waiting = job("1", 2, seconds=300, start_by_ms=start_by_s * 1000)
    plan = decide(world(loose(2), waiting, running=[live("r", "n0/0", ends=100)], windows=(closed,), now_ms=0))
    assert list(promised(plan)) == holds


@pytest.mark.parametrize(("start_by_s", "holds"), [(900, []), (901, ["1"])])
def test_nor_does_a_gang(start_by_s, holds):
    the_pool = pool(gpus("n0", 1), gpus("n1", 1))
    waiting = gang("1", 2, 1, start_by_ms=start_by_s * 1000)
    plan = decide(world(the_pool, waiting, running=[live("r", "n0/0", ends=900)], now_ms=0))
    assert list(promised(plan)) == holds


def later_starts(snapshot: Snapshot, name: str) -> list[tuple[int, int | None, str]]:
    """The later starts that are offered to the job: (least latest start, start, words). Theirs are the starts that are
    expected; of the other changes the soonest are told."""
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    found = Explainer(scheduler).helps(scheduler.waiting.by_id[name])
    assert all(each.expected == (each.name == "start_by_at_least_ms") for each in found)
    return [(each.value, each.starts_ms, each.words) for each in found if each.name == "start_by_at_least_ms"]


@pytest.mark.parametrize("jobs", [100, 0])
def test_a_later_latest_start_is_offered_to_a_job_that_would_leave(jobs, monkeypatch):
    monkeypatch.setattr(played, "MAX_JOBS", jobs)  # with 0 no queue is short enough to be played
    waiting = job("1", start_by_ms=HOUR_MS // 2)
    snapshot = world(loose(1), waiting, running=[live("r", "n0/0", ends=3600)], now_ms=0)
    words = "a latest start of 1 Jan 1970, 01:01 UTC or later"
    assert later_starts(snapshot, "1") == [(HOUR_MS + 60_000, HOUR_MS, words)]


@pytest.mark.parametrize("start_by_ms", [None, HOUR_MS + 1])
def test_it_is_not_offered_to_one_that_is_in_time(start_by_ms):
    waiting = job("1", start_by_ms=start_by_ms)
    assert later_starts(world(loose(1), waiting, running=[live("r", "n0/0", ends=3600)], now_ms=0), "1") == []


def test_what_is_offered_is_late_enough_for_what_jobs_ahead_will_take():
    """By the work ahead of it, shared out over all GPUs, the job would start long before: its node is busy first."""
    the_pool = pool(gpus("n0", 1), gpus("n1", 9))
    busy = live("r", *(f"n1/{n}" for n in range(9)), ends=36_000)
    here = [rule("node", "In", "n0")]
    ahead = [job(f"a{n}", at=n, rules=here) for n in range(4)]
    last = job("1", at=9, start_by_ms=HOUR_MS // 2, rules=here)
    running = [busy, live("s", "n0/0", ends=3600)]
    found = later_starts(world(the_pool, *ahead, last, running=running, now_ms=10_000), "1")
    assert [(value, start) for value, start, _ in found] == [(5 * HOUR_MS + 60_000, 5 * HOUR_MS)]
