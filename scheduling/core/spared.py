"""Why does a job that may evict others evict none? Nobody it may evict makes room, or waiting is as fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.placement import fits_with
from scheduling.core.plan import Reason
from scheduling.core.preemption import Patience, runs_on, within_its_rights
from scheduling.core.room import NO_PINS
from scheduling.core.waiting import Queued
from scheduling.core.words import agree, duration_in_words, gpus_in_words, instant_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler


class Spared:
    """The reasons as things are, found once for the jobs of one shape and level of one queue."""

    __slots__ = ("_scheduler", "_told")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._told: dict[object, Reason] = {}

    def reason(self, queued: Queued, patience: Patience | None) -> Reason:
        """Why the job, which has the right to evict and does not start, evicts nobody. ``patience``: that victims
        would make room for it, but no sooner."""
        if patience is not None:
            return _as_soon(patience)
        key = (queued.job.queue, queued.job.level, queued.shape)
        found = self._told.get(key)
        if found is None:
            within = within_its_rights(self._scheduler, queued)
            unsaved = [held for held in within if runs_on(self._scheduler, held)]
            found = _not_saved(unsaved) if unsaved else _no_victims(within, due=self._fits_without(within, queued))
            self._told[key] = found
        return found

    def _fits_without(self, held: list[Held], queued: Queued) -> bool:
        """Whether it would fit without these, if nothing was promised to others."""
        room = self._scheduler.room
        cells = self._scheduler.inventory.cells_of_gpus([gpu for each in held for gpu in each.gpus])
        opened = {cell: mask & room.usable[cell] & ~room.free[cell] for cell, mask in cells.items()}
        return fits_with(room, queued.shape.wanted, NO_PINS, opened={c: mask for c, mask in opened.items() if mask})


def _not_saved(unsaved: list[Held]) -> Reason:
    """NOT_SAVED: jobs that it could evict else were asked to save in vain (D8)."""
    message = (
        f"{jobs_in_words(len(unsaved))} that it may evict did not save in the time given, and their queue is never "
        "stopped without a checkpoint: they run on, and are asked again once they have saved."
    )
    return Reason("NOT_SAVED", message, (("unsaved", len(unsaved)), ("victim", unsaved[0].id)))


def _no_victims(evictable: list[Held], *, due: bool) -> Reason:
    """NO_VICTIMS: what it may evict holds too little of what it needs, all of it taken together; or what it would leave
    is ``due`` to others, so that the job could not have it for long enough."""
    jobs, gpus = len(evictable), sum(len(held.gpus) for held in evictable)
    which = f"the {agree(jobs, 'one running job', f'{jobs} running jobs')} that it may evict"
    if not jobs:
        message = "It may evict others, but no job runs now that it may evict."
    elif due:
        message = (
            f"It may evict others, but what {which} would leave is promised to jobs ahead of it, or closed by a "
            "window, before it would end."
        )
    else:
        message = (
            f"It may evict others, but even without {which}, which {agree(jobs, 'holds', 'hold')} "
            f"{gpus_in_words(gpus)}, it would not fit."
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
