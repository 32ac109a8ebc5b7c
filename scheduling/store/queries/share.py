"""Fair share in numbers: per queue, project and user what is owed, what was consumed, and the deficit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, Sum

from scheduling.core.fairshare import FairShare
from scheduling.core.ledger import Ledger
from scheduling.core.plan import Score
from scheduling.core.snapshot import Snapshot
from scheduling.models import LostWork, Membership, Project
from scheduling.store import load
from scheduling.store.queries.access import Actor

LATELY = timedelta(days=30)


def share(actor: Actor, now: datetime, snapshot: Snapshot | None = None) -> dict[str, Any]:
    """The rows of the three ledgers in GPU-hours; targets are of entities with work waiting or running, 0 for the
    rest. Users of projects that the actor doesn't belong to are left out. ``snapshot``: of that moment, by who has it.
    """
    snapshot = snapshot or load.snapshot(now)
    policy = snapshot.policy
    fair = FairShare.of(snapshot)
    people = {key: weight for key, weight in policy.user_weights.items() if actor.sees(key[0])}
    users = zip(sorted(people), _rows(fair, fair.users, people), strict=True)
    return {
        "half_life_s": policy.half_life_s,
        "ledgers": list(policy.ledgers),
        "queues": _rows(fair, fair.queues, {queue.name: queue.weight for queue in policy.queues}, sort=False),
        "projects": _rows(fair, fair.projects, policy.project_weights),
        "users": [{**row, "name": user, "project": project} for (project, user), row in users],
        "lost": lost(now),
    }


def project_names() -> list[str]:
    """Every project: what its share is, is told to everybody."""
    return list(Project.objects.order_by("name").values_list("name", flat=True))


def people(actor: Actor, project: str) -> list[str]:
    """Who belongs to the project, where the actor may know of them."""
    if not actor.sees(project):
        return []
    rows = Membership.objects.filter(project__name=project).order_by("user__username")
    return list(rows.values_list("user__username", flat=True))


def lost(now: datetime) -> list[dict[str, Any]]:
    """GPU-hours of the last 30 days that were lost for no fault of the jobs' and given back, by project and cause."""
    rows = (
        LostWork.objects.filter(at__gt=now - LATELY)
        .values_list("attempt__job__project__name", "cause")
        .annotate(gpu_ms=Sum("gpu_ms"), attempts=Count("pk"), in_vain=Count("pk", filter=Q(in_vain=True)))
        .order_by("attempt__job__project__name", "cause")
    )
    return [
        {"project": project, "cause": cause, "gpu_hours": round(gpu_ms / 3_600_000, 4), "attempts": attempts,
         "in_vain": in_vain}
        for project, cause, gpu_ms, attempts, in_vain in rows
    ]  # fmt: skip


def _rows(
    fair: FairShare, ledger: Ledger[Any], weights: Mapping[Any, float], *, sort: bool = True
) -> list[dict[str, Any]]:
    active = set(ledger.keys())
    return [
        _row(fair.score(ledger, key, 1), key, weights[key], key in active)
        for key in (sorted(weights) if sort else weights)
    ]


def _row(score: Score, name: Any, weight: float, active: bool) -> dict[str, Any]:
    return {
        "name": name,
        "weight": weight,
        "active": active,
        "target_gpu_h": round(score.target_gpu_h, 4),
        "consumed_gpu_h": round(score.consumed_gpu_h - score.in_flight_gpu_h, 4),
        "in_flight_gpu_h": round(score.in_flight_gpu_h, 4),
        "deficit": None if score.deficit is None else round(score.deficit, 6),
    }
