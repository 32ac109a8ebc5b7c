"""When and where could it start at the soonest? Not before its time, and wherever it may lie once it holds out no more.

It is asked between the promises to others: those that begin after its end do not stand in its way, as the scheduler
itself has it when the time comes (5.1 of the design).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.between import Starts, first_of, soonest_between
from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.group_times import earliest_of
from scheduling.core.placement import find
from scheduling.core.plan import Reason
from scheduling.core.preemption import Patience, choose_victims, evictable, grace_ms
from scheduling.core.reservations import Asked
from scheduling.core.room import Wanted
from scheduling.core.waiting import Queued
from scheduling.core.words import RUNGS_IN_WORDS, instant_in_words

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler

_HELD_OUT_FOR = tuple(RUNGS_IN_WORDS.values())  # by rung of the ladder


def asked_of(queued: Queued, now_ms: int, *, wanted: Wanted | None = None, from_ms: int = 0) -> Asked:
    """The job's question for its earliest start, from its own time on if that is still to come."""
    from_ms = max(from_ms, queued.job.due_ms)
    asked = Asked(wanted or queued.shape.wanted, queued.owner[1], queued.duration_ms)
    asked.from_ms = from_ms if from_ms > now_ms else 0
    return asked


def first_start(
    scheduler: Scheduler, bookings: Bookings, queued: Queued, *, evicts: bool = True
) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start between these promises; None when there is none.

    The rules of the job's shape must be as of now. A gang that holds out for the best rung starts on that, or when it
    holds out no more. A job that may evict has the GPUs of those that it may evict at once, where waiting is not as
    fast; with ``evicts`` False it evicts nobody.
    """
    shape, now_ms = queued.shape, bookings.now_ms
    asked = [asked_of(queued, now_ms)]
    if shape.wanted.strict:
        asked.append(asked_of(queued, now_ms, wanted=shape.wanted.at_any_rung(), from_ms=shape.lax_from_ms))
    if evicts and queued.may_evict and not _waits_as_fast(scheduler, bookings, queued):
        sooner = within_reach(scheduler, queued, saves=False)
        for each in asked:
            each.sooner = sooner
    best: tuple[int, list[int]] | None = None
    for each in asked:
        found = soonest_between(scheduler, bookings, shape, each)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best


def start_between(
    scheduler: Scheduler, starts: Starts, queued: Queued, *, evicts: bool = True, most: int | None = None
) -> tuple[int, list[int]] | None:
    """As :func:`first_start` between the promises of ``starts``, or only the first ``most`` of them; what is the same
    for all jobs of a shape is found once."""
    project = queued.owner[1]
    if not queued.shape.changes_itself and not (evicts and queued.may_evict):
        return starts.first(queued.shape, project, queued.duration_ms, from_ms=queued.job.due_ms, most=most)
    bookings = starts.bookings if most is None else first_of(scheduler, starts.bookings, project, most)
    return first_start(scheduler, bookings, queued, evicts=evicts)


def last_start(scheduler: Scheduler, starts: Starts, queued: Queued) -> int | None:
    """The instant in ms of its earliest start past all promises of ``starts``, where those that it may evict take as
    long to save as is known of them, and it holds out to the end; None when there is none."""
    bookings, shape, project = starts.bookings, queued.shape, queued.owner[1]
    if not shape.changes_itself and not queued.may_evict:
        found = starts.past(shape, project, len(starts.begins(shape, project)))
        return None if found is None else max(found[0], bookings.now_ms, queued.job.due_ms)
    asked = asked_of(
        queued, bookings.now_ms, wanted=queued.shape.wanted.at_any_rung(), from_ms=queued.shape.lax_from_ms
    )
    if queued.may_evict and not _waits_as_fast(scheduler, bookings, queued):
        asked.sooner = within_reach(scheduler, queued, saves=True)
    everything = first_of(scheduler, bookings, asked.project, len(bookings.blocking(asked.project)))
    found = earliest_of(scheduler, everything, queued.shape, asked)
    return None if found is None else max(found[0], bookings.now_ms, asked.from_ms)


def within_reach(scheduler: Scheduler, queued: Queued, *, saves: bool) -> dict[int, int]:
    """The GPUs of those that the job may evict, with the instant in ms by which they have left: at once, or when each
    of them ``saves``."""
    at, now_ms = scheduler.releases.at, scheduler.share.clock.now_ms
    return {
        gpu: now_ms + (grace_ms(scheduler, held) if saves else 0)
        for held in evictable(scheduler, queued)
        for gpu in held.gpus
        if at[gpu] < NEVER
    }


def _waits_as_fast(scheduler: Scheduler, bookings: Bookings, queued: Queued) -> bool:
    """Whether it evicts nobody because waiting is as fast (4.3.3): as its turn had it, or, without one, now."""
    if scheduler.last is not None and queued.judged == scheduler.last.number:
        return queued.patience is not None
    pins = bookings.pins(queued.owner[1], queued.duration_ms)
    if find(scheduler.room, queued.shape.wanted, pins) is not None:  # it does not wait now, but for its time
        return False
    return isinstance(choose_victims(scheduler, bookings, queued, pins=pins, now_ms=bookings.now_ms), Patience)


def is_bound(scheduler: Scheduler, queued: Queued, instant_ms: int) -> bool:
    """Whether the instant keeps the job waiting to the moment: its own times do, and the ends of windows."""
    if instant_ms == queued.shape.lax_from_ms or instant_ms == queued.job.due_ms:
        return True
    return bool(scheduler.windows) and any(window.end_ms == instant_ms for window in scheduler.windows)


def holds_out(scheduler: Scheduler, bookings: Bookings, queued: Queued) -> Reason | None:
    """HOLDS_OUT when free GPUs would do, but for the rung that the job itself holds out for (D18)."""
    wanted = queued.shape.wanted
    if not wanted.strict:
        return None
    pins = bookings.pins(queued.owner[1], queued.duration_ms)
    if find(scheduler.room, wanted.at_any_rung(), pins) is None:
        return None
    message = (
        f"Free GPUs would do, but it was asked to hold out for {_HELD_OUT_FOR[wanted.best_rung]} until "
        f"{instant_in_words(queued.shape.lax_from_ms)}."
    )
    return Reason("HOLDS_OUT", message, (("until_ms", queued.shape.lax_from_ms),))
