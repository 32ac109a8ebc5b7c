"""A job that holds GPUs, and one whose GPUs are being freed for it."""

from __future__ import annotations

from scheduling.core.fairshare import Owner, Run
from scheduling.core.lifecycle import JobState
from scheduling.core.resources import GroupRule
from scheduling.core.snapshot import ALWAYS_SAVED, RESTORE_S, LiveAttempt, WaitingJob
from scheduling.core.waiting import Queued

# A job past its max_duration is about to be ended: its GPUs are expected a minute from now.
OVERDUE_MS = 60_000


class Held:
    """A live job: the GPUs it holds until it is told to have ended, and what evicting it would cost."""

    __slots__ = (
        "apart", "asked_ms", "attempt", "cells", "checkpoint_interval_s", "end_ms", "epoch", "gpus", "group", "id",
        "leaving", "level", "level_value", "owner", "preemptible", "preempting", "recent_preemptions", "restore_s",
        "run", "running", "save_s", "saved_ms", "started_in", "started_ms", "stop_by_ms",
    )  # fmt: skip

    def __init__(self, job_id: str, owner: Owner, gpus: list[int], *, cells: dict[int, int], run: Run) -> None:
        self.id, self.owner, self.gpus, self.cells, self.run = job_id, owner, gpus, cells, run
        self.end_ms = run.end_ms
        self.started_ms = run.start_ms
        self.started_in = -1  # the number of the cycle that started it, of those of this scheduler
        self.attempt, self.epoch = "", 0
        self.level, self.level_value = "", 0
        self.preemptible, self.preempting, self.running = True, False, True
        self.saved_ms: int | None = None
        self.stop_by_ms: int | None = None
        self.asked_ms: int | None = None
        self.leaving = False  # a node of it has ended its part
        self.checkpoint_interval_s, self.recent_preemptions = 0, 0
        self.save_s: float | None = None
        self.restore_s = RESTORE_S
        self.group: str | None = None
        self.apart: GroupRule | None = None

    def expected_end(self, now_ms: int) -> int:
        """By when its GPUs are free at the latest: never in the past (D29)."""
        end = self.end_ms
        if self.stop_by_ms is not None and self.stop_by_ms < end:
            end = self.stop_by_ms
        return end if end > now_ms else now_ms + OVERDUE_MS

    def lost_ms(self, now_ms: int) -> int:
        """GPU-ms that evicting it now would lose: since its checkpoint or its start, and for resuming it."""
        since = self.started_ms if self.saved_ms is None else self.saved_ms
        return len(self.gpus) * (max(0, now_ms - since) + self.restore_s * 1000)

    @property
    def asked_in_vain(self) -> bool:
        """Whether it was asked to leave for another job, as far as is known in vain, and has not saved since."""
        return self.asked_ms is not None and (self.saved_ms is None or self.saved_ms <= self.asked_ms)

    def as_in(self, attempt: LiveAttempt) -> Held:
        """The facts of an attempt that was live before."""
        self.attempt, self.epoch = attempt.attempt, attempt.epoch
        self.level, self.level_value = attempt.level, attempt.level_value
        self.preemptible = attempt.preemptible
        self.preempting = attempt.state is JobState.PREEMPTING
        self.running = attempt.state is JobState.RUNNING
        self.started_ms = attempt.granted_ms if attempt.started_ms is None else attempt.started_ms
        self.saved_ms, self.save_s, self.restore_s = attempt.saved_ms, attempt.save_s, attempt.restore_s
        self.stop_by_ms, self.asked_ms, self.leaving = attempt.stop_by_ms, attempt.asked_ms, bool(attempt.left)
        self.checkpoint_interval_s = attempt.checkpoint_interval_s
        self.recent_preemptions = attempt.recent_preemptions
        self.group, self.apart = attempt.group, attempt.apart
        return self

    def as_started(self, job: WaitingJob, *, cycle: int, always_saved: bool) -> Held:
        """The facts of a waiting job that has just started, in the cycle of this number."""
        self.started_in = cycle
        self.level, self.level_value = job.level, job.level_value
        self.preemptible, self.recent_preemptions = job.preemptible, job.recent_preemptions
        self.saved_ms = ALWAYS_SAVED if always_saved else None
        self.group, self.apart = job.group, job.request.apart
        return self


class Nominee:
    """A waiting job and the GPUs kept for it until ``deadline_ms``; ``charged`` millionths of GPU-ms it may use.

    ``again``: it has made its one new plan (D8).
    """

    __slots__ = ("again", "cells", "charged", "deadline_ms", "gpus", "queued")

    def __init__(
        self, queued: Queued, gpus: list[int], cells: dict[int, int], *, deadline_ms: int, charged: int, again: bool
    ) -> None:
        self.again = again
        self.queued, self.gpus, self.cells = queued, gpus, cells
        self.deadline_ms, self.charged = deadline_ms, charged
