"""What a scheduler keeps between cycles beside its decisions: expected releases in order, and what reasons rest on."""

from __future__ import annotations

from random import Random

import pytest

from scheduling.core.bits import places_in
from scheduling.core.explain import Explainer
from scheduling.core.scheduler import Scheduler

from .agreement import Twins
from .random_worlds import ROOMY, TIGHT, URGENT, Taste

TASTES = {"mixed": Taste(), "roomy": ROOMY, "tight": TIGHT, "urgent": URGENT}


@pytest.mark.parametrize("taste", TASTES)
def test_the_reasons_of_a_scheduler_that_is_kept_are_those_of_one_built_anew(taste):
    compared = 0
    for seed in range(3):
        twins = Twins(Random(seed), TASTES[taste])
        for cycle in range(8):
            before, _ = twins.step()
            anew = Scheduler(before)
            anew.cycle(before.now_ms)
            kept_reasons, reasons = Explainer(twins.scheduler), Explainer(anew)
            for job in anew.everyone_waiting():
                assert kept_reasons.of(job.id) == reasons.of(job.id), f"seed {seed}, cycle {cycle}: {job.id}"
                compared += 1
    assert compared > 20


def test_expected_releases_stay_in_order_as_jobs_come_and_go():
    compared = 0
    for seed in range(4):
        twins = Twins(Random(seed), TIGHT)
        for _ in range(10):
            twins.step()
            releases = twins.scheduler.releases
            for view, kind, need in list(releases.forecasts):
                forecast = releases.forecast(view, kind, need)
                assert forecast.order == sorted((by, place) for place, by in enumerate(forecast.by))
                compared += 1
    assert compared > 20


def test_a_bit_set_names_its_places_from_the_lowest_on():
    assert places_in(0) == []
    assert places_in(0b1011 << 200) == [200, 201, 203]
