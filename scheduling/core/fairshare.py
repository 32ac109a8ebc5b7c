"""Targets, consumption, deficit and score: three ledgers (queue, project, user in project), one formula (D3-D5).

``score = priority * (1 + (target - consumed) / target)``. With r = consumed / target that is ``priority * (2 - r)``:
inside one level the order by score is the order by r ascending, which is the deficit descending (D1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from scheduling.core.plan import Score, Scores
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob

HOUR_MS = 3_600_000
Key = TypeVar("Key")
Ratios = tuple[float, float, float]


def window_ms(policy: Policy) -> float:
    """The GPU-ms that one always-busy GPU counts for in steady state: half-life / ln 2, or the period without decay."""
    if policy.half_life_s > 0:
        return policy.half_life_s * 1000.0 / math.log(2.0)
    return policy.share_window_s * 1000.0


def shares(total: float, weights: Mapping[Key, float]) -> dict[Key, float]:
    """``total`` divided by weight; all zero when every weight is zero.

    A part below one GPU-ms, the unit of consumption, is zero: dividing by it could leave the finite numbers (D4).
    """
    whole = math.fsum(weights.values())
    parts = {key: total * weight / whole if whole > 0 else 0.0 for key, weight in weights.items()}
    return {key: part if part >= 1.0 else 0.0 for key, part in parts.items()}


def score_of(priority: int, *, target: float, consumed: float) -> float | None:
    """The specification's formula, unrounded and unclamped; None when the target is 0 (D4)."""
    if target <= 0:
        return None
    return priority * (1.0 + (target - consumed) / target)


def charge_of(policy: Policy, pool: Pool, gpus: Iterable[str], *, remaining_s: int) -> int:
    """GPU-ms these GPUs may still use in ``remaining_s``, times the billing weight of their models (D5)."""
    known = pool.gpu_by_uuid
    weights = (policy.billing.get(known[gpu].model, 1.0) if gpu in known else 1.0 for gpu in gpus)
    return round(math.fsum(weights) * max(0, remaining_s) * 1000)


@dataclass
class Ledger(Generic[Key]):
    """One kind of entity within one cycle: targets stand, consumption grows as jobs are placed. All in GPU-ms."""

    targets: Mapping[Key, float]
    used: Mapping[Key, int]
    in_flight: dict[Key, int] = field(default_factory=lambda: defaultdict(int))

    def consumed(self, key: Key) -> int:
        """What was used and what may still be used by what runs or was just placed."""
        return self.used.get(key, 0) + self.in_flight.get(key, 0)

    def ratio(self, key: Key) -> float:
        """consumed / target, infinite when the target is 0. Rounded, so that equal sums tie whatever the weights."""
        target = self.targets.get(key, 0.0)
        return round(self.consumed(key) / target, 12) if target > 0 else math.inf

    def score(self, key: Key, priority: int) -> Score:
        """The entity's numbers for a job of this priority, in GPU-hours."""
        target, consumed = self.targets.get(key, 0.0), self.consumed(key)
        return Score(
            target_gpu_h=target / HOUR_MS,
            consumed_gpu_h=consumed / HOUR_MS,
            in_flight_gpu_h=self.in_flight.get(key, 0) / HOUR_MS,
            deficit=(target - consumed) / target if target > 0 else None,
            score=score_of(priority, target=target, consumed=consumed),
        )


class FairShare:
    """The three ledgers of one cycle, from a snapshot; ``charge`` moves them as the cycle places jobs."""

    def __init__(self, snapshot: Snapshot, *, taken_back: frozenset[str] = frozenset()) -> None:
        """``taken_back``: attempts that end in this cycle; they stay active and use nothing more."""
        policy, pool, usage = snapshot.policy, snapshot.pool, snapshot.usage
        active: tuple[LiveAttempt | WaitingJob, ...] = snapshot.waiting + snapshot.live
        users = {(member.project, member.user) for member in active}

        capacity = len(pool.installed) * window_ms(policy)
        queue_weights = {member.queue: _queue_weight(policy, member.queue) for member in active}
        project_weights = {project: policy.project_weights.get(project, 1.0) for project, _ in users}
        projects = shares(capacity, project_weights)
        people: dict[tuple[str, str], float] = {}
        for project, target in projects.items():
            members = {key: policy.user_weights.get(key, 1.0) for key in users if key[0] == project}
            people |= shares(target, members)

        self._policy, self._pool = policy, pool
        self.queues = Ledger(shares(capacity, queue_weights), usage.queue)
        self.projects = Ledger(projects, usage.project)
        self.users = Ledger(people, usage.user)
        for attempt in snapshot.live:
            if attempt.attempt not in taken_back:
                self.charge(attempt, attempt.gpus)

    def charge(self, job: WaitingJob | LiveAttempt, gpus: Iterable[str]) -> None:
        """What ``job`` may still use on ``gpus`` counts as consumed from now on (D5)."""
        amount = charge_of(self._policy, self._pool, gpus, remaining_s=job.remaining_s)
        self.queues.in_flight[job.queue] += amount
        self.projects.in_flight[job.project] += amount
        self.users.in_flight[(job.project, job.user)] += amount

    def ratios(self, job: WaitingJob) -> Ratios:
        """The job's place inside its level: the smaller, the earlier; queue first, then project, then user."""
        return (
            self.queues.ratio(job.queue),
            self.projects.ratio(job.project),
            self.users.ratio((job.project, job.user)),
        )

    def scores(self, job: WaitingJob) -> Scores:
        """What is shown on the job: the three ledgers as they stand now."""
        return Scores(
            queue=self.queues.score(job.queue, job.level_value),
            project=self.projects.score(job.project, job.level_value),
            user=self.users.score((job.project, job.user), job.level_value),
        )


def _queue_weight(policy: Policy, name: str) -> float:
    queue = policy.queue(name)
    return queue.weight if queue else 1.0
