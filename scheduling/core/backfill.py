"""How long may a job be to start now, under what is promised to others?"""

from __future__ import annotations

from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.placement import find, fits, is_told_by_counts
from scheduling.core.room import Room, Wanted


def longest_now(room: Room, bookings: Bookings, wanted: Wanted, project: str) -> int:
    """The longest duration in ms for which the request would start now: ``NEVER`` for any, 0 for none.

    The longer a job, the more promises block it, in the order of their starts: so fit is a step function, and no
    more places are looked for than there are promises.
    """
    listed = bookings.blocking(project)
    count = len(listed)
    told = is_told_by_counts(room, wanted)
    if count and not told and find(room, wanted) is None:
        return 0
    view, need, nvlink = room.view(wanted) if told and wanted.is_plain else None, wanted.need, wanted.nvlink
    for place in range(count, -1, -1):
        pins = bookings.first_pins(project, place)
        if fits(room, wanted, pins) if view is None else view.has_place(need, nvlink=nvlink, pins=pins):
            return NEVER if place == count else max(0, listed[place].start_ms - bookings.now_ms)
    return 0
