"""What a scheduler keeps between cycles beside its decisions: expected releases in order, and what reasons rest on."""

from __future__ import annotations

import os
from random import Random

import pytest

from scheduling.core.bits import places_in
from scheduling.core.bookings import NEVER, Booking, Bookings
from scheduling.core.explain import Explainer
from scheduling.core.feasibility import placeable
from scheduling.core.forecast import NODE, Choice, Forecast
from scheduling.core.placement import fits, fits_with, is_told_by_counts
from scheduling.core.reservations import Asked, earliest
from scheduling.core.room import NO_PINS
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Window
from scheduling.core.waiting import Waiting

from .agreement import Twins
from .build import HOUR_MS, HOUR_S, NOW, gang, gpus, groups, job, live, places_of, pool, world
from .random_worlds import ROOMY, TIGHT, URGENT, Taste, rarely

DEEP = 10 if os.environ.get("EMEP_DEEP") else 1
TASTES = {"mixed": Taste(), "roomy": ROOMY, "tight": TIGHT, "urgent": URGENT}


@pytest.mark.parametrize("taste", TASTES)
def test_the_reasons_of_a_scheduler_that_is_kept_are_those_of_one_built_anew(taste):
    compared = full = 0
    for seed in range(4 * DEEP):
        dice = Random(seed)
        twins, silent = Twins(dice, TASTES[taste]), frozenset[str]()
        for cycle in range(8):
            if rarely(dice, 3):
                silent = frozenset(node.name for node in twins.world.pool.nodes if rarely(dice, 4))
                twins.scheduler.use(placeable(twins.world.pool, unreachable=silent))
            before, _ = twins.step()
            anew = Scheduler(before, unreachable=silent)
            anew.cycle(before.now_ms)
            kept_reasons, reasons = Explainer(twins.scheduler), Explainer(anew)
            names = [each.id for each in anew.everyone_waiting()]
            told = {name: kept_reasons.of(name) for name in names}
            for name in reversed(names):  # nor does it matter who asks first
                assert told[name] == reasons.of(name), f"seed {seed}, cycle {cycle}: {name}"
            compared += len(names)
            full += len(names) if anew.room.free_count == 0 else 0
    assert compared > 20
    assert full > 20 or taste == "roomy"


def test_expected_releases_stay_in_order_as_jobs_come_and_go():
    compared = 0
    for seed in range(4):
        twins = Twins(Random(seed), TIGHT)
        for _ in range(10):
            twins.step()
            releases = twins.scheduler.releases
            for (view, kind, _), places in list(releases.places.items()):
                for need in list(places.forecasts):
                    forecast = releases.forecast(view, kind, need)
                    instants, bits = forecast.order
                    assert instants == sorted(set(forecast.by))
                    assert {place: by for by in instants for place in places_in(bits[by])} == dict(
                        enumerate(forecast.by)
                    )
                    assert forecast.by == Forecast(places, need).by
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
                        known = scheduler.releases.places
                        kept += sum(len(each.kept) for places in known.values() for each in places.forecasts.values())
                        known.clear()
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


def test_what_is_expected_past_a_promise_is_found_anew_once_its_node_has_changed():
    scheduler = Scheduler(world(groups(2, 8)))
    asked = Asked(scheduler.described(job("a", 8)).shape.wanted, "A", HOUR_MS)
    bookings = Bookings(scheduler.inventory.node_of, [], now_ms=NOW)
    bookings.add(Booking([0], {0: 1}, 3 * HOUR_MS, end_ms=5 * HOUR_MS))
    found = []
    for gpus_of, instant in ((range(16), 3), ([8], 9), ([1], 6)):
        scheduler.expect(list(gpus_of), instant * HOUR_MS)
        start, _ = earliest(scheduler.room, scheduler.releases, bookings, asked)
        found.append(start // HOUR_MS)
    assert found == [3, 5, 6]


def full(*waiting, **more):
    """Two nodes of 8 GPUs, all held for three hours more, and what waits."""
    held = [live(f"on {node}", *(f"{node}/{n}" for n in range(8)), seconds=3 * HOUR_S) for node in ("n0", "n1")]
    return world(groups(2, 8), *waiting, running=held, **more)


def test_the_nearest_place_is_another_once_it_takes_no_work():
    snapshot = full(job("a", 2))
    scheduler, nearest = Scheduler(snapshot), []
    for silent in ([], ["n0"]):
        scheduler.use(placeable(snapshot.pool, unreachable=frozenset(silent)))
        scheduler.cycle(NOW)
        nearest.append(dict(Explainer(scheduler).of("a")[-1].numbers)["best_domain"])
    assert nearest == ["n0", "n1"]


def test_of_jobs_alike_the_longer_one_is_told_that_it_starts_after_the_window():
    closed = Window("service", ("n0", "n1"), 4 * HOUR_MS, 9 * HOUR_MS)
    scheduler = Scheduler(full(job("short", seconds=600), job("long", seconds=2 * HOUR_S), windows=(closed,)))
    scheduler.cycle(NOW)
    explainer = Explainer(scheduler)
    hours = [dict(explainer.of(name)[0].numbers)["earliest_at_ms"] // HOUR_MS for name in ("short", "long")]
    assert hours == [3, 9]


def test_a_job_that_comes_once_only_what_it_avoids_takes_work_avoids_it_no_more():
    scheduler = Scheduler(world(groups(2, 8), job("first", avoid_nodes=["n0"])))
    scheduler.withdraw("first")
    scheduler.use(placeable(scheduler.pool, unreachable=frozenset(["n1"])))
    scheduler.submit(job("second", avoid_nodes=["n0"]))
    assert places_of(scheduler.cycle(NOW)) == {"second": ["n0/0"]}


def test_a_job_that_waits_for_its_victims_avoids_nothing_once_it_can_go_nowhere_else():
    victim = live("low", *(f"n1/{n}" for n in range(8)), level="Low", granted_ms=NOW - HOUR_MS)
    scheduler = Scheduler(
        world(groups(2, 8), job("critical", 8, level="Critical", avoid_nodes=["n0"]), running=[victim])
    )
    assert scheduler.cycle(NOW).nominations
    scheduler.use(placeable(scheduler.pool, unreachable=frozenset(["n1"])))
    assert list(places_of(scheduler.cycle(NOW + 1000))) == ["critical"]


def test_a_job_that_takes_an_older_ones_place_never_leaves_a_cycle_out():
    # Nothing is free, and a job submitted now changes nothing; one that has aged is owed a reservation (D29).
    scheduler = Scheduler(full(job("first")))
    scheduler.cycle(NOW)
    assert not scheduler.submit(job("new", at=NOW / 1000))
    assert scheduler.submit(job("old", at=NOW / 1000 - 1))
