"""Do operators' windows keep a job waiting once what runs has left? They then decide when it starts, not what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bookings import Booking, Bookings
from scheduling.core.closing import able
from scheduling.core.estimate import soonest
from scheduling.core.first_start import first_start
from scheduling.core.obstacles import closed_then
from scheduling.core.plan import Reason
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def window_ahead(scheduler: Scheduler, bookings: Bookings, queued: Queued, *, start_ms: int | None) -> Reason | None:
    """WINDOW when the job, which starts at ``start_ms`` at the soonest (None: never), would start before that, though
    not now, without the windows; else None. The rules of its shape must be as of now."""
    if not bookings.are_windows:
        return None
    without = Bookings(scheduler.inventory.node_of, [], now_ms=bookings.now_ms)
    for each in bookings.reservations:
        without.add(each)
    found = first_start(scheduler, without, queued)
    if start_ms is None or found is None or not bookings.now_ms < found[0] < start_ms:
        return None
    windows = _met(scheduler, bookings, queued, found[0])
    if not windows:
        return None
    opens_ms = max([each.end_ms for each in windows if each.end_ms <= start_ms], default=windows[0].end_ms)
    message, numbers = closed_then(windows, soonest(found[0]), opens_ms=opens_ms)
    return Reason("WINDOW", message, numbers)


def _met(scheduler: Scheduler, bookings: Bookings, queued: Queued, start_ms: int) -> list[Booking]:
    """The windows that the job would meet if it started then, of places that could hold it or a part of it."""
    room = scheduler.room
    suited = able(room, queued.shape.wanted, room.usable)
    return [
        each for each in bookings.windows_for(queued.owner[1])
        if each.start_ms < start_ms + queued.duration_ms and start_ms < each.end_ms
        and any(mask & suited[cell] for cell, mask in each.cells.items())
    ]  # fmt: skip
