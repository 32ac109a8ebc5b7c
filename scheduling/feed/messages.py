"""The shape of what goes over the socket, both ways. Version 1: fields are added, never renamed.

Out: ``{v, seq, type, object, id, version, data}``. ``seq`` is the newest event the frame knows of: a page that comes
back names the last one it had. ``version`` orders frames of one object: for a job it is the job's version, for
anything else the instant it was read in milliseconds since 1970. Applying a frame twice is harmless. A job's ``data``
is what REST has of it, but each of its artifacts tells how many files it has (``of_files``), and ``files`` is empty.

In: ``{subscribe: {board: true, jobs: true, job: id}}`` replaces what was subscribed; ``{ack: seq}`` says how far a
reader has come (a reader that acknowledges once is expected to go on doing so).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

VERSION = 1
MAX_BYTES = 16 * 1024
MAX_A_SECOND = 10
Type = Literal["snapshot", "change", "gone", "stale"]


@dataclass(frozen=True, slots=True)
class Item:
    """One object as it is now. ``project`` limits who may know of it; None means everyone."""

    object: str
    id: str
    version: int
    data: Mapping[str, Any]
    project: str | None = None
    log: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a page wants to hear of."""

    board: bool = False
    jobs: bool = False
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """How far the reader has come."""

    seq: int


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a message was not understood."""

    code: str
    message: str


def frame(kind: Type, item: Item, seq: int) -> dict[str, Any]:
    """The frame of an item. A job's frame also tells how long its log is, as ``log: {attempt, end}``."""
    made = {"v": VERSION, "seq": seq, "type": kind, "object": item.object, "id": item.id, "version": item.version,
            "data": item.data}  # fmt: skip
    return {**made, "log": item.log} if item.log is not None else made


def gone(obj: str, key: str, seq: int) -> dict[str, Any]:
    """The frame for what is not there, or not for this reader: the two read alike."""
    return {"v": VERSION, "seq": seq, "type": "gone", "object": obj, "id": key, "version": 0, "data": None}


def stale(seq: int) -> dict[str, Any]:
    """The frame that says: what you have may be old, the server can't read its database just now."""
    return {"v": VERSION, "seq": seq, "type": "stale", "object": "tick", "id": "scheduler", "version": 0, "data": None}


def error(wrong: Wrong, seq: int) -> dict[str, Any]:
    """The answer to a message that was not understood; the socket stays open."""
    return {"v": VERSION, "seq": seq, "type": "error", "code": wrong.code, "message": wrong.message}


def encode(content: Any) -> str:
    """JSON with times as REST writes them (ISO 8601, UTC as Z)."""
    return json.dumps(content, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} can't be sent")


def understand(content: Any) -> Subscription | Ack | Wrong:
    """What a reader said, or why that was not understood."""
    if not isinstance(content, Mapping):
        return Wrong("not_an_object", "send an object: {subscribe: {...}} or {ack: seq}")
    if isinstance(content.get("ack"), int) and not isinstance(content["ack"], bool):
        return Ack(content["ack"])
    wanted = content.get("subscribe")
    if not isinstance(wanted, Mapping):
        return Wrong("unknown_message", "send {subscribe: {board, jobs, job}} or {ack: seq}")
    unknown = sorted(str(k) for k in wanted if k not in ("board", "jobs", "job"))
    if unknown:
        return Wrong(
            "unknown_subscription", f"there is no {unknown[0][:60]!r} to subscribe to; there are board, jobs, job"
        )
    job = wanted.get("job")
    if job is not None and not isinstance(job, str):
        return Wrong("bad_job", "job is the id of a job")
    return Subscription(board=wanted.get("board") is True, jobs=wanted.get("jobs") is True, job=job)
