"""When does what waits start if nothing else comes? The queue played forward by the scheduler's own cycles.

Every job runs to its time limit, and who is evicted leaves when saving is known to be done, or its grace is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.leaving import once_saved
from scheduling.core.likeness import back_in_line, likeness
from scheduling.core.scheduler import Scheduler
from scheduling.core.wakeup import instants

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.snapshot import WaitingJob

# Playing so many takes up to a tenth of a second; longer queues are told by their work.
MAX_JOBS = 100
MAX_GPUS = 2048
NOBODY: frozenset[str] = frozenset()


class Foresight:
    """What comes of the queue after a cycle, played when it is first asked for."""

    def __init__(self, scheduler: Scheduler, cycle: Cycle) -> None:
        self._scheduler = scheduler
        self._gone = frozenset(reclaim.job for reclaim in cycle.back.reclaims if reclaim.whole)
        self._starts: dict[str, int] | None = None

    def start_of(self, job: WaitingJob) -> int | None:
        """When the job starts, or leaves by its ``start_by``, in ms; it need not be among those that wait, or may be
        one of them changed. None where it never does, and where the queue is too long to be played."""
        if not is_short(self._scheduler):
            return None
        if self._scheduler.waiting_job(job.id) != job:
            return played(self._scheduler, more=job, gone=self._gone).get(job.id)
        if self._starts is None:
            self._starts = played(self._scheduler, gone=self._gone)
        return self._starts.get(job.id)


def is_short(scheduler: Scheduler) -> bool:
    """Whether the queue and the pool are small enough to be played forward."""
    jobs = len(scheduler.waiting.by_id) + len(scheduler.sleeping) + len(scheduler.nominees) + len(scheduler.live)
    return jobs <= MAX_JOBS and len(scheduler.inventory.gpus) <= MAX_GPUS


def played(scheduler: Scheduler, *, more: WaitingJob | None = None, gone: frozenset[str] = NOBODY) -> dict[str, int]:
    """By job that waits, and that of ``more``, the instant in ms at which it starts or, by its ``start_by``, leaves;
    none where it never does. The scheduler itself is not touched.

    ``gone``: live jobs that are being taken back; they leave at once, and what becomes of them is left out.
    """
    play = _Play(scheduler, more, gone)
    while play.goes_on():
        pass
    return play.starts


class _Play:
    """A scheduler of its own, and when each of its live jobs leaves."""

    def __init__(self, scheduler: Scheduler, more: WaitingJob | None, gone: frozenset[str]) -> None:
        present = likeness(scheduler) if more is None else likeness(scheduler, more)
        self.now_ms, self.gone = present.now_ms, gone
        self.scheduler = Scheduler(present)
        inventory = scheduler.inventory
        self.scheduler.use(
            frozenset(
                inventory.gpus[gpu].uuid
                for cell, mask in enumerate(scheduler.room.usable)
                for gpu in inventory.gpus_in(cell, mask)
            )
        )
        self.scheduler.only_starts = True
        self.starts: dict[str, int] = {}
        self.ends = {job: held.expected_end(self.now_ms) for job, held in self.scheduler.live.items()}
        self.ends |= dict.fromkeys(sorted(gone & self.ends.keys()), self.now_ms)

    def goes_on(self) -> bool:
        """One cycle, and the time up to the next one; False when nothing happens any more."""
        scheduler, now_ms = self.scheduler, self.now_ms
        plan = scheduler.cycle(now_ms)
        for start in plan.starts:
            self.starts.setdefault(start.job, now_ms)
            self.ends[start.job] = scheduler.live[start.job].end_ms
        for expired in plan.expired:
            self.starts.setdefault(expired.job, now_ms)
        for preempt in plan.preempts:
            saved_ms, _ = once_saved(scheduler, [scheduler.live[preempt.job]], now_ms)
            self.ends[preempt.job] = min(self.ends[preempt.job], saved_ms)
        if not (scheduler.waiting or scheduler.sleeping or scheduler.nominees):
            return False
        coming = [instant for instant in instants(scheduler, self.gone) if instant > now_ms]
        coming += [max(end_ms, now_ms) for end_ms in self.ends.values()]
        if not coming:
            return False
        self.now_ms = min(coming)
        self._leave()
        return True

    def _leave(self) -> None:
        """Whose time has come has left; who was evicted waits again."""
        scheduler, now_ms = self.scheduler, self.now_ms
        for job in [job for job, end_ms in self.ends.items() if end_ms <= now_ms]:
            del self.ends[job]
            held = scheduler.live[job]
            scheduler.ended(job, now_ms)
            if held.preempting and job not in self.gone and held.end_ms > now_ms:
                scheduler.submit(back_in_line(scheduler, held, now_ms))
