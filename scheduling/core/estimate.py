"""When will it start? A range for one waiting job, by what runs and what is ahead of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduling.core.first_start import bounds_of
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


@dataclass(frozen=True, slots=True)
class Estimate:
    """Instants in ms: ``low`` if nothing else took its place, ``at`` when the work ahead of it is then shared out over
    the pool, ``high`` when that goes half as fast. ``rank``: its place in the queue, from 1. ``promised``: it holds a
    reservation and nobody ahead of it waits without one, so only a job still to come or a fault delays it. ``exact``:
    ``low`` is the instant until which something keeps it, and is not told in whole minutes."""

    at: int
    low: int
    high: int
    rank: int
    promised: bool
    exact: bool = False

    @property
    def told_low(self) -> int:
        """``low`` as it is told."""
        return self.low if self.exact else soonest(self.low)


def estimate(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> Estimate | None:
    """The estimate for a job of the queue; None when the pool as it is now has no place for it at all.

    The work ahead is the GPU time up to ``max_duration`` of every waiting job of higher rank, as if spread evenly over
    all GPUs that take work: what a queue that never idles needs at most, but for what doesn't pack.
    """
    found = explainer.starts_by(queued)
    if found is None:
        return None
    low = found[0]
    exact = low in bounds_of(scheduler, queued)
    rank, ahead = explainer.ahead_of(queued)
    if queued.job.due_ms >= low > explainer.cycle.now_ms:
        ahead = 0  # GPUs are free for it when its time comes, whoever waits
    gpus = max(1, sum(mask.bit_count() for mask in scheduler.room.usable))
    # A reservation binds those behind it only: with work ahead that holds none it is no more than a hope.
    # Nor is it one of the place that a gang gets which holds out no more.
    promised = explainer.is_promised(queued) and ahead == 0 and not queued.shape.wanted.strict
    return Estimate(low + ahead // gpus, low, low - (-2 * ahead // gpus), rank, promised, exact)
