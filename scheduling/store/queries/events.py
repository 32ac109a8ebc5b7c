"""The event table as a feed: what is new since a cursor, without losing what committed late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import Event
from scheduling.store.wake import newest_event

REPLAY_LIMIT = 2000
# Ids are handed out before commit: a row with a lower id may become visible after one with a higher id.
LATE_IDS = 200


@dataclass(frozen=True, slots=True)
class Change:
    """An object has changed: its kind, its id, its version (0 when it has none), and who may know."""

    seq: int
    at: datetime
    type: str
    object: str
    object_id: str
    version: int
    project: str
    data: dict[str, Any]


def newest() -> int:
    """The newest sequence number."""
    return newest_event()


def since(seq: int, *, limit: int = REPLAY_LIMIT) -> list[Change]:
    """The changes after ``seq``, oldest first, at most ``limit``."""
    rows = Event.objects.filter(id__gt=seq).order_by("id")[:limit]
    return [Change(e.pk, e.at, e.type, e.object, e.object_id, e.version, e.project, e.data) for e in rows]


def can_replay(seq: int) -> bool:
    """True when everything after ``seq`` is still there and not too much: else a page takes a fresh snapshot."""
    if seq <= 0 or seq > newest_event():
        return False
    if not Event.objects.filter(id__lte=seq).exists():
        return False
    return not Event.objects.filter(id__gt=seq).order_by("id")[REPLAY_LIMIT : REPLAY_LIMIT + 1].exists()
