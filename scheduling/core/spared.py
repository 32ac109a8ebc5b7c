"""Why does a job that may evict others evict none? Nobody it may evict makes room, or waiting is as fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.plan import Reason
from scheduling.core.preemption import Patience, runs_on, within_its_rights
from scheduling.core.waiting import Queued
from scheduling.core.words import agree, duration_in_words, gpus_in_words, instant_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler


class Spared:
    """The reasons as things are, found once for the jobs of one level of one queue."""

    __slots__ = ("_scheduler", "_told")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._told: dict[tuple[str, str], Reason] = {}

    def reason(self, queued: Queued, patience: Patience | None) -> Reason:
        """Why the job, which has the right to evict and does not start, evicts nobody. ``patience``: that victims
        would make room for it, but no sooner."""
        if patience is not None:
            return _as_soon(patience)
        rights = (queued.job.queue, queued.job.level)
        found = self._told.get(rights)
        if found is None:
            within = within_its_rights(self._scheduler, queued)
            unsaved = [held for held in within if runs_on(self._scheduler, held)]
            found = self._told[rights] = _not_saved(unsaved) if unsaved else _no_victims(within)
        return found


def _not_saved(unsaved: list[Held]) -> Reason:
    """NOT_SAVED: jobs that it could evict else were asked to save in vain (D8)."""
    message = (
        f"{jobs_in_words(len(unsaved))} that it may evict did not save in the time given, and their queue is never "
        "stopped without a checkpoint: they run on, and are asked again once they have saved."
    )
    return Reason("NOT_SAVED", message, (("unsaved", len(unsaved)), ("victim", unsaved[0].id)))


def _no_victims(evictable: list[Held]) -> Reason:
    """NO_VICTIMS: what it may evict holds too little of what it needs, all of it taken together."""
    jobs, gpus = len(evictable), sum(len(held.gpus) for held in evictable)
    if not jobs:
        message = "It may evict others, but no job runs now that it may evict."
    else:
        message = (
            f"It may evict others, but even without the {agree(jobs, 'one running job', f'{jobs} running jobs')} that "
            f"it may evict, which {agree(jobs, 'holds', 'hold')} {gpus_in_words(gpus)}, it would not fit."
        )
    return Reason("NO_VICTIMS", message, (("evictable", jobs), ("evictable_gpus", gpus)))


def _as_soon(patience: Patience) -> Reason:
    """AS_SOON: by the time limits of what runs it starts no later than with what victims would free (4.3.3)."""
    save_s = -(-patience.save_ms // 1000)
    message = (
        f"It may evict others, but waiting is as fast: by the time limits of what runs, GPUs are free for it at "
        f"{instant_in_words(patience.free_at_ms)}, and {jobs_in_words(patience.victims)} that it would evict may take "
        f"{duration_in_words(save_s)} to save."
    )
    return Reason(
        "AS_SOON", message, (("free_at_ms", patience.free_at_ms), ("would_evict", patience.victims), ("save_s", save_s))
    )
