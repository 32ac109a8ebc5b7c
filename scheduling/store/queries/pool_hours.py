"""What was there of GPUs in a time, and how busy were they, as far as it was looked at?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Sum

from scheduling.models import AttemptHour, PoolHour
from scheduling.store.queries.gpu_spans import OF_JOB, of_jobs

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class HourOfPool:
    """An hour from ``since`` up to ``until``: GPU-ms ``installed``, of it ``out`` of service, and of it those of which
    the utilization is ``known``, with that time times the utilization as ``busy``."""

    since: datetime
    until: datetime
    installed: int
    out: int
    known: int
    busy: int


class Busy(NamedTuple):
    """How busy the GPUs of the jobs of a project, user, kind and queue were: the GPU-ms that are ``known``, and these
    times the utilization."""

    project: str
    user: str
    kind: str
    queue: str
    known: int
    busy: int


def pool(start: datetime, end: datetime) -> list[HourOfPool]:
    """The hours that lie in the time, the earliest first; the first and the last may reach beyond it."""
    rows = PoolHour.objects.filter(hour__gt=start - HOUR, hour__lt=end, until__gt=start).order_by("hour")
    columns = ("since", "until", "installed_ms", "out_ms", "known_ms", "busy_ms")
    return [HourOfPool(*row) for row in rows.values_list(*columns)]


def jobs(wanted: Mapping[str, str], start: datetime, end: datetime) -> list[Busy]:
    """How busy the GPUs of jobs were in the hours that begin in the time, by project, user, kind and queue."""
    rows = (
        AttemptHour.objects.filter(hour__gte=start, hour__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(*(f"attempt__job__{name}" for name in OF_JOB))
        .annotate(known=Sum("known_ms"), busy=Sum("busy_ms"))
    )
    return [Busy(*row) for row in rows]


def looked_since() -> datetime | None:
    """Since when it is known what was there; None when nobody ever looked."""
    return PoolHour.objects.order_by("hour").values_list("since", flat=True).first()
