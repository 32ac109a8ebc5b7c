"""When could it start by its rules about groups? They keep jobs apart, or together, only while the others run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.core.bookings import Bookings
from scheduling.core.groups import Opening
from scheduling.core.reservations import Asked, earliest
from scheduling.core.waiting import Shape

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def earliest_of(
    scheduler: Scheduler, bookings: Bookings, shape: Shape, asked: Asked, *, partners_stay: bool = False
) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start of such a job, as :func:`earliest` has it; None when there is none.

    By the time limits of what runs: places from which it keeps away open when the last of those there has ended, and
    it starts beside a group only while one of it is still there. ``partners_stay``: as if those never ended. ``asked``
    holds the shape's own ``wanted``.
    """
    if not shape.is_grouped:
        return earliest(scheduler.room, scheduler.releases, bookings, asked)
    best: tuple[int, list[int]] | None = None
    for opening in _openings(scheduler, shape):
        found = _start_in(scheduler, bookings, opening, asked, partners_stay=partners_stay)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best


def is_left_alone(scheduler: Scheduler, bookings: Bookings, shape: Shape, asked: Asked) -> bool:
    """Whether it has partners now, and only their ends keep it from ever starting beside them."""
    near = shape.request.near
    if near is None or not scheduler.groups.partners(near.group):
        return False
    if earliest_of(scheduler, bookings, shape, asked) is not None:
        return False
    return earliest_of(scheduler, bookings, shape, asked, partners_stay=True) is not None


def _openings(scheduler: Scheduler, shape: Shape) -> tuple[Opening, ...]:
    now_ms, live = scheduler.share.clock.now_ms, scheduler.live
    return scheduler.groups.openings(shape.request, shape.group, lambda job: live[job].expected_end(now_ms))


def _start_in(
    scheduler: Scheduler, bookings: Bookings, opening: Opening, asked: Asked, *, partners_stay: bool
) -> tuple[int, list[int]] | None:
    """The earliest start there that lies before the end of the partners. Where those have gone by the earliest start
    of all, they have gone for every later one too: without these places it is asked again."""
    inventory, old = scheduler.inventory, asked.wanted
    later = {
        gpu: instant for cell, instant in opening.opens.items() for gpu in inventory.gpus_in(cell, inventory.full[cell])
    }
    left, closes = opening.cells, {} if partners_stay else dict(opening.closes)
    # A rack that is ready somewhat later may be ready too late: patience is for those who can be.
    patience_ms = 0 if opening.closes else asked.patience_ms
    while True:
        wanted = old if left == old.confined else old.confined_to(left)
        found = earliest(
            scheduler.room,
            scheduler.releases,
            bookings,
            replace(asked, wanted=wanted, later=later, patience_ms=patience_ms),
        )
        if found is None:
            return None
        start_ms = max(found[0], bookings.now_ms, asked.from_ms)
        gone = [cell for cell, end_ms in closes.items() if end_ms <= start_ms]
        if not gone:
            return found
        for cell in gone:
            del closes[cell]
        left = tuple([mask if cell in closes else 0 for cell, mask in enumerate(left or ())])
