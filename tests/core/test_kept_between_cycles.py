"""What a scheduler keeps between cycles beside its decisions: expected releases in order, and what reasons rest on."""

from __future__ import annotations

from random import Random

import pytest

from scheduling.core.bits import places_in
from scheduling.core.bookings import NEVER
from scheduling.core.explain import Explainer
from scheduling.core.forecast import NODE, Choice, Forecast
from scheduling.core.placement import fits, fits_with, is_told_by_counts
from scheduling.core.reservations import Asked, earliest
from scheduling.core.room import NO_PINS
from scheduling.core.scheduler import Scheduler
from scheduling.core.waiting import Waiting

from .agreement import Twins
from .build import gang, gpus, groups, job, pool, world
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
            for each in anew.everyone_waiting():
                assert kept_reasons.of(each.id) == reasons.of(each.id), f"seed {seed}, cycle {cycle}: {each.id}"
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


def test_the_nodes_of_a_gang_that_are_kept_are_those_found_anew():
    compared = kept = 0
    for seed in range(20):
        twins = Twins(Random(seed), TIGHT)
        for cycle in range(8):
            twins.step()
            scheduler = twins.scheduler
            gangs = [queued for queued in scheduler.waiting.by_id.values() if queued.job.request.is_gang]
            for queued in gangs:
                found = []
                for anew in (False, True):
                    if anew:
                        kept += sum(len(forecast.kept) for forecast in scheduler.releases.forecasts.values())
                        scheduler.releases.forecasts.clear()
                    bookings = scheduler.last.bookings_above(queued.level)
                    asked = Asked(queued.shape.wanted, queued.owner[1], queued.duration_ms)
                    found.append(earliest(scheduler.room, scheduler.releases, bookings, asked))
                assert found[0] == found[1], f"seed {seed}, cycle {cycle}: {queued.id}"
                compared += 1
    assert compared > 20
    assert kept > 20


@pytest.mark.parametrize(("instant", "is_kept"), [(2_000_000, True), (900_000, False)])
def test_a_choice_is_kept_until_something_else_is_ready_by_its_end(instant, is_kept):
    scheduler = Scheduler(world(groups(2, 8)))
    view, releases = scheduler.room.view(scheduler.described(job("a")).shape.wanted), scheduler.releases
    for gpu in range(len(scheduler.inventory.gpus)):
        scheduler.expect([gpu], 3_000_000)
    forecast: Forecast = releases.forecast(view, NODE, 1)
    forecast.keep("question", Choice(1_000_000, 1_000_000, (0,)))
    scheduler.expect([0], instant)
    assert ("question" in releases.forecast(view, NODE, 1).kept) == is_kept


def test_what_fits_with_more_gpus_is_what_fits_once_they_are_free():
    chance, told = Random(1), {True: 0, False: 0}
    for taste in TASTES.values():
        twins = Twins(Random(2), taste)
        for _ in range(8):
            twins.step()
            room = twins.scheduler.room
            for queued in twins.scheduler.waiting.by_id.values():
                held = {
                    cell: room.usable[cell] & ~room.free[cell] & chance.getrandbits(8) for cell in range(len(room.free))
                }
                opened, wanted = {cell: mask for cell, mask in held.items() if mask}, queued.shape.wanted
                answer = fits_with(room, wanted, NO_PINS, opened=opened)
                room.give(opened)
                assert answer == fits(room, wanted)
                room.take(opened)
                told[answer] += 1
    assert min(told.values()) > 10


def test_the_job_that_came_last_stands_in_its_line_when_somebody_looks():
    scheduler = Scheduler(world(groups(2, 8)))
    waiting, first, second = Waiting(), scheduler.described(job("a")), scheduler.described(job("b"))
    waiting.add(first)
    assert waiting.alone is first
    waiting.add(second)
    assert waiting.alone is None
    waiting.remove(second)
    assert [
        queued.id for level in waiting.levels.values() for nest in level.shapes.values() for queued in nest.jobs()
    ] == ["a"]
    assert waiting.older_than(NEVER, 2) == [first]


def test_gpus_given_in_any_order_make_one_mask_per_cell():
    inventory = world(groups(2, 8)).pool.inventory
    last = len(inventory.gpus) - 1
    masks = inventory.cells_of_gpus([0, last, 1])
    assert sorted(gpu for cell, mask in masks.items() for gpu in inventory.gpus_in(cell, mask)) == [0, 1, last]


@pytest.mark.parametrize(("opened", "answer"), [(0b1111_1111, True), (0b0111_1111, False)])
def test_a_gang_fits_with_what_makes_one_node_more_ready(opened, answer):
    scheduler = Scheduler(world(pool(gpus("n0", 8), gpus("n1", 8))))
    scheduler.room.take({1: 0b1111_1111})
    wanted = scheduler.described(gang("g", 2, 8)).shape.wanted
    assert is_told_by_counts(scheduler.room, wanted)
    assert fits_with(scheduler.room, wanted, NO_PINS, opened={1: opened}) == answer
