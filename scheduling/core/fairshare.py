"""Targets, consumption, deficit and score: three ledgers (queue, project, user in project), one formula (D3-D5).

``score = priority * (1 + (target - consumed) / target)``. With r = consumed / target that is ``priority * (2 - r)``:
inside one level the order by score is the order by r ascending, which is the deficit descending (D1).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from scheduling.core.decay import interval
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

    __slots__ = ("end_ms", "ending", "entities", "micro", "owner", "start_ms", "weight")

    def __init__(self, owner: Owner, micro: int, start_ms: int, *, end_ms: int) -> None:
        self.owner, self.micro, self.start_ms, self.end_ms = owner, micro, start_ms, end_ms
        self.ending = False
        self.weight = 0  # of its start, by the clock
        self.entities: tuple[Entity, ...] = ()  # of its owner; filled when it starts


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
        self._entities_of: dict[Owner, tuple[Entity, Entity, Entity]] = {}
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
            share.join(job.owner)
        for attempt in snapshot.live:
            micro = attempt.billing_micro
            if micro is None:
                micro = billing_micro(snapshot.policy, (known[gpu] for gpu in attempt.gpus if gpu in known))
            share.join(attempt.owner)
            share.start(Run(attempt.owner, micro, attempt.granted_ms, end_ms=attempt.end_ms))
        share.move(snapshot.now_ms)
        return share

    def move(self, now_ms: int) -> None:
        """The ledgers are read at ``now_ms`` from now on."""
        clock = self.clock
        if not self.forget_planned() and clock.now_ms == now_ms:
            return
        if clock.move(now_ms):
            for entity in self._entities():
                entity.rebase(clock)
            for run in self._runs:
                run.weight = clock.weight_of_start(run.micro, run.start_ms)
                for entity in run.entities:
                    entity.starts += run.weight
        ends = self._ends
        while ends and ends[0][0] <= now_ms:
            end, _, run = heapq.heappop(ends)
            if run.end_ms == end:
                self._stop_ending(run)

    def forget_planned(self) -> bool:
        """What the last cycle started counts by what it uses from now on; False where it started nothing."""
        if not self._this_cycle:
            return False
        for run in self._this_cycle:
            self._stop_ending(run)
        self._this_cycle.clear()
        return True

    def join(self, owner: Owner) -> bool:
        """A job of ``owner`` waits or runs; True when targets moved."""
        queue, project, user = owner
        of_queue, of_project, of_user = self._of(owner)
        of_queue.members += 1
        of_project.members += 1
        of_user.members += 1
        # A project's users are active only with it, so of those two it is enough to look at the user.
        if of_user.members > 1 and of_queue.members > 1:
            return False
        if of_queue.members == 1:
            self.queues.activate(queue)
        if of_project.members == 1:
            self.projects.activate(project)
        if of_user.members == 1:
            self.users.activate((project, user))
        self.clock.targets_moved()
        return True

    def leave(self, owner: Owner) -> None:
        """A job of ``owner`` neither waits nor runs any more."""
        queue, project, user = owner
        of_queue, of_project, of_user = self._of(owner)
        of_queue.members -= 1
        of_project.members -= 1
        of_user.members -= 1
        if of_user.members and of_queue.members:
            return
        if not of_queue.members:
            self.queues.retire(queue)
        if not of_project.members:
            self.projects.retire(project)
        if not of_user.members:
            self.users.retire((project, user))
        self.clock.targets_moved()

    def start(self, run: Run, *, this_cycle: bool = False) -> None:
        """What ``run`` uses counts from its start on, and what it may still use according to the policy (D5)."""
        clock = self.clock
        self._runs[run] = None
        micro = run.micro
        weight = run.weight = clock.weight_of_start(micro, run.start_ms)
        mode = self._policy.in_flight
        ending = (mode == "full" or (mode == "cycle" and this_cycle)) and run.end_ms > clock.now_ms
        run.entities = self._of(run.owner)
        for entity in run.entities:
            entity.tick = -1
            entity.micro += micro
            entity.starts += weight
            if ending:
                entity.ending += micro
                entity.end_sum += micro * run.end_ms
        if ending:
            run.ending = True
            if mode == "full":
                self._count += 1
                heapq.heappush(self._ends, (run.end_ms, self._count, run))
            else:
                self._this_cycle.append(run)

    def stop(self, run: Run, lost: Iterable[tuple[int, int]] = ()) -> None:
        """``run`` uses nothing from now on; what it used, but for the stretches it ``lost``, fades from here."""
        clock, now = self.clock, self.clock.now_ms
        if run.ending:
            self._stop_ending(run)
        del self._runs[run]
        micro, weight, half_life_ms = run.micro, run.weight, clock.half_life_ms
        used = interval(micro / MICRO, run.start_ms, now, now, half_life_ms=half_life_ms)
        for since, until in lost:
            used -= interval(micro / MICRO, since, until, now, half_life_ms=half_life_ms)
        for entity in run.entities:
            entity.tick = -1
            entity.micro -= micro
            entity.starts -= weight
            entity.settle(used, clock)

    def retime(self, run: Run, end_ms: int) -> None:
        """``run`` may go on until ``end_ms``."""
        self._stop_ending(run)
        run.end_ms = end_ms
        if self._policy.in_flight == "full" and end_ms > self.clock.now_ms:
            run.ending = True
            for entity in run.entities:
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
            for entity in run.entities:
                entity.tick = -1
                entity.ending -= run.micro
                entity.end_sum -= run.micro * run.end_ms

    def _of(self, owner: Owner) -> tuple[Entity, Entity, Entity]:
        found = self._entities_of.get(owner)
        if found is None:
            queue, project, user = owner
            found = self.queues.entity(queue), self.projects.entity(project), self.users.entity((project, user))
            self._entities_of[owner] = found
        return found

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
        tick = self.clock.tick
        of_queue, of_project, of_user = self._of(owner)
        return (
            of_queue.ratio if of_queue.tick == tick else self.queue_ratio(owner[0]),
            of_project.ratio if of_project.tick == tick else self.project_ratio(owner[1]),
            of_user.ratio if of_user.tick == tick else self.user_ratio(owner[1], owner[2]),
        )

    def _ratio(self, ledger: Ledger[Key], key: Key) -> float:
        entity, clock = ledger.entity(key), self.clock
        if entity.version != clock.version:
            entity.version, entity.target = clock.version, ledger.target(key)
        return entity.read(clock)

    def scores(self, owner: Owner, priority: int, *, more: int = 0) -> Scores:
        """What is shown on a job of this owner and priority: the three ledgers as they stand now, or would stand if the
        owner might use so many millionths of GPU-ms ``more``."""
        queue, project, user = owner
        if self._policy.in_flight == "off":
            more = 0
        return Scores(
            queue=self.score(self.queues, queue, priority, more=more),
            project=self.score(self.projects, project, priority, more=more),
            user=self.score(self.users, (project, user), priority, more=more),
        )

    def score(self, ledger: Ledger[Key], key: Key, priority: int, *, more: int = 0) -> Score:
        """The entity's numbers for a job of this priority, in GPU-hours."""
        entity, target = ledger.entity(key), ledger.target(key)
        in_flight = (entity.in_flight(self.clock) + more) / MICRO
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
