"""What does a job see when its turn comes? What was promised to others before, and what others have just started on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.between import Starts
from scheduling.core.obstacles import got_ahead
from scheduling.core.placement import fits_with
from scheduling.core.plan import Reason
from scheduling.core.room import Pins
from scheduling.core.waiting import Queued
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
        "_cycle",
        "_level",
        "_scheduler",
        "bookings",
        "starts",
        "told",
        "windows",
    )

    def __init__(self, scheduler: Scheduler, cycle: Cycle, starts: Starts, level: int) -> None:
        """``starts``: those between the promises to others."""
        self._scheduler, self._cycle, self.starts, self._level = scheduler, cycle, starts, level
        self.bookings = starts.bookings
        self.windows = self.bookings.are_windows
        self.told: dict[object, tuple[tuple[Reason, ...], bool]] = {}
        self._ahead: tuple[dict[int, int], int, Reason | None] | None = None

    def pins(self, queued: Queued) -> Pins:
        """What the job must leave out if it starts now."""
        return self.bookings.pins(queued.owner[1], queued.duration_ms)

    def outlasts(self, queued: Queued) -> int:
        """Equal for jobs of one shape that are told the same start: those that fit in before the same promises."""
        if queued.shape.changes_itself or queued.may_evict:
            return queued.duration_ms if self.bookings.blocking(queued.owner[1]) else 0
        return self.starts.of(queued)[0]

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
        return fits_with(self._scheduler.room, queued.shape.wanted, self.pins(queued), opened=opened)

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
