"""What would help where nothing starts now? Changes with which the job would start sooner by what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.core.alternatives import Alternative, loosened_neighbours, loosened_topology
from scheduling.core.bookings import Bookings
from scheduling.core.estimate import STEP_MS, soonest
from scheduling.core.first_start import bounds_of, first_start
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler


def sooner(
    scheduler: Scheduler, cycle: Cycle, bookings: Bookings, queued: Queued, *, start_ms: int | None
) -> Iterator[Alternative]:
    """Each thing less that is asked of places and neighbours, with which it could start after now and a minute or more
    before ``start_ms``, its own earliest start; None: it has none. The starts are as they are told."""
    request, seconds = queued.job.request, queued.duration_ms // 1000
    for name, words, changed in (*loosened_topology(request), *loosened_neighbours(request)):
        other = scheduler.described(replace(queued.job, request=changed))
        cycle.refresh(other.shape)
        found = first_start(scheduler, bookings, other)
        if found is not None and found[0] > cycle.now_ms and (start_ms is None or found[0] <= start_ms - STEP_MS):
            told = found[0] if found[0] in bounds_of(scheduler, other) else soonest(found[0])
            yield Alternative(name, 1, words, changed, seconds, told)
