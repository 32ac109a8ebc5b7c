"""A web process says that it could accept heartbeats: silence of a node counts only while one could (D21)."""

from __future__ import annotations

import threading

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from scheduling.services import now, pool

log = structlog.get_logger(__name__)
BEAT_S = 2.0


def start() -> threading.Thread:
    """A daemon thread of this process renews the liveness row for as long as the process lives."""
    thread = threading.Thread(target=_beat_for_ever, name="liveness", daemon=True)
    thread.start()
    return thread


def _beat_for_ever() -> None:
    never = threading.Event()
    while True:
        try:
            pool.accepting(now())
        except DatabaseError as lost:
            log.warning("liveness not recorded", reason=str(lost)[:200])
            close_old_connections()
        never.wait(BEAT_S * settings.TIME_SCALE)
