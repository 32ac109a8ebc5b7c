"""Waiting for a change without polling the tables: NOTIFY on PostgreSQL, ``PRAGMA data_version`` on SQLite."""

from __future__ import annotations

import threading
import time

from django.db import connection

from scheduling.models import Event
from scheduling.store.fixed import Fixed
from scheduling.store.journal import CHANNEL

SQLITE_LOOK_S = 0.02

_NEWEST = Fixed(lambda: Event.objects.order_by("-id").values_list("id")[:1])


class Waiter:
    """One process's ear on the database: :meth:`wait` returns as soon as a new event row is committed.

    Use it from one thread only; it owns that thread's database connection while it waits.
    """

    def __init__(self) -> None:
        self._seen = newest_event()
        self._listening: object = None

    def wait(self, timeout_s: float, stop: threading.Event | None = None) -> bool:
        """True when an event row was committed since the last call; False after ``timeout_s`` or ``stop``."""
        deadline = time.monotonic() + timeout_s
        look = self._look_postgresql if connection.vendor == "postgresql" else self._look_sqlite
        while not (stop is not None and stop.is_set()):
            left = deadline - time.monotonic()
            if look(max(0.0, left)) and self._advanced():
                return True
            if left <= 0:
                return self._advanced()
        return False

    def _advanced(self) -> bool:
        newest = newest_event()
        advanced = newest > self._seen
        self._seen = newest
        return advanced

    def _look_sqlite(self, left: float) -> bool:
        """Another connection has committed, or a short while has passed (10 µs a look, no table touched)."""
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            version = cursor.fetchone()[0]
        changed = version != self._listening  # also on the first look: something may have come before it
        self._listening = version
        if not changed:
            time.sleep(min(left, SQLITE_LOOK_S))
        return changed

    def _look_postgresql(self, left: float) -> bool:
        connection.ensure_connection()
        raw = connection.connection
        if self._listening is not raw:
            raw.execute(f"LISTEN {CHANNEL}")
            self._listening = raw
        return any(True for _ in raw.notifies(timeout=min(left, 0.5), stop_after=1))


def newest_event() -> int:
    """The id of the newest event; 0 before the first."""
    return next((key for (key,) in _NEWEST()), 0)
