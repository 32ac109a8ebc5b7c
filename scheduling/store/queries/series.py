"""How far are the series of a job? The newest value of each, without reading them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Max, Q

from scheduling.models import Job, MetricPoint


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
