"""The event table as a feed: what is new since a cursor, without losing what committed late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.store.wake import newest_event

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
