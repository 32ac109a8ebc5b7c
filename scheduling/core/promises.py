"""Reservations made in a cycle, and which made before still stand, so that they need not be found again.

A reservation was the earliest place by the expected releases and the reservations made before it. It is found the
same again if those before it are the same, nothing became free sooner than expected, and its own GPUs are still free by
its start: what becomes free later can only make other places worse, and GPUs that were released when their time had
come were counted on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bookings import NEVER, Booking, Bookings
from scheduling.core.forecast import Releases
from scheduling.core.group_times import earliest_of
from scheduling.core.plan import Reservation
from scheduling.core.preemption import evictable, grace_ms
from scheduling.core.reservations import Asked
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


class Promise:
    """One reservation. ``lasting``: it may be taken over by a later cycle; ``cycle``: the last one that made it so.

    ``after``: the reservation made just before it, so that with it all before it are known.
    """

    __slots__ = ("after", "booking", "cycle", "lasting", "queued", "reservation", "sooner")

    def __init__(self, queued: Queued, booking: Booking, reservation: Reservation, *, lasting: bool) -> None:
        self.queued, self.booking, self.reservation, self.lasting = queued, booking, reservation, lasting
        self.cycle = -1
        self.sooner = -1  # the releases' count when it was found
        self.after: Promise | None = None


class Promises:
    """The reservations of one cycle, in the order made. Jobs keep theirs, to be used again if they stand."""

    __slots__ = ("_cycle", "_now", "_releases", "_too_late", "dropped", "last", "made")

    def __init__(self, cycle: int, releases: Releases, now_ms: int) -> None:
        self.made: list[Promise] = []
        self.last: Promise | None = None
        self.dropped = False  # whether any was taken back
        self._cycle, self._releases, self._now = cycle, releases, now_ms
        self._too_late: dict[object, int] = {}  # starts that were too late, of jobs that have the same

    def standing(self, queued: Queued) -> Promise | None:
        """The reservation that the job had before, if it would be found the same now."""
        promise = queued.promise
        if promise is None or promise.after is not self.last or not promise.lasting:
            return None
        releases, booking = self._releases, promise.booking
        start, at = booking.start_ms, releases.at
        if promise.sooner != releases.sooner or start <= self._now:
            return None
        for gpu in booking.gpus:
            if at[gpu] > start:
                return None
        return promise

    def new(self, scheduler: Scheduler, bookings: Bookings, queued: Queued) -> Promise | None:
        """A reservation for the job at its earliest start; None when it has none, or none before its ``start_by``, at
        which it leaves: nobody would use what is kept for it until then."""
        limit = queued.job.start_by_ms
        if limit is None:
            return new_promise(scheduler, bookings, queued, now_ms=self._now)
        timed = bookings.are_windows or queued.shape.changes_itself
        alike = (queued.shape, queued.owner[1], queued.duration_ms) if timed else queued.shape
        key = (queued if queued.may_evict else alike, scheduler.changes)
        if self._too_late.get(key, -1) >= limit:
            return None
        promise = new_promise(scheduler, bookings, queued, now_ms=self._now)
        if promise is None or promise.booking.start_ms < limit:
            return promise
        self._too_late[key] = promise.booking.start_ms
        return None

    def of(self, queued: Queued) -> Promise | None:
        """The job's reservation, if it got one in this cycle."""
        promise = queued.promise
        return promise if promise is not None and promise.cycle == self._cycle else None

    def drop(self, promise: Promise) -> None:
        """The reservation is no more; those made after it have counted on it and are not taken over."""
        self.made.remove(promise)
        promise.queued.promise = None
        self.dropped = True

    def add(self, promise: Promise) -> Promise:
        """The next reservation; the one of before if it was found the same again."""
        before = promise.queued.promise
        if before is not None and before.after is self.last and _equal(before, promise):
            promise = before
        promise.after, promise.cycle, promise.sooner = self.last, self._cycle, self._releases.sooner
        promise.queued.promise = self.last = promise
        self.made.append(promise)
        return promise


def _equal(one: Promise, other: Promise) -> bool:
    if one is other:
        return True
    was, now = one.booking, other.booking
    return one.lasting == other.lasting and was.start_ms == now.start_ms and was.gpus == now.gpus


def new_promise(scheduler: Scheduler, bookings: Bookings, queued: Queued, *, now_ms: int) -> Promise | None:
    """The job's earliest start by the expected releases, past what is promised already; None when it has none."""
    shape = queued.shape
    asked = Asked(shape.wanted, queued.owner[1], queued.duration_ms)
    asked.patience_ms = round(scheduler.policy.backfill.rack_patience_s * 1000)
    evicts = queued.may_evict
    if evicts:
        asked.sooner = _sooner(scheduler, queued, now_ms)
    found = earliest_of(scheduler, bookings, shape, asked)
    if found is None:
        return None
    start, gpus = max(found[0], now_ms), sorted(found[1])
    inventory = scheduler.inventory
    end = start + queued.duration_ms
    return Promise(
        queued,
        Booking(gpus, inventory.cells_of_gpus(gpus), start, end_ms=end),
        Reservation(queued.id, start, end, inventory.names(gpus)),
        lasting=not (evicts or shape.changes_itself or scheduler.windows),
    )


def _sooner(scheduler: Scheduler, queued: Queued, now_ms: int) -> dict[int, int]:
    """The GPUs the job may take from others, with the instant by which their holders would have saved (4.3.6)."""
    return {
        gpu: now_ms + grace_ms(scheduler, held)
        for held in evictable(scheduler, queued)
        for gpu in held.gpus
        if scheduler.releases.at[gpu] < NEVER
    }
