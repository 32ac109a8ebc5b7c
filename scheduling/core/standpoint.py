"""What does a job see when its turn comes? What was promised to others before, and what others have just started on."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from scheduling.core.between import begins_of, first_of
from scheduling.core.bookings import Bookings
from scheduling.core.obstacles import got_ahead
from scheduling.core.outlook import Outlook, outlook_of
from scheduling.core.placement import fits_with
from scheduling.core.plan import Reason
from scheduling.core.reservations import Asked, earliest_place
from scheduling.core.waiting import Queued, Shape
from scheduling.core.words import gpus_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler


class Standpoint:
    """After a cycle, what jobs of one level see, or one job that holds a reservation.

    ``told``: their reasons, and whether for those with the right to it that of evicting nobody comes after them.
    ``windows``: whether operators close any GPUs to any of them.
    """

    __slots__ = (
        "_ahead",
        "_begins",
        "_cycle",
        "_level",
        "_outlooks",
        "_scheduler",
        "_starts",
        "bookings",
        "told",
        "windows",
    )

    def __init__(self, scheduler: Scheduler, cycle: Cycle, bookings: Bookings, level: int) -> None:
        self._scheduler, self._cycle, self.bookings, self._level = scheduler, cycle, bookings, level
        self.windows = bookings.are_windows
        self.told: dict[object, tuple[tuple[Reason, ...], bool]] = {}
        self._outlooks: dict[tuple[str, int], Outlook] = {}  # by how many of the promises
        self._begins: dict[str, list[int]] = {}  # of the promises, in ms
        self._starts: dict[tuple[Shape, int], tuple[int, tuple[int, str] | None]] = {}  # by duration
        self._ahead: tuple[dict[int, int], int, Reason | None] | None = None

    def start(self, queued: Queued) -> tuple[int, str] | None:
        """(start in ms, where) of its earliest start between the promises; None when there is none. Neither rules about
        groups nor the right to evict count."""
        return self._between(queued)[1]

    def outlasts(self, queued: Queued) -> int:
        """Equal for jobs of one shape that are told the same start: those that fit in before the same promises."""
        if queued.shape.changes_itself or queued.may_evict:
            return queued.duration_ms if self.bookings.blocking(queued.owner[1]) else 0
        return self._between(queued)[0]

    def _between(self, queued: Queued) -> tuple[int, tuple[int, str] | None]:
        """How many of the promises, by their start, it can't get ahead of, and its earliest start past these."""
        shape, duration_ms = queued.shape, queued.duration_ms
        key = (shape, duration_ms)
        found = self._starts.get(key)
        if found is None:
            begins = self._begins.get(shape.project)
            if begins is None:
                begins = self._begins[shape.project] = begins_of(self.bookings, queued.owner[1])
            now_ms = self._cycle.now_ms
            begun, count = bisect_left(begins, now_ms + duration_ms), -1
            while begun > count:
                count, start = begun, self._start_past(queued, begun)
                if start is not None and begun < len(begins):
                    begun = bisect_left(begins, max(start[0], now_ms) + duration_ms)
            found = self._starts[key] = count, start
        return found

    def _start_past(self, queued: Queued, count: int) -> tuple[int, str] | None:
        return earliest_place(self._scheduler.room, queued.shape.wanted, self._outlook(queued, count))

    def _outlook(self, queued: Queued, count: int) -> Outlook:
        """The expected releases past the first of the promises."""
        key = (queued.shape.project, count)
        found = self._outlooks.get(key)
        if found is None:
            first = first_of(self._scheduler, self.bookings, queued.owner[1], count)
            asked = Asked(queued.shape.wanted, queued.owner[1], queued.duration_ms)
            found = self._outlooks[key] = outlook_of(self._scheduler.releases, first, asked)
        return found

    def behind(self, queued: Queued) -> Reason | None:
        """BEHIND when what jobs of its level and above were started on in this pass would have done for it."""
        if self._ahead is None:
            self._ahead = self._got_ahead()
        opened, count, reason = self._ahead
        if reason is None or queued.shape.wanted.count > count:
            return None
        return reason if self._fits_with(opened, queued) else None

    def fits_with(self, cells: dict[int, int], queued: Queued) -> bool:
        """Whether the job would fit if these GPUs were free too."""
        return self._fits_with(self._held_of(cells), queued)

    def _fits_with(self, opened: dict[int, int], queued: Queued) -> bool:
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        return fits_with(self._scheduler.room, queued.shape.wanted, pins, opened=opened)

    def _held_of(self, cells: dict[int, int]) -> dict[int, int]:
        """Those of the GPUs that take work and are held now."""
        room = self._scheduler.room
        held = {cell: mask & room.usable[cell] & ~room.free[cell] for cell, mask in cells.items()}
        return {cell: mask for cell, mask in held.items() if mask}

    def _got_ahead(self) -> tuple[dict[int, int], int, Reason | None]:
        """The GPUs on which jobs of the level and above were started in this pass, how many are free with them, and
        what is said of that."""
        ahead, cells = got_ahead(self._scheduler, self._cycle, self._level)
        if not ahead:
            return {}, 0, None
        count = sum(mask.bit_count() for mask in cells.values())
        message = (
            f"It would have fitted before this pass of the scheduler, in which {jobs_in_words(len(ahead))} ahead of it "
            f"got {gpus_in_words(count)}."
        )
        numbers = (("first", ahead[0].id), ("jobs_ahead", len(ahead)), ("gpus_taken", count))
        opened = self._held_of(cells)
        free = self._scheduler.room.free_count + sum(mask.bit_count() for mask in opened.values())
        return opened, free, Reason("BEHIND", message, numbers)
