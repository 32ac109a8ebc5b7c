"""One pass of the scheduler: hold the lease, load, decide, commit, ring."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from scheduling.core.decide import decide
from scheduling.core.fairshare import FairShare
from scheduling.core.plan import Plan, Reason
from scheduling.core.snapshot import Snapshot
from scheduling.services import notify
from scheduling.store import lease, load, record
from scheduling.store.commit import deadlines, grants
from scheduling.store.queries.shapes import shape_of

LEASE_S = 10.0


@dataclass(frozen=True, slots=True)
class TickResult:
    """What one tick did. ``led`` is False when another scheduler leads; then nothing else happened."""

    led: bool
    started: int = 0
    reclaimed: int = 0
    stale: tuple[str, ...] = ()
    waiting: int = 0
    milliseconds: float = 0.0
    next_wakeup_s: float | None = None
    alarms: tuple[str, ...] = field(default_factory=tuple)


def lead(holder: str, now: datetime) -> lease.Held | None:
    """The scheduler's lease, held by ``holder`` for the next seconds; None while another holds it."""
    return lease.acquire(holder, now, ttl_s=max(LEASE_S * settings.TIME_SCALE, 3 * settings.TICK_S))


def step_down(holder: str) -> None:
    """The lease is free at once for a successor."""
    lease.release(holder)


def run_tick(holder: str, now: datetime) -> TickResult:
    """One tick as ``holder`` (1 lease, 2 load, 3 decide, 4 commit, 5 ring, 6 result).

    The commit asks again whether the lease is still held, in its own transaction: a scheduler that was paused while
    another took over writes nothing.
    """
    held = lead(holder, now)
    if held is None:
        return TickResult(led=False)
    begun = time.perf_counter()
    snapshot = load.snapshot(now)
    plan = decide(snapshot)
    applied = commit(plan, snapshot, held, now)
    if applied is None:
        return TickResult(led=False)
    late = deadlines.enforce(now)
    notify.ring([*applied.nodes, *late])
    spent = (time.perf_counter() - begun) * 1000
    record.tick(now, milliseconds=spent, holds=waiting_reasons(plan, snapshot), alarms=[_plain(a) for a in plan.alarms])
    wake = None if plan.next_wakeup_ms is None else max(0.0, (plan.next_wakeup_ms - plan.now_ms) / 1000)
    return TickResult(
        led=True,
        started=len(applied.started),
        reclaimed=len(applied.reclaimed),
        stale=tuple(applied.stale),
        waiting=len(plan.holds),
        milliseconds=spent,
        next_wakeup_s=wake,
        alarms=tuple(a.code for a in plan.alarms),
    )


def commit(plan: Plan, snapshot: Snapshot, held: lease.Held, now: datetime) -> grants.Applied | None:
    """The plan's lawful actions are in the database; None, and nothing written, when the lease has been lost."""
    with transaction.atomic():
        if not lease.still_held(held):
            return None
        return grants.apply(plan, now=now, policy=snapshot.policy, actor=f"scheduler {held.epoch}")


def waiting_reasons(plan: Plan, snapshot: Snapshot) -> dict[str, Any]:
    """Why jobs wait, one entry a shape; a job whose reasons differ from its shape's has its own entry.

    With it the deficits of all entities, from which every waiting job's scores follow.
    """
    shapes = {job.id: shape_of(job.request) for job in snapshot.waiting}
    usual: dict[str, Counter[tuple[Reason, ...]]] = {}
    for hold in plan.holds:
        usual.setdefault(shapes[hold.job], Counter())[hold.reasons] += 1
    common = {shape: counts.most_common(1)[0][0] for shape, counts in usual.items()}
    fair = FairShare(snapshot)
    return {
        "shapes": {shape: [_plain(r) for r in reasons] for shape, reasons in common.items()},
        "jobs": {h.job: [_plain(r) for r in h.reasons] for h in plan.holds if h.reasons != common[shapes[h.job]]},
        "deficits": {
            "queue": _deficits(fair.queues.targets, fair.queues.consumed),
            "project": _deficits(fair.projects.targets, fair.projects.consumed),
            "user": {"/".join(k): v for k, v in _deficits(fair.users.targets, fair.users.consumed).items()},
        },
    }


def _deficits(targets: Mapping[Any, float], consumed: Any) -> dict[Any, float]:
    return {key: (target - consumed(key)) / target for key, target in targets.items() if target > 0}


def _plain(reason: Reason) -> dict[str, Any]:
    return {**asdict(reason), "numbers": dict(reason.numbers)}
