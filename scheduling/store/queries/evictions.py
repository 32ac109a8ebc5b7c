"""What is to be told of evictions."""

from __future__ import annotations

from datetime import datetime

from scheduling.models import Job


def loops(now: datetime) -> int:
    """How many jobs are kept from evicting others at present."""
    return Job.objects.filter(no_evict_until__gt=now).count()
