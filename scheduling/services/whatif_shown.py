"""What may be told of a replay, and to whom? Names of jobs and people only to who may know of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from scheduling.store.commit import whatif_rows
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor

SIDES = ("recorded", "before", "after")


def one(run: UUID | str, actor: Actor) -> dict[str, Any] | None:
    """The replay with its result as REST has it; None for one that the actor may not know of."""
    try:
        row = whatif_rows.visible(actor).filter(pk=run).first()
    except ValueError:
        return None
    return None if row is None else {**_plain(row), "result": _result(row.result, actor)}


def many(actor: Actor, limit: int = 50) -> list[dict[str, Any]]:
    """The newest replays that the actor may know of, without their results."""
    return [_plain(row) for row in whatif_rows.visible(actor).defer("result")[:limit]]


def _plain(row: Any) -> dict[str, Any]:
    going = row.state == "RUNNING" and row.rate
    return {
        "id": str(row.pk),
        "by": row.user.get_username(),
        "created_at": row.created_at,
        "days": row.days,
        "change": row.change,
        "state": row.state,
        "error": row.error or None,
        "progress": {
            "done": row.done,
            "total": row.total,
            "rate": row.rate,
            "eta_s": round((row.total - row.done) / row.rate, 1) if going else None,
        },
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "url": f"/what-if/{row.pk}/",
    }


def _result(result: Mapping[str, Any] | None, actor: Actor) -> dict[str, Any] | None:
    if result is None:
        return None
    rows = result["moved"]["jobs"]
    names = known.names(actor, [row["job"] for row in rows])
    return {
        "from": _moment(result["from_ms"]),
        "until": _moment(result["until_ms"]),
        **{side: _side(result[side], actor) for side in SIDES},
        "moved": {**result["moved"], "jobs": [_job(row, names) for row in rows]},
        "notes": result["notes"],
    }


def _side(side: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
    users = {name: row for name, row in side["users"].items() if actor.sees(name.partition("/")[0])}
    return {**side, "users": users}


def _job(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if row["job"] in names:
        return {**row, "name": names[row["job"]]}
    return {**row, "job": None, "project": None, "name": None}


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
