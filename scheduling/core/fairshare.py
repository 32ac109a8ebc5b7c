"""Targets, consumption, deficit and score: three ledgers (queue, project, user in project), one formula (D3-D5).

``score = priority * (1 + (target - consumed) / target)``. With r = consumed / target that is ``priority * (2 - r)``:
inside one level the order by score is the order by r ascending, which is the deficit descending (D1).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from scheduling.core.ledger import MICRO, Clock, Entity, Key, Ledger
from scheduling.core.plan import Score, Scores
from scheduling.core.policy import Policy
from scheduling.core.pool import Gpu
from scheduling.core.snapshot import Snapshot, Usage

HOUR_MS = 3_600_000
Ratios = tuple[float, float, float]
Owner = tuple[str, str, str]  # queue, project, user
_EVERYONE = ""


def window_ms(policy: Policy) -> float:
    """The GPU-ms that one always-busy GPU counts for in steady state: half-life / ln 2, or the period without decay."""
    if policy.half_life_s > 0:
        return policy.half_life_s * 1000.0 / math.log(2.0)
    return policy.share_window_s * 1000.0


def score_of(priority: int, *, target: float, consumed: float) -> float | None:
    """The specification's formula, unrounded and unclamped; None when the target is 0 (D4)."""
    if target <= 0:
        return None
    return priority * (1.0 + (target - consumed) / target)


def billing_micro(policy: Policy, gpus: Iterable[Gpu]) -> int:
    """Millionths of the billing weight of these GPUs together (D5)."""
    return sum(round(policy.billing.get(gpu.model, 1.0) * MICRO) for gpu in gpus)


class Run:
    """Something that consumes: a running job, or one whose GPUs are being freed."""

    __slots__ = ("end_ms", "ending", "micro", "owner", "start_ms")

    def __init__(self, owner: Owner, micro: int, start_ms: int, *, end_ms: int) -> None:
        self.owner, self.micro, self.start_ms, self.end_ms = owner, micro, start_ms, end_ms
        self.ending = False


