"""The engine against the slow reference: equal plans on random worlds, and over time equal to an engine built anew.

``EMEP_DEEP=1`` tries many more.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decide import decide

from .agreement import Twins, assert_follows_the_rules, decided, essence
from .random_worlds import DRIFT, HURRIED, ROOMY, TIGHT, UNSAVED, URGENT, Taste, a_world

DEEP = 40 if os.environ.get("EMEP_DEEP") else 1
TASTES = {
    "mixed": Taste(silence=True), "roomy": ROOMY, "tight": TIGHT, "urgent": URGENT, "unsaved": UNSAVED,
    "hurried": HURRIED,
}  # fmt: skip
PLACED = TASTES | {"drift": DRIFT}
HARD = {"tight": (33,), "urgent": (13, 25)}  # worlds in time that have found mistakes
SEEDS = 50 * DEEP


@settings(max_examples=40 * DEEP, deadline=None)
@given(st.randoms(use_true_random=False))
def test_property_6_the_plan_of_a_small_world_is_that_of_the_reference(dice):
    snapshot = a_world(dice, Taste(nodes=3, per_node=4, jobs=5, running=4, silence=True))
    assert_follows_the_rules(snapshot, decide(snapshot))


@pytest.mark.parametrize("taste", PLACED)
def test_property_6_the_plan_of_a_larger_world_is_that_of_the_reference(taste):
    for seed in range(SEEDS):
        snapshot = a_world(Random(seed), PLACED[taste])
        try:
            assert_follows_the_rules(snapshot, decide(snapshot))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("taste", TASTES)
def test_property_16_a_scheduler_that_is_kept_decides_what_one_built_anew_decides(taste):
    for seed in (*range(5 * DEEP), *HARD.get(taste, ())):
        twins = Twins(Random(seed), TASTES[taste])
        for cycle in range(12):
            before, plan = twins.step()
            assert essence(plan) == decided(before), f"seed {seed}, cycle {cycle}"


@pytest.mark.parametrize("taste", TASTES)
def test_a_submission_that_is_said_to_change_nothing_changes_nothing(taste):
    skipped = 0
    # In the last one a job comes right after its project has started something, which does not count as planned then.
    for seed in [*range(12 * DEEP), 292]:
        twins = Twins(Random(seed), TASTES[taste])
        for _ in range(4):
            twins.step()
        before = decided(twins.world.snapshot(twins.now))
        for job in twins.late_jobs(20):
            if twins.scheduler.submit(job):
                break
            skipped += 1
            twins.world.submit(job)
            assert decided(twins.world.snapshot(twins.now)) == before, f"seed {seed}: {job.id}"
    assert skipped > 0


def test_property_16_a_scheduler_that_is_kept_follows_the_rules():
    for seed in range(1000, 1000 + 4 * DEEP):
        twins = Twins(Random(seed), TASTES["tight"])
        for cycle in range(12):
            before, plan = twins.step()
            try:
                assert_follows_the_rules(before, plan)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, cycle {cycle}: {error}") from error


def test_gangs_evict_the_cheapest_set_nearly_always():
    judged = [
        costs
        for seed in range(400, 400 + 60 * DEEP)
        for snapshot in [a_world(Random(seed), URGENT)]
        for costs in assert_follows_the_rules(snapshot, decide(snapshot)).gang_costs
    ]
    assert judged
    assert sum(engine == best for engine, best in judged) >= 0.99 * len(judged)
