"""A job whose ``start_by`` comes before its expected start is told so, with what would be in time."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Reason
from scheduling.core.pool import Pool

from .build import codes_of, job, live, loose, world

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
        "soonest. With a latest start of 1 Jan 1970, 01:01 UTC or later it would be in time."
    )


def test_what_is_said_to_be_in_time_is_in_time():
    least = dict(reasons(job("1", start_by_ms=HOUR_MS // 2))[0].numbers)["start_by_at_least_ms"]
    assert [each.code for each in reasons(job("1", start_by_ms=int(least)))] == ["BUSY"]


def test_why_it_waits_is_told_too():
    assert [each.code for each in reasons(job("1", start_by_ms=HOUR_MS // 2))] == ["EXPIRES", "BUSY"]


def test_a_start_at_the_very_instant_is_too_late():
    assert reasons(job("1", start_by_ms=HOUR_MS))[0].code == "EXPIRES"


def test_a_job_that_is_expected_around_its_latest_start_may_leave_the_queue():
    ahead = job("0", 1, at=0)
    first = reasons(ahead, job("1", at=1, start_by_ms=HOUR_MS + 60_000))[0]
    assert first.code == "MAY_EXPIRE"
    assert "is expected between 1 Jan 1970, 01:00 UTC and 1 Jan 1970, 03:00 UTC" in first.message


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
    first = reasons(job("1", start_by_ms=HOUR_MS // 2), ends=3629)[0]
    assert "on 1 Jan 1970, 01:00 UTC at the soonest" in first.message
    assert dict(first.numbers)["start_by_at_least_ms"] == HOUR_MS + 60_000
