"""The simplest planner: by level, then first come, first served; the first free GPUs. Tests of the loop run on it."""

from __future__ import annotations

from scheduling.core.plan import Nominate, Plan, Preempt, Start
from scheduling.core.snapshot import Snapshot, WaitingJob


class Fifo:
    """Starts the jobs in the order they came until one does not fit. ``told`` has what the simulation told it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.assume_saved = False
        self.free = [gpu.uuid for gpu in snapshot.pool.installed]
        self.order = {uuid: place for place, uuid in enumerate(self.free)}
        self.usable = set(self.free)
        self.waiting = list(snapshot.waiting)
        self.live: dict[str, tuple[str, ...]] = {}
        for attempt in snapshot.live:
            self.live[attempt.job] = attempt.gpus
            self.free = [uuid for uuid in self.free if uuid not in attempt.gpus]
        self.told: list[tuple[object, ...]] = []

    def submit(self, job: WaitingJob) -> bool:
        self.told.append(("submit", job.id))
        self.waiting.append(job)
        self.waiting.sort(key=lambda each: (-each.level_value, each.submitted_ms, each.id))
        return self.waiting[0] is job

    def ended(self, job_id: str, now_ms: int) -> None:
        self.told.append(("ended", job_id, now_ms))
        self.free = sorted({*self.free, *self.live.pop(job_id)}, key=self.order.__getitem__)

    def use(self, usable: frozenset[str]) -> None:
        self.usable = set(usable)

    def cycle(self, now_ms: int) -> Plan:
        self.told.append(("cycle", now_ms))
        starts = []
        while self.waiting:
            job = self.waiting[0]
            free = [uuid for uuid in self.free if uuid in self.usable][: job.request.gpu_count]
            if len(free) < job.request.gpu_count or job.eligible_at_ms > now_ms:
                break
            self.waiting.pop(0)
            self.live[job.id] = tuple(free)
            self.free = [uuid for uuid in self.free if uuid not in free]
            starts.append(Start(job.id, tuple(free), tuple(dict.fromkeys(uuid.split("/")[0] for uuid in free))))
        return Plan(now_ms, starts=tuple(starts))


class Evicting(Fifo):
    """Evicts everything that runs for a Critical job that does not fit, once."""

    def cycle(self, now_ms: int) -> Plan:
        plan = super().cycle(now_ms)
        blocked = self.waiting[0] if self.waiting and self.waiting[0].level == "Critical" else None
        if blocked is None or not self.live or any(told[:2] == ("evicted", blocked.id) for told in self.told):
            return plan
        self.told.append(("evicted", blocked.id))
        victims = tuple(Preempt(f"{name}#1", name, 1, blocked.id, 0.0) for name in sorted(self.live))
        gpus = tuple(uuid for name in sorted(self.live) for uuid in self.live[name])
        nominated = Nominate(blocked.id, gpus, now_ms + 30_000)
        return Plan(now_ms, starts=plan.starts, preempts=victims, nominations=(nominated,))
