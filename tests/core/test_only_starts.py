"""``Scheduler.only_starts``, which the simulator sets: what a plan leaves out, and that nothing else differs by it."""

from __future__ import annotations

from random import Random

import pytest

from scheduling.core.plan import Plan
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot

from .agreement import Twins, decided, essence
from .build import NOW, job, live, loose, order_of, patient, promised, world
from .random_worlds import ROOMY, TIGHT, URGENT, a_world

TASTES = {"roomy": ROOMY, "tight": TIGHT, "urgent": URGENT}
BUSY = [live("r", "n0/0", ends=600)]  # one of two GPUs, for 590 seconds more
LARGE = job("large", 2, at=1)


def kept(snapshot: Snapshot, *, only_starts: bool = True) -> Scheduler:
    scheduler = Scheduler(snapshot)
    scheduler.only_starts = only_starts
    return scheduler


def both(*jobs) -> tuple[Plan, Plan]:
    """The plans of one world, without the flag and with it."""
    snapshot = world(loose(2), *jobs, running=BUSY, policy=patient())
    whole, lean = (kept(snapshot, only_starts=flag).cycle(NOW) for flag in (False, True))
    return whole, lean


def but_for_reservations(found: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in found.items() if name != "reservations"}


def test_a_reservation_on_which_no_start_depends_is_left_out():
    whole, lean = both(LARGE)
    assert (order_of(whole), order_of(lean)) == ([], [])
    assert promised(whole) == {"large": (600, ["n0/0", "n0/1"])}
    assert promised(lean) == {}


@pytest.mark.parametrize(("seconds", "starts"), [(590, ["small"]), (591, [])])
def test_a_reservation_that_another_job_would_delay_holds_it_back_all_the_same(seconds, starts):
    whole, lean = both(LARGE, job("small", at=2, level="Low", seconds=seconds))
    assert (order_of(whole), order_of(lean)) == (starts, starts)


def test_of_several_reservations_those_after_the_last_start_are_left_out():
    jobs = [job("first", 2, level="High"), job("small", seconds=590), job("last", 2, level="Low")]
    whole, lean = both(*jobs)
    assert (order_of(whole), order_of(lean)) == (["small"], ["small"])
    assert (list(promised(whole)), list(promised(lean))) == (["first", "last"], ["first"])


def test_what_was_left_out_is_found_when_a_job_comes_that_could_be_in_its_way():
    scheduler = kept(world(loose(2), LARGE, running=BUSY, policy=patient()))
    assert promised(scheduler.cycle(NOW)) == {}
    scheduler.submit(job("long", at=10, level="Low", seconds=591))
    plan = scheduler.cycle(NOW)
    assert (order_of(plan), list(promised(plan))) == ([], ["large"])


@pytest.mark.parametrize("taste", TASTES)
def test_in_any_world_the_plan_is_the_same_but_for_reservations_that_are_missing(taste):
    left_out = 0
    for seed in range(40):
        snapshot = a_world(Random(seed), TASTES[taste])
        whole, lean = (essence(kept(snapshot, only_starts=flag).cycle(snapshot.now_ms)) for flag in (False, True))
        assert but_for_reservations(lean) == but_for_reservations(whole), f"seed {seed}"
        missing = [each for each in whole["reservations"] if each not in lean["reservations"]]
        assert lean["reservations"] == [each for each in whole["reservations"] if each not in missing], f"seed {seed}"
        left_out += len(missing)
    assert left_out > 0


@pytest.mark.parametrize("taste", TASTES)
def test_over_time_the_plans_are_the_same_but_for_reservations(taste):
    for seed in range(3):
        twins = Twins(Random(seed), TASTES[taste])
        twins.scheduler.only_starts = True
        for cycle in range(12):
            before, plan = twins.step()
            expected = but_for_reservations(decided(before))
            assert but_for_reservations(essence(plan)) == expected, f"seed {seed}, cycle {cycle}"
