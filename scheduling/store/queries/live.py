"""What the feed reads: changed jobs by id, the ends of logs, nodes by name. Nothing here asks who is looking."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.models import Attempt, Event, Job, SchedulerState
from scheduling.store.fixed import Fixed, FixedValues
from scheduling.store.queries import jobs as queries
from scheduling.store.queries import pool
from scheduling.store.queries.events import LATE_IDS, Change
from scheduling.store.queries.silence import silences
from scheduling.store.wake import newest_event

AT_ONCE = 5000
_IDS = Fixed(lambda after: Event.objects.filter(id__gt=after).order_by("id").values_list("id")[: AT_ONCE + LATE_IDS])
_CHANGES = FixedValues(
    lambda since, until: (
        Event.objects.filter(id__gte=since, id__lte=until)
        .order_by("id")
        .values_list("id", "at", "type", "object", "object_id", "version", "project", "data")
    )
)


def jobs(ids: Collection[str], now: datetime) -> dict[str, dict[str, Any]]:
    """The jobs of those ids as REST gives them, but for their artifacts' files, of which they tell how many they are:
    a frame is sent on every change, and an artifact may have thousands. A fixed number of queries."""
    if not ids:
        return {}
    holds, silent = queries.holds_now(), silences(now)
    known = Job.objects.select_related("project", "user", "queue", "level", "member_of").filter(
        pk__in=[UUID(i) for i in ids]
    )
    rows = queries.full(known, files=False)
    return {str(job.pk): queries.as_dict(job, holds=holds, silent=silent, now=now) for job in rows}


def log_ends(ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Per job, the number of its newest attempt and how many bytes of log are kept of it."""
    rows = Attempt.objects.filter(job_id__in=[UUID(i) for i in ids]).order_by("number")
    return {
        str(job): {"attempt": number, "end": end}
        for job, number, end in rows.values_list("job_id", "number", "log_bytes")
    }


def nodes(names: Collection[str], now: datetime) -> list[dict[str, Any]]:
    """The nodes of those names with their GPUs, holders named whoever they are, and what windows and silence make of
    them."""
    return pool.pool(names=names, at=now)


def unseen(after: int, seen: Collection[int]) -> list[Change]:
    """Changes the reader at cursor ``after`` has not had, oldest first: newer ones, and those that committed late."""
    fresh = [each for (each,) in _IDS(max(0, after - LATE_IDS)) if each not in seen][:AT_ONCE]
    if not fresh:
        return []
    return [Change(*row) for row in _CHANGES(fresh[0], fresh[-1]) if row[0] not in seen]


def recent_ids(upto: int) -> set[int]:
    """The event ids already committed among the last ones up to ``upto``."""
    return set(Event.objects.filter(id__gt=max(0, upto - LATE_IDS), id__lte=upto).values_list("id", flat=True))


class Reader:
    """A cursor on the event table that starts at its newest row and misses nothing that commits late."""

    def __init__(self) -> None:
        self.seq = newest_event()
        self._seen = recent_ids(self.seq)

    def take(self) -> list[Change]:
        """The changes since the last call, oldest first; ``seq`` is the newest of them."""
        changes = unseen(self.seq, self._seen)
        self.seq = max([self.seq, *(c.seq for c in changes)])
        self._seen = {i for i in self._seen | {c.seq for c in changes} if i > self.seq - LATE_IDS}
        return changes


def ticks() -> int:
    """How many ticks the scheduler has made: rises with each, so a reader sees that there was one."""
    return SchedulerState.objects.values_list("ticks", flat=True).first() or 0
