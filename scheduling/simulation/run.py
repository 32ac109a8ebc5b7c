"""Where is one simulated job, and how much of its work is left?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduling.core.snapshot import WaitingJob
from scheduling.simulation.outcome import Fate, JobOutcome
from scheduling.simulation.runtime import SimJob

# Where a job is: to come, in the queue, on its GPUs, saving because it is evicted, or over. Numbers, as looking up a
# member of an enum takes several times as long, and each job goes through most of them.
COMING, QUEUED, RUNNING, SAVING, OVER = range(5)

_FATES = {
    COMING: Fate.NOT_COME,
    QUEUED: Fate.WAITING,
    RUNNING: Fate.RUNNING,
    SAVING: Fate.RUNNING,
}


class Run:
    """One job in virtual time. What was foreseen for one of its attempts is void once ``token`` has moved on."""

    __slots__ = (
        "arrives_ms", "checkpoint_ms", "end_ms", "entity", "fate", "faults", "first_ms", "gpus", "id",
        "index", "kept_ms", "left_ms", "limit_ms", "lost_gpu_ms", "nodes", "overhead_ms", "preemptions",
        "runs_ms", "saved_work", "stage", "started_ms", "stopped_ms", "token", "waited_again_ms", "waiting", "wants",
    )  # fmt: skip

    def __init__(self, sim: SimJob, index: int, entity: int, *, runs_ms: int, limit_ms: int) -> None:
        waiting = sim.waiting
        self.id, self.index, self.entity, self.waiting = waiting.id, index, entity, waiting
        self.arrives_ms, self.wants = waiting.submitted_ms, waiting.request.gpu_count
        self.runs_ms = self.left_ms = runs_ms
        self.limit_ms = limit_ms
        self.checkpoint_ms = sim.checkpoint_s * 1000
        self.stage = COMING
        self.fate: Fate | None = None
        self.token = self.preemptions = self.faults = self.lost_gpu_ms = self.waited_again_ms = 0
        self.overhead_ms = self.started_ms = self.kept_ms = 0
        self.saved_work = False
        self.first_ms: int | None = None
        self.stopped_ms: int | None = None
        self.end_ms: int | None = None
        self.gpus: tuple[str, ...] = ()
        self.nodes: tuple[str, ...] = ()

    def waiting_instants(self, now_ms: int) -> Iterable[int]:
        """When something about its waiting changes by itself after ``now_ms``."""
        waiting = self.waiting
        hold_out_s, start_by_ms = waiting.request.max_wait_for_level_s, waiting.start_by_ms
        if hold_out_s is None and start_by_ms is None and not waiting.not_before_ms and not waiting.eligible_at_ms:
            return ()
        instants = [max(waiting.not_before_ms, waiting.eligible_at_ms)]
        if hold_out_s is not None:
            instants.append(waiting.submitted_ms + hold_out_s * 1000)
        if start_by_ms is not None:
            instants.append(start_by_ms)
        return [instant for instant in instants if instant > now_ms]

    def start(self, now_ms: int, gpus: tuple[str, ...], nodes: tuple[str, ...]) -> int:
        """It is on these GPUs from now; returns the instant at which its work will be done."""
        self.stage = RUNNING
        self.started_ms = now_ms
        if self.first_ms is None:
            self.first_ms = now_ms
        if self.stopped_ms is not None:
            self.waited_again_ms += now_ms - self.stopped_ms
            self.stopped_ms = None
        self.gpus, self.nodes = gpus, nodes
        self.token += 1
        return now_ms + self.overhead_ms + self.left_ms

    def worked_ms(self, now_ms: int) -> int:
        """The work that the running attempt has done: its time without the time for restoring."""
        return max(0, now_ms - self.started_ms - self.overhead_ms)

    def stop(self, now_ms: int, kept_ms: int) -> None:
        """The attempt is over and ``kept_ms`` of its work counts; the rest of its time was lost."""
        self.token += 1
        self.lost_gpu_ms += len(self.gpus) * (now_ms - self.started_ms - kept_ms)
        self.left_ms -= kept_ms
        self.limit_ms -= kept_ms
        self.saved_work = self.saved_work or kept_ms > 0

    def requeue(self, now_ms: int, restore_s: int, **changed: object) -> WaitingJob:
        """It waits again, with its place in the queue: what is left of its limit, and the time for restoring."""
        self.stage = QUEUED
        self.stopped_ms = now_ms
        self.overhead_ms = restore_s * 1000
        left_s = max(1, -(-self.limit_ms // 1000))
        self.waiting = replace(self.waiting, remaining_s=left_s + restore_s, **changed)  # type: ignore[arg-type]
        return self.waiting

    def outcome(self, fate: Fate | None = None) -> JobOutcome:
        """How it stands now; ``fate`` when nothing that happened says it."""
        waiting = self.waiting
        return JobOutcome(
            id=self.id,
            level=waiting.level,
            level_value=waiting.level_value,
            project=waiting.project,
            gpus=self.wants,
            submitted_ms=waiting.submitted_ms,
            runs_ms=self.runs_ms,
            fate=fate or self.fate or _FATES[self.stage],
            first_start_ms=self.first_ms,
            end_ms=self.end_ms,
            preemptions=self.preemptions,
            faults=self.faults,
            lost_gpu_ms=self.lost_gpu_ms,
            waited_again_ms=self.waited_again_ms,
            resumed=self.stopped_ms is None and self.fate is not Fate.FAILED,
        )
