"""Which GPUs were held and did next to nothing? One row a stretch, in one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.models import IdleStretch
from scheduling.store.queries.gpu_spans import of_jobs


@dataclass(frozen=True, slots=True)
class Stretch:
    """A GPU that the job held and left idle from ``since`` to ``until``; ``open``: it is idle still."""

    job: UUID
    name: str
    project: str
    user: str
    kind: str
    queue: str
    state: str
    node: str
    gpu: int
    since: datetime
    until: datetime
    open: bool


def stretches(wanted: Mapping[str, str], start: datetime, end: datetime, least_s: float) -> list[Stretch]:
    """The stretches of at least ``least_s`` seconds that lie in the time, wholly or in part."""
    rows = (
        IdleStretch.objects.filter(until__gt=start, since__lt=end)
        .filter(**of_jobs("allocation__attempt__job__", wanted))
        .order_by("since", "pk")
        .values_list(
            "allocation__attempt__job_id", "allocation__attempt__job__name", "allocation__attempt__job__project__name",
            "allocation__attempt__job__user__username", "allocation__attempt__job__kind",
            "allocation__attempt__job__queue__name", "allocation__attempt__job__state", "allocation__gpu__node__name",
            "allocation__gpu__index", "since", "until", "open",
        )
    )  # fmt: skip
    found = (Stretch(*row) for row in rows)
    return [each for each in found if (each.until - each.since).total_seconds() >= least_s]
