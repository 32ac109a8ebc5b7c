"""Reservations made in a cycle, and which of the last cycle's still stand, so that they need not be found again.

A reservation was the earliest place by the expected releases and the reservations made before it. It is found the
same again if those before it are the same and nothing became free sooner than expected. Something that becomes free
later can only make other places worse, so it matters on the reservation's own nodes alone; and GPUs that were released
when their time had come were counted on.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.bookings import Booking
from scheduling.core.forecast import Releases
from scheduling.core.plan import Reservation
from scheduling.core.waiting import Queued


@dataclass(frozen=True, slots=True)
class Promise:
    """One reservation: for whom, where (nodes by index), and whether it may be taken over by the next cycle."""

    queued: Queued
    booking: Booking
    nodes: frozenset[int]
    reservation: Reservation
    lasting: bool


class Promises:
    """The reservations of one cycle, in the order made; those of the cycle before are used again where they stand."""

    def __init__(self, before: list[Promise], releases: Releases, now_ms: int) -> None:
        self.made: list[Promise] = []
        self._of: dict[str, Promise] = {}
        self._before, self._releases, self._now = before, releases, now_ms
        self._same = not releases.sooner

    def standing(self, queued: Queued) -> Promise | None:
        """The last cycle's reservation for the job, if it would be found the same now."""
        place = len(self.made)
        if not self._same or self._releases.sooner or place >= len(self._before):
            return None
        promise = self._before[place]
        if promise.queued is not queued or not promise.lasting or promise.booking.start_ms <= self._now:
            return None
        return promise if promise.nodes.isdisjoint(self._releases.later) else None

    def of(self, queued: Queued) -> Promise | None:
        """The job's reservation, if it got one in this cycle."""
        return self._of.get(queued.id)

    def drop(self, promise: Promise) -> None:
        """The reservation is no more; those made after it have counted on it, so none is taken over any more."""
        self.made.remove(promise)
        del self._of[promise.queued.id]
        self._same = False

    def add(self, promise: Promise) -> None:
        """The next reservation."""
        place = len(self.made)
        self.made.append(promise)
        self._of[promise.queued.id] = promise
        if self._same and (place >= len(self._before) or self._before[place] is not promise):
            before = self._before[place] if place < len(self._before) else None
            self._same = before is not None and before.queued is promise.queued and _equal(before, promise)


def _equal(one: Promise, other: Promise) -> bool:
    return one.booking.start_ms == other.booking.start_ms and one.booking.gpus == other.booking.gpus
