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
from scheduling.core.outlook import Outlook, outlook_of
from scheduling.core.reservations import Asked, earliest, earliest_place
from scheduling.core.waiting import Queued, Shape

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


class Starts:
    """The earliest starts between these promises, as long as nothing happens. Neither rules about groups nor the right
    to evict count.

    ``named``: by shape, how many of the promises, and start in ms, the GPUs that a job of it is placed on then.
    """

    __slots__ = ("_begins", "_firsts", "_known", "_outlooks", "_past", "_scheduler", "bookings", "named")

    def __init__(self, scheduler: Scheduler, bookings: Bookings) -> None:
        self._scheduler, self.bookings = scheduler, bookings
        self._begins: dict[str, list[int]] = {}
        self._firsts: dict[tuple[str, int], Bookings] = {}  # by how many of the promises
        self._past: dict[tuple[Shape, int], tuple[int, list[int]] | None] = {}
        self.named: dict[tuple[Shape, int, int], list[int]] = {}
        self._outlooks: dict[tuple[str, int], Outlook] = {}  # by how many of the promises
        self._known: dict[tuple[Shape, int], tuple[int, tuple[int, str] | None]] = {}  # by duration

    def of(self, queued: Queued) -> tuple[int, tuple[int, str] | None]:
        """(count, (start in ms, where)): how many of the promises, by their start, the job can't get ahead of, and its
        earliest start past these, None when there is none."""
        key = (queued.shape, queued.duration_ms)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._between(queued)
        return found

    def first(
        self, shape: Shape, project: str, duration_ms: int, *, from_ms: int = 0, most: int | None = None
    ) -> tuple[int, list[int]] | None:
        """As :func:`soonest_between` for a shape that does not change itself: what it finds past so many promises is
        the same for all durations. ``most``: as if there were only the first so many promises."""
        begins = self.begins(shape, project)
        end, first_ms = len(begins) if most is None else most, max(self.bookings.now_ms, from_ms)
        begun, count, start_ms = bisect_left(begins, first_ms + duration_ms, 0, end), -1, first_ms
        found: tuple[int, list[int]] | None = None
        while begun > count:
            count = begun
            found = self.past(shape, project, count)
            if found is None:
                return None
            start_ms = max(first_ms, found[0])
            begun = bisect_left(begins, start_ms + duration_ms, 0, end)
        return None if found is None else (start_ms, found[1])

    def past(self, shape: Shape, project: str, count: int) -> tuple[int, list[int]] | None:
        """(start in ms, GPUs) of the earliest start past the first ``count`` of the promises, for a shape that does not
        change itself; None when there is none."""
        key = (shape, count)
        if key not in self._past:
            scheduler, first = self._scheduler, self._first(shape.project, project, count)
            self._past[key] = earliest(scheduler.room, scheduler.releases, first, Asked(shape.wanted, project, 0))
        return self._past[key]

    def begins(self, shape: Shape, project: str) -> list[int]:
        """As :func:`begins_of`, for jobs of the shape and the project."""
        found = self._begins.get(shape.project)
        if found is None:
            found = self._begins[shape.project] = begins_of(self.bookings, project)
        return found

    def _first(self, of_project: str, project: str, count: int) -> Bookings:
        found = self._firsts.get((of_project, count))
        if found is None:
            found = first_of(self._scheduler, self.bookings, project, count)
            self._firsts[of_project, count] = found
        return found

    def _between(self, queued: Queued) -> tuple[int, tuple[int, str] | None]:
        project, now_ms, duration_ms = queued.shape.project, self.bookings.now_ms, queued.duration_ms
        begins = self.begins(queued.shape, queued.owner[1])
        begun, count, start = bisect_left(begins, now_ms + duration_ms), -1, None
        while begun > count:
            outlook = self._outlooks.get((project, begun))
            if outlook is None:
                outlook = self._outlooks[project, begun] = self._outlook(queued, begun)
            count, start = begun, earliest_place(self._scheduler.room, queued.shape.wanted, outlook)
            if start is not None and begun < len(begins):
                begun = bisect_left(begins, max(start[0], now_ms) + duration_ms)
        return count, start

    def _outlook(self, queued: Queued, count: int) -> Outlook:
        """The expected releases past the first of the promises."""
        first = self._first(queued.shape.project, queued.owner[1], count)
        asked = Asked(queued.shape.wanted, queued.owner[1], queued.duration_ms)
        return outlook_of(self._scheduler.releases, first, asked)
