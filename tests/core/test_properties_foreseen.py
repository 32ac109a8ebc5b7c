"""Where nothing else comes and every job runs to its time limit, what waits starts within what it was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from scheduling.core.estimate import Estimate, estimate
from scheduling.core.explain import Explainer
from scheduling.core.leaving import held_for, once_saved
from scheduling.core.lifecycle import JobState
from scheduling.core.preview import preview
from scheduling.core.reclaim import take_back
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot

from .playing import true_starts
from .random_worlds import NOW, ROOMY, TIGHT, UNSAVED, URGENT, S, Taste, a_world


def calm(seed: int) -> Snapshot:
    """A world in which nobody is asked to leave and everything ends in time."""
    taste = (TIGHT, Taste(), replace(TIGHT, families=False, windows=False))[seed % 3]
    world = a_world(Random(7000 + seed), taste)
    quiet = {"state": JobState.RUNNING, "stop_by_ms": None}
    running = [replace(each, end_ms=max(each.end_ms, NOW + 10 * S), **quiet) for each in world.live]
    return replace(world, live=tuple(running), leases=(), nominations=(), can_preempt=False)


def told(world: Snapshot) -> Iterator[tuple[str, Estimate]]:
    """The estimate of each job that waits on."""
    scheduler = Scheduler(world)
    scheduler.cycle(world.now_ms)
    explainer = Explainer(scheduler)
    for name, queued in scheduler.waiting.by_id.items():
        found = estimate(scheduler, explainer, queued)
        if found is not None:
            yield name, found


def test_every_job_starts_in_the_range_that_it_was_told():
    kinds = Counter[str]()
    for seed in range(90):
        world = calm(seed)
        starts = true_starts(world)
        for name, found in told(world):
            if name in starts:
                assert found.low <= starts[name] <= found.high, f"seed {seed}: {name}, {found}, {starts[name]}"
                kinds["promised" if found.promised else "sure" if found.low == found.high else "open"] += 1
    assert min(kinds[kind] for kind in ("promised", "sure", "open")) >= 10, kinds


def test_every_range_holds_its_middle_and_is_not_in_the_past():
    kinds = Counter[str]()
    for seed in range(120):
        taste = (Taste(silence=True), ROOMY, URGENT, UNSAVED)[seed % 4]
        world = a_world(Random(seed), taste)
        back = take_back(world)
        scheduler = Scheduler(world, unreachable=back.unreachable)
        scheduler.cycle(NOW, back)
        explainer = Explainer(scheduler)
        found = [estimate(scheduler, explainer, queued) for queued in scheduler.waiting.by_id.values()]
        found += [preview(scheduler, explainer, job).start for job in scheduler.sleeping.values()]
        ranges = [(each.low, each.at, each.high) for each in found if each is not None]
        kept = [once_saved(scheduler, held_for(scheduler, each), NOW) for each in scheduler.nominees.values()]
        assert all(NOW <= low <= at <= high for low, at, high in ranges), f"seed {seed}: {ranges}"
        assert all(NOW <= at <= high for at, high in kept), f"seed {seed}: {kept}"
        kinds.update(waiting=len(ranges), evicting=len(kept))
    assert min(kinds.values()) >= 10, kinds
