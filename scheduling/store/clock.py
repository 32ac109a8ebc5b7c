"""Which clock: the database's on PostgreSQL, the host's on SQLite. A door asks once and passes it down (D34)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.utils import timezone

from scheduling.core.words import instant_in_words


def now() -> datetime:
    """The present, aware and in UTC, from the one clock that orders leases, submissions and charges."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            moment: datetime = cursor.fetchone()[0]
            return moment
    return timezone.now()


def to_ms(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


def from_ms(instant: int) -> datetime:
    """The moment of whole milliseconds since 1970, in UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=instant)


def past_in_words(moment: datetime) -> str:
    """A moment that has been, as ``2 Mar 2026, 14:00:07 UTC``: of a begun second the seconds before it, not after."""
    return instant_in_words(to_ms(moment) // 1000 * 1000)
