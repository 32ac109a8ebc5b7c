"""A small world in time: it keeps what the store would keep, carries plans out, and shows itself as a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduling.core.decay import decay, interval
from scheduling.core.lifecycle import JobState
from scheduling.core.plan import Plan
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.snapshot import Account, LiveAttempt, Nomination, Snapshot, Usage, WaitingJob, Window

from .reference_ledgers import MICRO, Entity, entities, weight_of


class World:
    """Jobs that wait and run on a pool. Nothing ends by itself: whoever drives it says what happens and when."""

    def __init__(
        self, pool: Pool, policy: Policy, *, live: Iterable[LiveAttempt] = (), windows: Iterable[Window] = ()
    ) -> None:
        self.pool, self.policy, self.windows = pool, policy, tuple(windows)
        self.waiting: dict[str, WaitingJob] = {}
        self.live: dict[str, LiveAttempt] = {attempt.job: attempt for attempt in live}
        self.origin: dict[str, WaitingJob] = {}
        self.nominations: dict[str, Nomination] = {}
        self.leaves_for: dict[str, str] = {}  # by victim: for whom it was asked to leave
        self.accounts: dict[Entity, Account] = {}
        self.attempts = 0

    def submit(self, *jobs: WaitingJob) -> None:
        """The jobs wait."""
        self.waiting |= {job.id: job for job in jobs}

    def withdraw(self, name: str) -> None:
        """The job waits no more. What is kept for it is so until a plan gives it up."""
        del self.waiting[name]

    def ended(self, name: str, now_ms: int) -> WaitingJob | None:
        """The attempt is over and paid for. The job as it waits again when it had been asked to stop, else None."""
        attempt = self.live.pop(name)
        self._settle(attempt, now_ms)
        if attempt.state is not JobState.PREEMPTING:
            return None
        started = attempt.started_ms if attempt.started_ms is not None else attempt.granted_ms
        left = max(1, self.origin[name].remaining_s - (now_ms - started) // 1000)
        again = replace(self.origin[name], remaining_s=left)
        self.submit(again)
        return again

    def saved(self, name: str, saved_ms: int) -> None:
        """The attempt has a verified checkpoint made at that time."""
        self.live[name] = replace(self.live[name], saved_ms=saved_ms)

    def carry_out(self, plan: Plan) -> None:
        """What the plan says happens at once; victims go on until they end."""
        for unnominate in plan.unnominations:
            del self.nominations[unnominate.job]
        for start in plan.starts:
            self._start(self.waiting.pop(start.job), start.gpus, start.nodes, plan.now_ms)
        for preempt in plan.preempts:
            stop_by = plan.now_ms + round(preempt.grace_s * 1000)
            victim = self.live[preempt.job]
            self.live[preempt.job] = replace(
                victim, state=JobState.PREEMPTING, stop_by_ms=stop_by, asked_ms=plan.now_ms
            )
            self.leaves_for[preempt.job] = preempt.nominee
        for nominate in plan.nominations:
            self.nominations[nominate.job] = Nomination(
                nominate.job, nominate.gpus, nominate.deadline_ms, nominate.again
            )
        for expire in plan.expired:
            self.withdraw(expire.job)

    def spare(self, plan: Plan) -> list[LiveAttempt]:
        """Those that were to leave for jobs whose wait for them ended by this plan run on: as they are then.

        To be called before the plan is carried out.
        """
        settled = {each.job for each in (*plan.unnominations, *plan.starts)}
        found = []
        for name in sorted(victim for victim, wants in self.leaves_for.items() if wants in settled):
            del self.leaves_for[name]
            victim = self.live.get(name)
            if victim is not None and victim.state is JobState.PREEMPTING:
                late = victim.stop_by_ms is not None and victim.stop_by_ms <= plan.now_ms
                asked = victim.asked_ms if late else None
                self.live[name] = replace(victim, state=JobState.RUNNING, stop_by_ms=None, asked_ms=asked)
                found.append(self.live[name])
        return found

    def snapshot(self, now_ms: int) -> Snapshot:
        """All of it as it stands."""
        ledgers: dict[str, dict[tuple[str, ...], Account]] = {"queue": {}, "project": {}, "user": {}}
        for (ledger, *names), account in self.accounts.items():
            ledgers[ledger][tuple(names)] = account
        return Snapshot(
            now_ms=now_ms,
            policy=self.policy,
            pool=self.pool,
            waiting=tuple(self.waiting.values()),
            live=tuple(self.live.values()),
            usage=Usage(
                {name: account for (name,), account in ledgers["queue"].items()},
                {name: account for (name,), account in ledgers["project"].items()},
                {(project, user): account for (project, user), account in ledgers["user"].items()},
            ),
            nominations=tuple(self.nominations.values()),
            windows=self.windows,
        )

    def _start(self, job: WaitingJob, gpus: tuple[str, ...], nodes: tuple[str, ...], now_ms: int) -> None:
        held = [uuid for attempt in self.live.values() for uuid in attempt.gpus]
        assert len(set(gpus)) == len(gpus), f"{job.id} is given a GPU twice: {gpus}"
        assert set(held).isdisjoint(gpus), f"{job.id} is given GPUs that others hold: {gpus}"
        self.nominations.pop(job.id, None)
        self.attempts += 1
        self.origin[job.id] = job
        self.live[job.id] = LiveAttempt(
            attempt=f"attempt {self.attempts}",
            job=job.id,
            epoch=self.attempts,
            number=1,
            queue=job.queue,
            project=job.project,
            user=job.user,
            gpus=gpus,
            nodes=nodes,
            state=JobState.RUNNING,
            granted_ms=now_ms,
            started_ms=now_ms,
            end_ms=now_ms + job.remaining_s * 1000,
            level=job.level,
            level_value=job.level_value,
            preemptible=job.preemptible,
            recent_preemptions=job.recent_preemptions,
            group=job.group,
            apart=job.request.apart,
        )

    def _settle(self, attempt: LiveAttempt, now_ms: int) -> None:
        half_life = round(self.policy.half_life_s * 1000)
        weight = weight_of(self.snapshot(now_ms), attempt)
        ran = interval(weight / MICRO, attempt.granted_ms, now_ms, now_ms, half_life_ms=half_life)
        for entity in entities(attempt).values():
            old = self.accounts.get(entity, Account(0.0, now_ms))
            self.accounts[entity] = Account(decay(old.gpu_ms, now_ms - old.settled_ms, half_life) + ran, now_ms)
