"""What a job tells its agent: JSON lines appended to one file, each by a single write. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.protocol import MAX_EVENT_LINE


class EventLog:
    """Appends events to ``path``; without a path (run by hand) they are dropped."""

    def __init__(self, path: Path | None) -> None:
        self._fd = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def emit(self, event_type: str, /, **fields: Any) -> None:
        """One event. Fields that are None are left out; a line above the limit is a bug of the caller."""
        line = encode({"type": event_type, **{k: v for k, v in fields.items() if v is not None}})
        if len(line) > MAX_EVENT_LINE:
            raise ValueError(f"a {event_type} event has {len(line)} bytes, the limit is {MAX_EVENT_LINE}")
        if self._fd is not None:
            os.write(self._fd, line)

    def error(self, code: str, message: str, details: Mapping[str, Any]) -> None:
        """An ``error`` event; a long list of problems or message is cut to the limit, and says so."""
        event: dict[str, Any] = {"type": "error", "code": code, "message": message, "details": dict(details)}
        problems = list(details.get("problems", []))
        while len(encode(event)) > MAX_EVENT_LINE and problems:
            problems.pop()
            event["details"] = {"problems": problems, "omitted": len(details["problems"]) - len(problems)}
            event["message"] = message[:1000]
        if len(encode(event)) > MAX_EVENT_LINE:
            event.update(message=message[:500], details={"omitted": 1})
        event.pop("type")
        self.emit("error", **event)


def encode(event: Mapping[str, Any]) -> bytes:
    """One line of UTF-8 JSON with its newline; NaN is refused, it is no JSON."""
    return json.dumps(event, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"
