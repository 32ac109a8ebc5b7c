"""Fair share in numbers: per queue, project and user what is owed, what was consumed, and the deficit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from scheduling.core.fairshare import HOUR_MS, FairShare, Ledger
from scheduling.models import UsageDay
from scheduling.store import load
from scheduling.store.queries.access import Actor


def share(actor: Actor, now: datetime) -> dict[str, Any]:
    """The rows of the three ledgers in GPU-hours; targets are of entities with work waiting or running, 0 for the
    rest. Users of projects that the actor doesn't belong to are left out."""
    snapshot = load.snapshot(now)
    policy = snapshot.policy
    fair = FairShare(snapshot)
    return {
        "half_life_s": policy.half_life_s,
        "queues": [_row(fair.queues, q.name, q.name, q.weight) for q in policy.queues],
        "projects": [_row(fair.projects, p, p, w) for p, w in sorted(policy.project_weights.items())],
        "users": [
            {**_row(fair.users, (p, u), u, w), "project": p}
            for (p, u), w in sorted(policy.user_weights.items())
            if actor.sees(p)
        ],
    }


def _row(ledger: Ledger[Any], key: Any, name: str, weight: float) -> dict[str, Any]:
    target, consumed = ledger.targets.get(key, 0.0), ledger.consumed(key)
    return {
        "name": name,
        "weight": weight,
        "active": key in ledger.targets,
        "target_gpu_h": round(target / HOUR_MS, 4),
        "consumed_gpu_h": round(ledger.used.get(key, 0) / HOUR_MS, 4),
        "in_flight_gpu_h": round(ledger.in_flight.get(key, 0) / HOUR_MS, 4),
        "deficit": round((target - consumed) / target, 6) if target > 0 else None,
    }


def usage(days: int = 31) -> list[dict[str, Any]]:
    """GPU-hours by day, project, user and queue, newest first."""
    rows = UsageDay.objects.all()[: days * 200]
    return [
        {"day": r.day.isoformat(), "project": r.project, "user": r.user, "queue": r.queue,
         "gpu_hours": round(r.gpu_ms / 3_600_000, 4)}
        for r in rows
    ]  # fmt: skip
