"""What runs on nodes just now, and what of it would have to be done again?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, F, Q

from scheduling.models import AttemptNode


@dataclass(frozen=True, slots=True)
class AtWork:
    """A job's attempt that holds ``gpus`` GPUs of the node. ``until``: when its time limit is over (None: it has not
    begun to run); ``saved_at``: its newest checkpoint (None: all of its work would have to be done again)."""

    node: str
    attempt: UUID
    job: UUID
    name: str
    project: str
    user: str
    kind: str
    state: str
    gpus: int
    started_at: datetime | None
    until: datetime | None
    saved_at: datetime | None


def at_work_on(nodes: Collection[str]) -> list[AtWork]:
    """The attempts under way on these nodes, by node, those that have run longest first; one query."""
    here = Count("attempt__allocations", filter=Q(attempt__allocations__gpu__node=F("node")))
    rows = (
        AttemptNode.objects.filter(node__name__in=nodes, ended_at__isnull=True, attempt__ended_at__isnull=True)
        .select_related("node", "attempt__job__project", "attempt__job__user")
        .annotate(gpus=here)
        .order_by("node__name", "attempt__granted_at", "pk")
    )
    return [_at_work(part) for part in rows]


def _at_work(part: AttemptNode) -> AtWork:
    attempt, job = part.attempt, part.attempt.job
    began = attempt.started_at
    return AtWork(
        node=part.node.name, attempt=attempt.pk, job=job.pk, name=job.name,
        project=job.project.name if job.project else "", user=job.user.get_username() if job.user else "",
        kind=job.kind, state=job.state, gpus=part.gpus,  # type: ignore[attr-defined]
        started_at=began, until=None if began is None else began + timedelta(seconds=attempt.remaining_s),
        saved_at=job.resume_saved_at,
    )  # fmt: skip
