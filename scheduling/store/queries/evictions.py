"""What is to be told of evictions."""

from __future__ import annotations

from datetime import datetime

from scheduling.core.lifecycle import JobState
from scheduling.models import Job
from scheduling.store.fixed import Fixed

_KEPT_FROM = Fixed(
    lambda now: Job.objects.filter(no_evict_until__gt=now, state__in=(JobState.QUEUED, JobState.HELD)).values_list(
        "epoch"
    )
)


def loops(now: datetime) -> int:
    """How many jobs that wait are kept from evicting others at present."""
    return len(_KEPT_FROM(now))
