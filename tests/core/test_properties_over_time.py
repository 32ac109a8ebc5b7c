"""The properties of many cycles in a row: shares, starvation, the end of nominations."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from scheduling.core.decide import decide

from .agreement import Twins
from .build import DEFAULT_POLICY, HOUR_MS, gang, groups, job, loose, weighted
from .random_worlds import URGENT
from .unfolding import World

TICK_MS = 60_000


def test_property_12_after_a_day_the_shares_are_within_two_percent_of_the_weights():
    there, started = World(loose(8), weighted(A=3.0, B=1.0)), Counter[str]()
    for hour in range(24):
        now = hour * HOUR_MS
        for name in list(there.live):
            there.ended(name, now)
        there.submit(*(job(f"{p}{hour}-{n}", at=hour * 3600, project=p) for p in "AB" for n in range(8)))
        plan = decide(there.snapshot(now))
        started.update(there.waiting[start.job].project for start in plan.starts)
        there.carry_out(plan)
    assert started.total() == 24 * 8
    assert started["A"] / started.total() == pytest.approx(0.75, abs=0.02)


def test_property_12_the_first_cycle_is_split_within_one_job_of_the_weights():
    for a, b in ((1, 1), (2, 1), (3, 1), (5, 3)):
        jobs = [job(f"{project}{n}", at=n, project=project) for project in "AB" for n in range(8)]
        there = World(loose(8), weighted(A=float(a), B=float(b)))
        there.submit(*jobs)
        started = Counter(start.job[0] for start in decide(there.snapshot(100_000)).starts)
        assert abs(started["A"] - 8 * a / (a + b)) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_property_14_a_blocked_gang_starts_by_its_first_estimate(seed):
    dice = Random(seed)
    there, estimate, started, ends = World(groups(3, 4), DEFAULT_POLICY), None, None, dict[str, int]()
    for tick in range(150):
        now = tick * TICK_MS
        for name in [name for name, end in ends.items() if end <= now]:
            there.ended(name, now)
            del ends[name]
        there.submit(
            *(job(f"s{tick}-{n}", dice.randint(1, 3), at=tick * 60, seconds=60 * dice.randint(5, 40)) for n in range(3))
        )
        if tick == 20:
            there.submit(gang("gang", 2, 4, at=tick * 60 - 1, level="High"))
        plan = decide(there.snapshot(now))
        estimate = estimate or next((each.start_ms for each in plan.reservations if each.job == "gang"), None)
        there.carry_out(plan)
        for start in plan.starts:
            most = (there.live[start.job].end_ms - now) // TICK_MS
            ends[start.job] = now + TICK_MS * dice.randint(1, most)
            started = now if start.job == "gang" else started
        if started is not None:
            break
    assert estimate is not None
    assert started is not None
    assert started <= estimate


def test_property_15_every_nomination_ends_by_its_deadline():
    for seed in range(6):
        twins = Twins(Random(seed), URGENT)
        for _ in range(10):
            _, plan = twins.step()
            late = [each.job for each in twins.world.nominations.values() if each.deadline_ms <= plan.now_ms]
            assert late == [], f"seed {seed}"
