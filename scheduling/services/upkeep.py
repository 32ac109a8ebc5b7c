"""The chores off the job path, one function each; Celery tasks call them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings

from scheduling.services import artifacts, collection
from scheduling.store import upkeep

VERIFY_BYTES = 4 * 1024**3
ABANDONED_S = 86_400.0


def roll_up_usage(now: datetime) -> int:
    """Usage by day is up to date, and the fair-share balances equal the allocation intervals."""
    upkeep.rebuild_balances(now)
    return upkeep.roll_up(now)


def retain_events(now: datetime) -> int:
    """Events past their retention are gone; returns how many."""
    return upkeep.retain(now, days=settings.EVENT_RETENTION_DAYS)


def verify_artifacts(now: datetime) -> dict[str, int]:
    """The artifacts longest unverified were hashed again."""
    return artifacts.verify_some(now, limit_bytes=VERIFY_BYTES)


def collect_uploads(now: datetime) -> int:
    """Uploads abandoned for a day are gone; returns how many."""
    return artifacts.collect_uploads(now, older_than_s=ABANDONED_S)


def collect_artifacts(now: datetime) -> dict[str, Any]:
    """What is over counts as deleted, and bytes that nobody has needed for the grace are gone."""
    return collection.collect(now).as_dict()
