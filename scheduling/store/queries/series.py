"""What has a job measured? Its series, and the newest value of each without reading them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Max, Q, QuerySet

from scheduling.models import Job, MetricPoint


def points(job: Job, names: Sequence[str], limit: int) -> dict[str, list[tuple[int, float]]]:
    """The ``(step, value)`` of these series in the order of their steps, the last ``limit`` of each; of the latest
    attempt where several have told a step."""
    told = _told(MetricPoint.objects.filter(attempt__job=job, name__in=names))
    return {name: told.get(name, [])[-limit:] for name in names}


def every(job: Job) -> dict[str, list[tuple[int, float]]]:
    """All series of the job by name, as :func:`points` has them."""
    return _told(MetricPoint.objects.filter(attempt__job=job))


def _told(rows: QuerySet[MetricPoint]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, dict[int, float]] = {}
    for name, step, value in rows.order_by("name", "attempt__number").values_list("name", "step", "value"):
        found.setdefault(name, {})[step] = value
    return {name: sorted(values.items()) for name, values in found.items()}


def newest(job: Job, limit: int) -> list[dict[str, Any]]:
    """The newest value of each of the first ``limit`` series by name: ``{name, step, value}``, of the latest attempt
    where several have told that step."""
    points = MetricPoint.objects.filter(attempt__job=job).order_by()
    last = points.values_list("name").annotate(step=Max("step")).order_by("name")[:limit]
    wanted = [Q(name=name, step=step) for name, step in last]
    if not wanted:
        return []
    found = points.filter(reduce(or_, wanted)).order_by("name", "attempt__number")
    return list({point["name"]: {**point} for point in found.values("name", "step", "value")}.values())
