"""When a waiting job is expected to start, and whether that is promised."""

from __future__ import annotations

import pytest

from scheduling.core.estimate import Estimate, estimate, latest, soonest
from scheduling.core.explain import Explainer
from scheduling.core.scheduler import Scheduler

from .build import NOW, job, live, loose, world

HOUR_MS = 3_600_000


def estimated(name: str, *jobs, running) -> Estimate | None:
    snapshot = world(loose(2), *jobs, running=running)
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return estimate(scheduler, Explainer(scheduler), scheduler.waiting.by_id[name])


def busy():
    return [live("r", "n0/0", "n0/1")]


def test_the_first_job_with_a_reservation_starts_when_it_begins():
    found = estimated("large", job("large", 2, at=1), running=busy())
    assert found == Estimate(NOW + HOUR_MS, NOW + HOUR_MS, NOW + HOUR_MS, rank=1, promised=True)


def test_a_reservation_behind_jobs_that_hold_none_is_no_promise():
    found = estimated("late", job("single", at=1), job("late", 2, at=2, level="Low"), running=busy())
    assert found is not None
    assert (found.promised, found.rank, found.at - found.low) == (False, 2, HOUR_MS)


def test_the_work_ahead_is_shared_out_over_the_pool():
    found = estimated("third", job("1", at=1), job("2", at=2), job("third", at=3), running=busy())
    assert found == Estimate(NOW + 2 * HOUR_MS, NOW + HOUR_MS, NOW + 3 * HOUR_MS, rank=3, promised=False)


def test_an_early_end_is_told_as_its_minute_down_and_a_late_one_up():
    assert [(soonest(ms), latest(ms)) for ms in (60_000, 60_001, 119_999)] == [
        (60_000, 60_000), (60_000, 120_000), (60_000, 120_000),
    ]  # fmt: skip


def test_an_estimate_that_does_not_hold_what_is_expected_can_not_be_made():
    with pytest.raises(ValueError, match="from 10 to 11 does not hold what is expected, 9"):
        Estimate(at=9, low=10, high=11, rank=1, promised=False)
