"""How long did jobs wait until they first started? One row a job, in one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from django.db.models import Max

from scheduling.models import Job
from scheduling.store.queries.gpu_spans import of_jobs


class FirstWait(NamedTuple):
    """A job's wait in seconds: until it first ran, since it was submitted, or since the jobs it was to wait for had
    ended and the earliest start that its owner asked for had come."""

    project: str
    kind: str
    queue: str
    level: str
    value: int
    seconds: float


def first_waits(wanted: Mapping[str, str], start: datetime, end: datetime) -> Iterator[FirstWait]:
    """The waits of the jobs that first ran from ``start`` up to ``end``."""
    rows = (
        Job.objects.filter(started_at__gte=start, started_at__lt=end)
        .filter(**of_jobs("", wanted))
        .order_by()
        .values_list(
            "pk", "project__name", "kind", "queue__name", "level__name", "level__value", "started_at", "submitted_at",
            "not_before",
        )
        .annotate(after=Max("predecessors__before__ended_at"))
    )  # fmt: skip
    for _, project, kind, queue, level, value, began, submitted, not_before, after in rows.iterator(chunk_size=5000):
        since = max(each for each in (submitted, not_before, after) if each is not None)
        yield FirstWait(project, kind, queue, level, value, max(0.0, (began - since).total_seconds()))