class FairShare:
    """The three ledgers, read at one instant that only moves forward. All amounts in GPU-ms."""

    def __init__(self, policy: Policy, capacity: int, usage: Usage, *, now_ms: int) -> None:
        """``capacity``: installed GPUs. Members and runs are told one by one."""
        total = capacity * window_ms(policy)
        self._policy = policy
        self.clock = Clock(round(policy.half_life_s * 1000), now_ms)
        self._uses = tuple(name in policy.ledgers for name in ("queue", "project", "user"))
        self.queues: Ledger[str] = Ledger(
            usage.queue, lambda key: _queue_weight(policy, key), lambda key: total,
            family=lambda key: _EVERYONE, clock=self.clock,
        )  # fmt: skip
        self.projects: Ledger[str] = Ledger(
            usage.project, lambda key: policy.project_weights.get(key, 1.0), lambda key: total,
            family=lambda key: _EVERYONE, clock=self.clock,
        )  # fmt: skip
        self.users: Ledger[tuple[str, str]] = Ledger(
            usage.user, lambda key: policy.user_weights.get(key, 1.0), lambda key: self.projects.target(key[0]),
            family=lambda key: key[0], clock=self.clock,
        )  # fmt: skip
        self._runs: dict[Run, None] = {}
        self._ends: list[tuple[int, int, Run]] = []
        self._count = 0
        self._this_cycle: list[Run] = []

    @classmethod
    def of(cls, snapshot: Snapshot) -> FairShare:
        """The ledgers of a snapshot: everything that waits or runs, at its instant."""
        share = cls(snapshot.policy, len(snapshot.pool.installed), snapshot.usage, now_ms=snapshot.now_ms)
        known = snapshot.pool.gpu_by_uuid
        for job in snapshot.waiting:
            share.join((job.queue, job.project, job.user))
        for attempt in snapshot.live:
            owner = (attempt.queue, attempt.project, attempt.user)
            micro = attempt.billing_micro
            if micro is None:
                micro = billing_micro(snapshot.policy, (known[gpu] for gpu in attempt.gpus if gpu in known))
            share.join(owner)
            share.start(Run(owner, micro, attempt.granted_ms, end_ms=attempt.end_ms))
        share.move(snapshot.now_ms)
        return share

    def move(self, now_ms: int) -> None:
        """The ledgers are read at ``now_ms`` from now on."""
        clock = self.clock
        for run in self._this_cycle:
            self._stop_ending(run)
        self._this_cycle.clear()
        if clock.move(now_ms):
            for entity in self._entities():
                entity.rebase(clock)
            for run in self._runs:
                for entity in self._of(run.owner):
                    entity.starts += clock.weight_of_start(run.micro, run.start_ms)
        ends = self._ends
        while ends and ends[0][0] <= now_ms:
            end, _, run = heapq.heappop(ends)
            if run.end_ms == end:
                self._stop_ending(run)

    def join(self, owner: Owner) -> bool:
        """A job of ``owner`` waits or runs; True when targets moved."""
        queue, project, user = owner
        moved = self.queues.join(queue), self.projects.join(project), self.users.join((project, user))
        if any(moved):
            self.clock.targets_moved()
        return any(moved)

    def leave(self, owner: Owner) -> None:
        """A job of ``owner`` neither waits nor runs any more."""
        queue, project, user = owner
        moved = self.queues.leave(queue), self.projects.leave(project), self.users.leave((project, user))
        if any(moved):
            self.clock.targets_moved()

    def start(self, run: Run, *, this_cycle: bool = False) -> None:
        """What ``run`` uses counts from its start on, and what it may still use according to the policy (D5)."""
        clock = self.clock
        self._runs[run] = None
        weight = clock.weight_of_start(run.micro, run.start_ms)
        mode = self._policy.in_flight
        ending = (mode == "full" or (mode == "cycle" and this_cycle)) and run.end_ms > clock.now_ms
        for entity in self._of(run.owner):
            entity.tick = -1
            entity.micro += run.micro
            entity.starts += weight
            if ending:
                entity.ending += run.micro
                entity.end_sum += run.micro * run.end_ms
        if ending:
            run.ending = True
            if mode == "full":
                self._count += 1
                heapq.heappush(self._ends, (run.end_ms, self._count, run))
            else:
                self._this_cycle.append(run)

    def stop(self, run: Run) -> None:
        """``run`` uses nothing from now on; what it used fades from here."""
        clock = self.clock
        self._stop_ending(run)
        del self._runs[run]
        weight = clock.weight_of_start(run.micro, run.start_ms)
        for entity in self._of(run.owner):
            entity.tick = -1
            entity.micro -= run.micro
            entity.starts -= weight
            entity.settle(run.micro, run.start_ms, clock)

    def retime(self, run: Run, end_ms: int) -> None:
        """``run`` may go on until ``end_ms``."""
        self._stop_ending(run)
        run.end_ms = end_ms
        if self._policy.in_flight == "full" and end_ms > self.clock.now_ms:
            run.ending = True
            for entity in self._of(run.owner):
                entity.tick = -1
                entity.ending += run.micro
                entity.end_sum += run.micro * end_ms
            self._count += 1
            heapq.heappush(self._ends, (end_ms, self._count, run))

    def cut(self, run: Run) -> None:
        """``run`` is being taken back: it may use nothing more."""
        self._stop_ending(run)

    def plan(self, owner: Owner, micro_ms: int) -> None:
        """A job that waits for its victims may use ``micro_ms`` millionths of GPU-ms more; negative takes it back."""
        if self._policy.in_flight == "off":
            return
        for entity in self._of(owner):
            entity.tick = -1
            entity.planned += micro_ms

    def _stop_ending(self, run: Run) -> None:
        if run.ending:
            run.ending = False
            for entity in self._of(run.owner):
                entity.tick = -1
                entity.ending -= run.micro
                entity.end_sum -= run.micro * run.end_ms

    def _of(self, owner: Owner) -> tuple[Entity, Entity, Entity]:
        queue, project, user = owner
        return self.queues.entity(queue), self.projects.entity(project), self.users.entity((project, user))

    def _entities(self) -> Iterable[Entity]:
        yield from self.queues.entities.values()
        yield from self.projects.entities.values()
        yield from self.users.entities.values()

    def queue_ratio(self, queue: str) -> float:
        """consumed / target of the queue, infinite when the target is 0; 0 when the ledger is not compared."""
        entity = self.queues.entities.get(queue)
        if entity is not None and entity.tick == self.clock.tick:
            return entity.ratio
        return self._ratio(self.queues, queue) if self._uses[0] else 0.0

    def project_ratio(self, project: str) -> float:
        """consumed / target of the project over all queues."""
        entity = self.projects.entities.get(project)
        if entity is not None and entity.tick == self.clock.tick:
            return entity.ratio
        return self._ratio(self.projects, project) if self._uses[1] else 0.0

    def user_ratio(self, project: str, user: str) -> float:
        """consumed / target of the user within the project."""
        entity = self.users.entities.get((project, user))
        if entity is not None and entity.tick == self.clock.tick:
            return entity.ratio
        return self._ratio(self.users, (project, user)) if self._uses[2] else 0.0

    def ratios(self, owner: Owner) -> Ratios:
        """The place of the owner's jobs inside a level: the smaller, the earlier; queue, then project, then user."""
        queue, project, user = owner
        return self.queue_ratio(queue), self.project_ratio(project), self.user_ratio(project, user)

    def _ratio(self, ledger: Ledger[Key], key: Key) -> float:
        entity, clock = ledger.entity(key), self.clock
        if entity.version != clock.version:
            entity.version, entity.target = clock.version, ledger.target(key)
        target = entity.target
        if target > 0.0:
            consumed = entity.consumed(clock) * MICRO + entity.in_flight(clock)
            # Rounded, so that equal sums tie whatever the weights.
            entity.ratio = round(consumed / (target * MICRO), 12)
        else:
            entity.ratio = math.inf
        entity.tick = clock.tick
        return entity.ratio

    def scores(self, owner: Owner, priority: int) -> Scores:
        """What is shown on a job of this owner and priority: the three ledgers as they stand now."""
        queue, project, user = owner
        return Scores(
            queue=self.score(self.queues, queue, priority),
            project=self.score(self.projects, project, priority),
            user=self.score(self.users, (project, user), priority),
        )

    def score(self, ledger: Ledger[Key], key: Key, priority: int) -> Score:
        """The entity's numbers for a job of this priority, in GPU-hours."""
        entity, target = ledger.entity(key), ledger.target(key)
        in_flight = entity.in_flight(self.clock) / MICRO
        consumed = entity.consumed(self.clock) + in_flight
        return Score(
            target_gpu_h=target / HOUR_MS,
            consumed_gpu_h=consumed / HOUR_MS,
            in_flight_gpu_h=in_flight / HOUR_MS,
            deficit=(target - consumed) / target if target > 0 else None,
            score=score_of(priority, target=target, consumed=consumed),
        )


def _queue_weight(policy: Policy, name: str) -> float:
    queue = policy.queue(name)
    return queue.weight if queue else 1.0
