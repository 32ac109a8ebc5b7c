"""When and where could it start at the soonest? Not before its time, and wherever it may lie once it holds out no more.

A job that need not wait for a time of its own is asked past every promise to others (4.3 of the design). One that
starts later than now is asked from its time on: what is promised from after its end on does not stand in its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.group_times import earliest_of
from scheduling.core.placement import find
from scheduling.core.plan import Reason
from scheduling.core.reservations import Asked
from scheduling.core.room import Wanted
from scheduling.core.waiting import Queued
from scheduling.core.words import RUNGS_IN_WORDS, instant_in_words

if TYPE_CHECKING:
    from scheduling.core.bookings import Bookings
    from scheduling.core.scheduler import Scheduler

_HELD_OUT_FOR = tuple(RUNGS_IN_WORDS.values())  # by rung of the ladder


def asked_of(queued: Queued, now_ms: int, *, wanted: Wanted | None = None, from_ms: int = 0) -> Asked:
    """The job's question for its earliest start, from its own time on if that is still to come."""
    from_ms = max(from_ms, queued.job.due_ms)
    asked = Asked(wanted or queued.shape.wanted, queued.owner[1], queued.duration_ms)
    asked.from_ms = from_ms if from_ms > now_ms else 0
    return asked


def first_start(scheduler: Scheduler, bookings: Bookings, queued: Queued) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start past these promises; None when there is none.

    The rules of the job's shape must be as of now. A gang that holds out for the best rung starts on that, or when it
    holds out no more.
    """
    shape, now_ms = queued.shape, bookings.now_ms
    asked = [asked_of(queued, now_ms)]
    if shape.wanted.strict:
        asked.append(asked_of(queued, now_ms, wanted=shape.wanted.at_any_rung(), from_ms=shape.lax_from_ms))
    best: tuple[int, list[int]] | None = None
    for each in asked:
        found = earliest_of(scheduler, bookings, shape, each)
        if found is not None:
            start_ms = max(found[0], each.from_ms, now_ms)
            best = (start_ms, found[1]) if best is None or start_ms < best[0] else best
    return best


def bounds_of(scheduler: Scheduler, queued: Queued) -> frozenset[int]:
    """The instants in ms that keep the job waiting to the moment: its own times, and the ends of windows."""
    own = (queued.job.due_ms, queued.shape.lax_from_ms)
    return frozenset((*own, *(window.end_ms for window in scheduler.windows)))


def holds_out(scheduler: Scheduler, bookings: Bookings, queued: Queued) -> Reason | None:
    """HOLDS_OUT when free GPUs would do, but for the rung that the job itself holds out for (D18)."""
    wanted = queued.shape.wanted
    if not wanted.strict:
        return None
    pins = bookings.pins(queued.owner[1], queued.duration_ms)
    if find(scheduler.room, wanted.at_any_rung(), pins) is None:
        return None
    message = (
        f"Free GPUs would do, but it holds out for {_HELD_OUT_FOR[wanted.best_rung]} by its own max_wait_for_level, "
        f"until {instant_in_words(queued.shape.lax_from_ms)}."
    )
    return Reason("HOLDS_OUT", message, (("until_ms", queued.shape.lax_from_ms),))
