"""When will it start? A range for one waiting job, by what runs and what is ahead of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduling.core.first_start import is_bound, last_start
from scheduling.core.placement import find
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.explain import Explainer
    from scheduling.core.scheduler import Scheduler


# Told to the minute, so that a reason does not change with every tick.
STEP_MS = 60_000


def soonest(instant_ms: int) -> int:
    """The instant as it is told where nothing happens before it: its whole minute, down."""
    return instant_ms // STEP_MS * STEP_MS


def latest(instant_ms: int) -> int:
    """The instant as it is told where it happens by then: the whole minute, up."""
    return -(-instant_ms // STEP_MS) * STEP_MS


def soonest_to_come(instant_ms: int, now_ms: int) -> int:
    """The instant, which is after ``now_ms``, as :func:`soonest` tells it; itself where that is now or past."""
    return instant_ms if soonest(instant_ms) <= now_ms else soonest(instant_ms)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Instants in ms, ``low`` <= ``at`` <= ``high``: ``low`` if nothing else took its place; ``at`` when nothing else
    comes and all jobs run to their time limits, and of a long queue when the work ahead of it is shared out over the
    pool; ``high`` when that goes half as fast. ``rank``: its place in the queue, from 1. ``promised``: it holds a
    reservation and nobody ahead of it waits without one, so only a job still to come or a fault delays it. ``exact``:
    ``low`` is the instant until which something keeps it, and is not told in whole minutes. ``leaves``: it leaves the
    queue before it starts, and nobody asked when it would start if it stayed."""

    at: int
    low: int
    high: int
    rank: int
    promised: bool
    exact: bool = False
    leaves: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.at <= self.high:
            raise ValueError(f"an estimate from {self.low} to {self.high} does not hold what is expected, {self.at}")

    @property
    def told_low(self) -> int:
        """``low`` as it is told."""
        return self.low if self.exact else soonest(self.low)


def estimate(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> Estimate | None:
    """The estimate for a job of the queue; None when the pool as it is now has no place for it at all.

    The work ahead is the GPU time up to ``max_duration`` of every waiting job of higher rank, as if spread evenly over
    all GPUs that take work: what a queue that never idles needs at most, but for what doesn't pack. A short queue is
    played forward besides, and the range holds what comes of that; of a job that leaves it by its ``start_by``, where
    the explainer plays that too, what would come if it stayed.
    """
    found = explainer.starts_by(queued)
    if found is None:
        return None
    low, now_ms = found[0], explainer.cycle.now_ms
    rank, ahead = explainer.ahead_of(queued)
    if queued.job.due_ms >= low > now_ms and gets_it_then(scheduler, explainer, queued):
        ahead = 0
    gpus = max(1, explainer.in_service)
    last = low
    if queued.may_evict or _is_contested(scheduler, explainer, queued):
        past = last_start(scheduler, explainer.starts(queued), queued)
        last = low if past is None else max(low, past)
    at, high = (last if queued.may_evict else low) + ahead // gpus, last - (-2 * ahead // gpus)
    seen, limit = explainer.foresight.start_of(queued.job), queued.job.start_by_ms
    leaves = seen is not None and limit is not None and seen >= limit
    if leaves and explainer.plays_stays:
        seen = explainer.foresight.start_of(replace(queued.job, start_by_ms=None))
        leaves = False
    if seen is not None:
        seen = max(seen, now_ms)
        high = max(high, seen)
        if leaves:  # had it stayed, it would start then or later
            at = max(at, seen)
        else:
            low, at = min(low, seen), seen
    # A reservation binds those behind it only: with work ahead that holds none it is no more than a hope.
    # Nor is it one of the place that a gang gets which holds out no more, or of one before others' reservations.
    promised = explainer.is_promised(queued) and ahead == 0 and not queued.shape.wanted.strict and low == high
    return Estimate(at, low, high, rank, promised, is_bound(scheduler, queued, low), leaves)


def gets_it_then(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> bool:
    """Whether a job for which enough is free when its time comes gets that, whoever waits now: as a short queue is
    played, or else where it would fit by then on what is free already, and so on what those ahead do not want."""
    job, now_ms = queued.job, explainer.cycle.now_ms
    seen = explainer.foresight.start_of(job)
    if seen is not None:
        return seen <= max(job.due_ms, now_ms)
    span_ms = max(job.due_ms - now_ms, 0) + queued.duration_ms
    pins = explainer.bookings(queued).pins(queued.owner[1], span_ms)
    return find(scheduler.room, queued.shape.wanted, pins) is not None


def _is_contested(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> bool:
    """Whether others wait without a reservation, or for their time, that may take a place before one of those."""
    mine = queued.id
    waits = any(job != mine and not explainer.is_promised(each) for job, each in scheduler.waiting.by_id.items())
    return waits or any(job != mine for job in scheduler.sleeping)
