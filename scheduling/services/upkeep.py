"""The chores off the job path, one function each; Celery tasks call them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings

from scheduling.services import artifacts, collection, verification
from scheduling.services.pool import timings
from scheduling.store import looks, upkeep

ABANDONED_S = 86_400.0
LOOK_HOLDS_S = 300.0


def roll_up_usage(now: datetime) -> int:
    """Usage by day is up to date, and the fair-share balances equal the allocation intervals."""
    upkeep.rebuild_balances(now)
    return upkeep.roll_up(now)


def look_at_gpus(now: datetime) -> int:
    """How busy the GPUs are is added to what reports tell; returns how many are installed.

    What an agent has not told in three heartbeats is not known; what one look finds holds for five minutes at most.
    """
    how = looks.Looking(
        fresh_s=3 * timings().heartbeat_s, gap_s=LOOK_HOLDS_S, idle_percent=settings.IDLE_PERCENT,
        idle_s=settings.IDLE_MINUTES * 60.0,
    )  # fmt: skip
    return looks.look(now, how)


def retain_events(now: datetime) -> int:
    """Events past their retention are gone; returns how many."""
    return upkeep.retain(now, days=settings.EVENT_RETENTION_DAYS)


def verify_artifacts(now: datetime, stopping: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Some of the artifacts that are due were read again; ``stopping``: whether the process is to end."""
    return verification.some(now, stopping=stopping).as_dict()


def collect_uploads(now: datetime) -> int:
    """Uploads abandoned for a day are gone; returns how many."""
    return artifacts.collect_uploads(now, older_than_s=ABANDONED_S)


def collect_artifacts(now: datetime) -> dict[str, Any]:
    """What is over counts as deleted, and bytes that nobody has needed for the grace are gone."""
    return collection.collect(now).as_dict()
