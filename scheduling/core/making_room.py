"""What would help a job that may evict, where no GPUs are free for it? Changes with which victims would make room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.core.alternatives import Alternative, changes_that, usable_s
from scheduling.core.bookings import Bookings
from scheduling.core.halving import largest_that
from scheduling.core.placement import find
from scheduling.core.preemption import Choice, choose_victims, evictable
from scheduling.core.resources import ResourceRequest
from scheduling.core.waiting import Queued
from scheduling.core.words import duration_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler


def making_room(
    scheduler: Scheduler, cycle: Cycle, bookings: Bookings, queued: Queued, *, over_nodes: bool = False
) -> Iterator[Alternative]:
    """The smallest change of each kind with which the next pass would evict for it; each of them tried.

    ``over_nodes``: whether jobs of its kind may lie on several nodes.
    """
    candidates = evictable(scheduler, queued) if queued.may_evict else []
    if not candidates:
        return
    yield from _ending_sooner(scheduler, bookings, queued, now_ms=cycle.now_ms)
    within_reach = scheduler.room.free_count + sum(len(held.gpus) for held in candidates)
    pins = bookings.pins(queued.owner[1], queued.duration_ms)
    victims: dict[ResourceRequest, int] = {}

    def starts(changed: ResourceRequest) -> bool:
        if changed.gpu_count > within_reach:
            return False
        other = scheduler.described(replace(queued.job, request=changed))
        cycle.refresh(other.shape)
        if find(scheduler.room, other.shape.wanted, pins) is not None:
            victims[changed] = 0  # it fits as it is, and so it would with less
            return True
        choice = choose_victims(scheduler, bookings, other, pins=pins, now_ms=cycle.now_ms)
        victims[changed] = len(choice.victims) if isinstance(choice, Choice) else 0
        return victims[changed] > 0

    for name, value, words, changed in changes_that(scheduler.room, queued.job.request, starts, over_nodes=over_nodes):
        if victims[changed]:
            evicts = f"{words} and by evicting {jobs_in_words(victims[changed])}"
            yield Alternative(name, value, evicts, changed, queued.duration_ms // 1000)


def _ending_sooner(scheduler: Scheduler, bookings: Bookings, queued: Queued, *, now_ms: int) -> Iterator[Alternative]:
    """The longest time limit with which it would evict for it, since it ends before what is promised to others."""
    project, job, found = queued.owner[1], queued.job, dict[int, int]()

    def limit_before(promises: int) -> int:
        listed = bookings.blocking(project)
        return usable_s(listed[promises].start_ms - now_ms) if promises < len(listed) else 0

    def starts(promises: int) -> bool:
        limit = limit_before(promises - 1)
        if not 0 < limit < queued.duration_ms // 1000:
            return False
        other = scheduler.described(replace(job, remaining_s=limit))
        choice = choose_victims(scheduler, bookings, other, pins=bookings.pins(project, limit * 1000), now_ms=now_ms)
        found[limit] = len(choice.victims) if isinstance(choice, Choice) else 0
        return found[limit] > 0

    reach = sum(each.start_ms < now_ms + queued.duration_ms for each in bookings.blocking(project))
    last = largest_that(starts, reach)
    if last:
        limit = limit_before(last - 1)
        words = f"a time limit of at most {duration_in_words(limit)} and by evicting {jobs_in_words(found[limit])}"
        yield Alternative("duration_at_most_s", limit, words, job.request, limit)
