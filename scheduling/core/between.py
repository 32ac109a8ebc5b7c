"""When could it start between what is promised to others? Before those promises that begin after its end: a backfill.

A job that starts at T and runs for d is kept from the GPUs of the promises that begin before T + d: of those sorted by
their start, the first ones. Past ever more of them it starts ever later, so the least count whose start leaves all
others to begin after its end tells the earliest start of all.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from scheduling.core.bookings import Bookings
from scheduling.core.group_times import earliest_of
from scheduling.core.reservations import Asked
from scheduling.core.waiting import Shape

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def soonest_between(
    scheduler: Scheduler, bookings: Bookings, shape: Shape, asked: Asked
) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start, now or later, under these promises and windows; None when there is
    none. ``asked`` holds the shape's own ``wanted``."""
    begins, first_ms = begins_of(bookings, asked.project), max(bookings.now_ms, asked.from_ms)
    begun, count, start_ms = bisect_left(begins, first_ms + asked.duration_ms), -1, first_ms
    found: tuple[int, list[int]] | None = None
    while begun > count:
        count = begun
        found = earliest_of(scheduler, first_of(scheduler, bookings, asked.project, count), shape, asked)
        if found is None:
            return None
        start_ms = max(first_ms, found[0])
        begun = bisect_left(begins, start_ms + asked.duration_ms)
    return None if found is None else (start_ms, found[1])


def begins_of(bookings: Bookings, project: str) -> list[int]:
    """When the promises that may block the project's jobs begin, in ms and in order: a job can't get ahead of as many
    as begin before its end."""
    return [booking.start_ms for booking in bookings.blocking(project)]


def first_of(scheduler: Scheduler, bookings: Bookings, project: str, count: int) -> Bookings:
    """The first ``count`` of the promises that may block the project's jobs, windows among them as if promised."""
    listed = bookings.blocking(project)
    if count == len(listed) and not bookings.are_windows:
        return bookings
    found = Bookings(scheduler.inventory.node_of, [], now_ms=bookings.now_ms)
    for booking in listed[:count]:
        found.add(booking)
    return found
