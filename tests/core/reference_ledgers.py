"""Who is next, the slow way: the three ledgers summed from what is stored and what runs, asked anew for every job."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable

from scheduling.core.decay import decay, interval
from scheduling.core.fairshare import window_ms
from scheduling.core.snapshot import Account, LiveAttempt, Snapshot, WaitingJob

from .reference_places import Ground

Entity = tuple[str, ...]
MICRO = 1_000_000


def entities(member: WaitingJob | LiveAttempt) -> dict[str, Entity]:
    """The entity of each ledger that a job counts for."""
    return {
        "queue": ("queue", member.queue),
        "project": ("project", member.project),
        "user": ("user", member.project, member.user),
    }


def billing(snapshot: Snapshot, gpus: Iterable[str]) -> int:
    """Millionths of the billing weights of the GPUs together; a GPU that is not installed any more counts nothing."""
    known = {gpu.uuid: gpu.model for gpu in snapshot.pool.gpus}
    return sum(round(snapshot.policy.billing.get(known[gpu], 1.0) * MICRO) for gpu in gpus if gpu in known)


def weight_of(snapshot: Snapshot, attempt: LiveAttempt) -> int:
    """Millionths of the billing weights of what an attempt holds, as they were granted or else as they are now."""
    return billing(snapshot, attempt.gpus) if attempt.billing_micro is None else attempt.billing_micro


def shares(total: float, weights: dict[Entity, float]) -> dict[Entity, float]:
    """``total`` by weight; nothing for a weight of 0, and nothing below one GPU-ms."""
    whole = math.fsum(weights.values())
    parts = {key: total * weight / whole if weight > 0 else 0.0 for key, weight in weights.items()}
    return {key: part if part >= 1.0 else 0.0 for key, part in parts.items()}


class Ledgers:
    """Targets and consumption of all entities in one cycle; ``charge`` adds what was just placed."""

    def __init__(self, snapshot: Snapshot, ground: Ground, *, taken_back: Collection[str]) -> None:
        self._snapshot = snapshot
        policy, now = snapshot.policy, snapshot.now_ms
        members = [entities(member) for member in (*snapshot.waiting, *snapshot.live)]
        self.targets = _targets(snapshot, len(ground.gpu), members)
        self.used: dict[Entity, int] = {}
        self.in_flight: dict[Entity, int] = defaultdict(int)
        past: dict[Entity, list[float]] = defaultdict(list)
        half_life = round(policy.half_life_s * 1000)
        for entity, account in _accounts(snapshot):
            past[entity].append(decay(account.gpu_ms, now - account.settled_ms, half_life))
        for attempt in snapshot.live:
            weight = weight_of(snapshot, attempt)
            ran = interval(weight / MICRO, attempt.granted_ms, now, now, half_life_ms=half_life)
            ahead = weight * max(0, attempt.end_ms - now)
            for entity in entities(attempt).values():
                past[entity].append(ran)
                if policy.in_flight == "full" and attempt.attempt not in taken_back:
                    self.in_flight[entity] += ahead
        self.used = {entity: math.floor(math.fsum(parts) + 0.5) for entity, parts in past.items()}

    def charge(self, job: WaitingJob, gpus: Iterable[str], *, sign: int = 1) -> None:
        """What the job may use on these GPUs counts from now on; with ``sign`` -1 it no longer does."""
        if self._snapshot.policy.in_flight == "off":
            return
        amount = billing(self._snapshot, gpus) * max(0, job.remaining_s) * 1000
        for entity in entities(job).values():
            self.in_flight[entity] += sign * amount

    def ratio(self, entity: Entity) -> float:
        """consumed / target, infinite without a target."""
        target = self.targets.get(entity, 0.0)
        consumed = self.used.get(entity, 0) * MICRO + self.in_flight[entity]
        return round(consumed / (target * MICRO), 12) if target > 0 else math.inf

    def rank_key(self, job: WaitingJob) -> tuple[object, ...]:
        """The place of the job in its level; the smallest is first."""
        own = entities(job)
        return (*(self.ratio(own[ledger]) for ledger in self._snapshot.policy.ledgers), job.submitted_ms, job.id)


def _targets(snapshot: Snapshot, installed: int, members: list[dict[str, Entity]]) -> dict[Entity, float]:
    policy = snapshot.policy
    capacity = installed * window_ms(policy)
    weights = {queue.name: queue.weight for queue in policy.queues}
    found = shares(capacity, {member["queue"]: weights.get(member["queue"][1], 1.0) for member in members})
    projects = {member["project"] for member in members}
    found |= shares(capacity, {project: policy.project_weights.get(project[1], 1.0) for project in projects})
    for project in projects:
        users = {member["user"] for member in members if member["project"] == project}
        found |= shares(found[project], {user: policy.user_weights.get((user[1], user[2]), 1.0) for user in users})
    return found


def _accounts(snapshot: Snapshot) -> Iterable[tuple[Entity, Account]]:
    usage = snapshot.usage
    yield from ((("queue", name), account) for name, account in usage.queue.items())
    yield from ((("project", name), account) for name, account in usage.project.items())
    yield from ((("user", *names), account) for names, account in usage.user.items())
