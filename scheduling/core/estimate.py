"""When will it start? A range for one waiting job, by what runs and what is ahead of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduling.core.explain import Explainer
from scheduling.core.ordering import rank_key
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Estimate:
    """Instants in ms: ``low`` if nothing else took its place, ``at`` when the work ahead of it is shared out over the
    pool, ``high`` when that goes as badly as half as fast. ``rank``: its place in the queue, from 1. ``promised``: it
    holds a reservation, so only a job of higher rank or a fault makes it start later than ``at``."""

    at: int
    low: int
    high: int
    rank: int
    promised: bool


def estimate(scheduler: Scheduler, explainer: Explainer, queued: Queued, *, now_ms: int) -> Estimate | None:
    """The estimate for a job of the queue; None when the pool as it is now has no place for it at all.

    The work ahead is the GPU time up to ``max_duration`` of every waiting job of higher rank, as if spread evenly over
    all GPUs that take work: what a queue that never idles needs at most, but for what doesn't pack.
    """
    found = explainer.starts_by(queued)
    if found is None:
        return None
    low = found[0]
    mine = rank_key(queued.job, scheduler.share)
    ahead = 0
    rank = 1
    for other in scheduler.waiting.by_id.values():
        if other is not queued and rank_key(other.job, scheduler.share) < mine:
            rank += 1
            ahead += other.shape.request.gpu_count * other.duration_ms
    gpus = max(1, sum(mask.bit_count() for mask in scheduler.room.usable))
    promised = explainer.is_promised(queued)
    at = low if promised else max(low, now_ms + ahead // gpus)
    high = low if promised else max(at, now_ms + 2 * (ahead // gpus))
    return Estimate(at, low, high, rank, promised)
