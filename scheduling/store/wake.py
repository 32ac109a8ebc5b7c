"""Waiting for a change without polling the tables: NOTIFY on PostgreSQL, ``PRAGMA data_version`` on SQLite."""

from __future__ import annotations

import threading
import time

from django.db import connection

from scheduling.models import Event
from scheduling.store.fixed import Fixed
from scheduling.store.journal import CHANNEL

SQLITE_LOOK_S = 0.02
LISTEN_S = 0.5

_NEWEST = Fixed(lambda: Event.objects.order_by("-id").values_list("id")[:1])


class Waiter:
    """One process's ear on the database: :meth:`wait` returns as soon as a new event row is committed.

    Use it from one thread only; it owns that thread's database connection while it waits.
    """

    def __init__(self) -> None:
        self._listening: object = None
        self._on_postgresql = connection.vendor == "postgresql"
        if self._on_postgresql:
            self._listen()
        self._seen = newest_event()

    def wait(self, timeout_s: float, stop: threading.Event | None = None) -> bool:
        """True when another has committed an event row since the last call; False after ``timeout_s`` or ``stop``.

        It may also be told more often than that.
        """
        deadline = time.monotonic() + timeout_s
        look = self._look_postgresql if self._on_postgresql else self._look_sqlite
        while not (stop is not None and stop.is_set()):
            left = deadline - time.monotonic()
            if look(max(0.0, left)):
                return True
            if left <= 0:
                return False
        return False

    def _look_sqlite(self, left: float) -> bool:
        """Another connection has committed a row, or a short while has passed (10 µs a look, no table touched)."""
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            version = cursor.fetchone()[0]
        changed = version != self._listening  # also on the first look: something may have come before it
        self._listening = version
        if not changed:
            time.sleep(min(left, SQLITE_LOOK_S))
            return False
        newest, seen = newest_event(), self._seen
        self._seen = newest
        return newest > seen

    def _look_postgresql(self, left: float) -> bool:
        """Another connection has told of a row, or a while has passed.

        The row itself is not looked for: its number may be lower than that of one committed before it.
        """
        if self._listen():
            return True  # what came while nobody listened
        raw = connection.connection
        told = raw.notifies(timeout=min(left, LISTEN_S), stop_after=1)
        return any(each.pid != raw.info.backend_pid for each in told)

    def _listen(self) -> bool:
        """The connection listens; False when it did so already."""
        connection.ensure_connection()
        raw = connection.connection
        if self._listening is raw:
            return False
        raw.execute(f"LISTEN {CHANNEL}")
        self._listening = raw
        return True


def newest_event() -> int:
    """The id of the newest event; 0 before the first."""
    return next((key for (key,) in _NEWEST()), 0)
