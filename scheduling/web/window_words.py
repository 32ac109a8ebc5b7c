"""When are nodes closed, and to whom? Their windows as pages tell them, as far as the reader may know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduling.store.queries import windows
from scheduling.store.queries.access import Actor

MAX_NODES = 3
MAX_WINDOWS = 3


def closing(actor: Actor, now: datetime, *, node: str | None = None) -> list[dict[str, Any]]:
    """The windows that close nodes (or this one) now or later, those of now first, each as a line has it."""
    rows = windows.windows(actor, now)
    found = [_line(row, now) for row in rows if row["nodes"] and (node is None or node in row["nodes"])]
    return sorted(found, key=lambda line: not line["active"])


def in_short(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The first of them and how many ``more`` there are: what a line of the board has room for."""
    return {"told": lines[:MAX_WINDOWS], "more": len(lines) - len(lines[:MAX_WINDOWS])}


def _line(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    names = list(row["nodes"])
    told = names[:MAX_NODES] + ([f"{len(names) - MAX_NODES} more"] if len(names) > MAX_NODES else [])
    return {
        "name": row["name"],
        "active": row["start"] <= now,
        "start": row["start"],
        "end": row["end"],
        "where": " and ".join(filter(None, [", ".join(told[:-1]), told[-1]])),
        "verb": "is" if len(names) == 1 else "are",
        "whom": _whom(row),
        "note": row["note"],
    }


def _whom(row: Mapping[str, Any]) -> str:
    if not row["reserved"]:
        return "to all jobs"
    return f"to all jobs but those of {row['project'] or 'another project'}"
