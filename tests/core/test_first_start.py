"""When a job starts at the soonest whose time is still to come: the plan and the job are told the same."""

from __future__ import annotations

import pytest

from scheduling.core.estimate import Estimate, estimate
from scheduling.core.explain import Explainer
from scheduling.core.preview import Preview, preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import WaitingJob, Window

from .build import gang, gpus, job, live, loose, pool, rule, world


def seen(waiting: WaitingJob, *others, the_pool, **more) -> tuple[Preview, Estimate | None, Scheduler, Explainer]:
    """The job as a plan, and its estimate once it waits."""
    before = world(the_pool, *others, **more)
    scheduler = Scheduler(before)
    scheduler.cycle(before.now_ms)
    plan = preview(scheduler, Explainer(scheduler), waiting)
    after = world(the_pool, *others, waiting, **more)
    scheduler = Scheduler(after)
    scheduler.cycle(after.now_ms)
    explainer = Explainer(scheduler)
    return plan, estimate(scheduler, explainer, scheduler.described(waiting)), scheduler, explainer


def under_a_reservation(**more) -> tuple[Preview, Estimate | None, Scheduler, Explainer]:
    """A gang holds a reservation from second 600 on, and a job of one GPU comes that is to lie on its idle node."""
    running = [live("r", *(f"n0/{n}" for n in range(2)), ends=600)]
    waiting = job("1", at=9, rules=[rule("node", "In", "n1")], not_before_ms=40_000, **more)
    return seen(waiting, gang("large", 2, 2, at=1), the_pool=pool(gpus("n0", 2), gpus("n1", 2)), running=running)


def test_a_short_job_that_is_to_start_later_is_expected_at_its_time_under_a_reservation():
    plan, found, *_ = under_a_reservation(seconds=40)
    assert found is not None
    assert (found.low, found.at, found.high, found.told_low) == (40_000, 40_000, 40_000, 40_000)
    assert plan.verdict == "now"


@pytest.mark.parametrize(("seconds", "low"), [(560, 40_000), (561, 4_200_000)])
def test_it_is_expected_behind_the_reservation_when_it_would_not_end_before_that(seconds, low):
    plan, found, *_ = under_a_reservation(seconds=seconds)
    assert found is not None
    assert found.low == low
    assert plan.verdict == ("now" if low == 40_000 else "later")


def test_a_window_that_ends_before_its_time_is_no_reason_and_no_change_is_offered():
    closed = Window("service", ("n0",), 20_000, 30_000)
    plan, found, *_ = seen(job("1", not_before_ms=40_000), the_pool=loose(1), windows=(closed,))
    assert ([reason.code for reason in plan.reasons], plan.alternatives) == (["NOT_BEFORE"], ())
    assert found is not None
    assert found.low == 40_000


def test_a_window_from_its_time_on_keeps_it_to_the_window_s_end_exactly():
    closed = Window("service", ("n0",), 120_000, 133_000)
    waiting = job("1", not_before_ms=40_000)
    plan, found, scheduler, explainer = seen(waiting, the_pool=loose(1), windows=(closed,))
    assert found is not None
    assert (plan.verdict, found.told_low) == ("later", 133_000)
    assert [reason.code for reason in plan.reasons] == ["NOT_BEFORE", "WINDOW"]
    assert list(plan.alternatives) == explainer.helps(scheduler.described(waiting))
    assert [(each.name, each.value, each.starts_ms) for each in plan.alternatives] == [
        ("duration_at_most_s", 60, 40_000)
    ]


def test_a_window_s_end_is_told_exactly_and_the_end_of_a_job_by_its_minute():
    closed = Window("service", ("n0",), 0, 133_000)
    _, found, _, explainer = seen(job("1"), the_pool=loose(1), windows=(closed,))
    _, behind, _, _ = seen(job("1"), the_pool=loose(1), running=[live("r", "n0/0", ends=133)])
    assert found is not None
    assert behind is not None
    assert (found.told_low, behind.told_low) == (133_000, 120_000)
    assert dict(explainer.of("1")[0].numbers)["earliest_at_ms"] == 133_000
