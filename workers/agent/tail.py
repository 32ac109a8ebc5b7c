"""Reading what a job writes while it writes: its events file and its log."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from workers.agent.messages import Saved
from workers.agent.outcome import Facts
from workers.agent.problems import problems_of
from workers.agent.unread import Unread
from workers.protocol import MAX_EVENT_LINE

LINES_PER_S = 100.0
EVENTS_BYTES = 64 * 2**20
READ_BYTES = 2**20
CHUNK_BYTES = 128 * 1024
GAP_BYTES = 96  # at most so long is the line that stands for what is left out
EVENT_TYPES = ("progress", "metric", "checkpoint", "artifact", "error", "yield", "done")


# ---------------------------------------------------------------- events


def parse_event(line: bytes) -> dict[str, Any] | None:
    """The event in one line; None when it is too long, no JSON object, or has no type."""
    if len(line) > MAX_EVENT_LINE:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def as_report(event: dict[str, Any]) -> dict[str, Any] | None:
    """The progress or metric report an event stands for; None for other types or values out of shape."""
    kind = event["type"]
    if kind == "progress":
        report: dict[str, Any] = {"type": "progress", "step": event.get("step"), "total": event.get("total")}
        report["unit"] = clean_text(str(event.get("unit", "")))[:40]
        if any(not _whole(report[name]) for name in ("step", "total")):
            return None
        if _finite(event.get("rate")):
            report["rate"] = float(event["rate"])
        return report
    if kind == "metric" and _whole(event.get("step")) and isinstance(event.get("name"), str):
        if not _finite(event.get("value")):
            return None
        name = clean_text(event["name"])[:100]
        return {"type": "metric", "step": event["step"], "name": name, "value": float(event["value"])}
    return None


def understood(event: dict[str, Any] | None) -> bool:
    """Whether an event says something: its type is known and what must be there is, in its shape."""
    if event is None or event["type"] not in EVENT_TYPES:
        return False
    if event["type"] == "artifact":
        return isinstance(event.get("name"), str) and isinstance(event.get("path"), str)
    return event["type"] not in ("progress", "metric") or as_report(event) is not None


def as_saved(event: dict[str, Any]) -> Saved | None:
    """The checkpoint that an event declares complete; None for other types. Without a path it is the directory."""
    if event["type"] != "checkpoint":
        return None
    path, step = event.get("path"), event.get("step")
    return Saved(path.rstrip("/") or "." if isinstance(path, str) else ".", int(step) if _whole(step) else None)


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _finite(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@dataclass(slots=True)
class EventsTail:
    """The events file from ``offset`` on, at most ``LINES_PER_S`` lines a second; the rest is counted and left out."""

    path: Path
    offset: int = 0
    credit: float = LINES_PER_S
    read_at: float | None = None
    left_out: int = 0
    saved: Saved | None = None

    def poll(self, now: float) -> list[dict[str, Any]]:
        """The reports in the whole lines written since the last call. A line without its end yet waits.

        ``saved`` is then the newest checkpoint declared in them, which no flood of lines hides.
        """
        self.saved = None
        if self.read_at is not None:
            self.credit = min(2 * LINES_PER_S, self.credit + (now - self.read_at) * LINES_PER_S)
        self.read_at = now
        reports: list[dict[str, Any]] = []
        for line in self._lines():
            if self.credit < 1.0 and b'"checkpoint"' not in line:
                self.left_out += 1
                continue
            self.credit -= 1.0
            event = parse_event(line)
            if event is None:
                continue
            self.saved = as_saved(event) or self.saved
            report = as_report(event)
            if report is not None:
                reports.append(report)
        return reports

    def _lines(self) -> Iterator[bytes]:
        room = min(READ_BYTES, EVENTS_BYTES - self.offset)
        try:
            with self.path.open("rb") as source:
                source.seek(self.offset)
                block = source.read(max(0, room))
        except OSError:
            return
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) > MAX_EVENT_LINE:
            end = len(block)  # no line may be that long: skip what there is of it
        self.offset += end
        for line in block[:end].splitlines():
            if line.strip():
                yield line


def read_facts(path: Path, *, stop_offset: int | None, left: bool = False) -> Facts:
    """What the job declared in the whole file (its first 64 MiB); ``stop_offset`` is where the stop was asked.

    ``left``: its exit code says that it has saved. It, and one that says so by a ``yield``, has saved where it told
    last that it was, as far as it has not told of a checkpoint's step.
    """
    done, yielded, after, unread = False, False, False, Unread()
    step: int | None = None
    reached: int | None = None
    last_path: str | None = None
    artifacts: dict[str, dict[str, Any]] = {}
    error: dict[str, Any] = {}
    at = 0
    try:
        source = path.open("rb")
    except OSError:
        return Facts()
    with source:
        while at < EVENTS_BYTES and (line := source.readline(EVENTS_BYTES)):
            begins, at = at, at + len(line)
            if not line.strip():
                continue
            event = parse_event(line.rstrip(b"\r\n"))
            if not understood(event):
                unread.count(line.rstrip(b"\r\n"))
            kind = event["type"] if event is not None else None
            if event is None:
                continue
            if kind == "done":
                done = True
            elif kind == "yield":
                yielded = True
            elif kind == "progress" and _whole(event.get("step")):
                reached = int(event["step"])
            elif kind == "checkpoint":
                after = after or (stop_offset is not None and begins >= stop_offset)
                declared = as_saved(event)
                if declared is not None:
                    last_path, step = declared.path, step if declared.step is None else declared.step
            elif kind == "artifact" and isinstance(event.get("name"), str) and isinstance(event.get("path"), str):
                artifacts[event["name"]] = event
            elif kind == "error":
                error = event
    if step is None and (left or yielded):
        step = reached
    return Facts(
        done=done, yielded=yielded, last_path=last_path, checkpoint_after_stop=after, last_step=step,
        artifacts=tuple(artifacts.values()), error_code=clean_text(str(error.get("code", "")))[:100],
        error_message=clean_text(str(error.get("message", "")))[:1500], bad_lines=unread.lines,
        problems=problems_of(error, clean_text),
        first_bad=unread.first,
    )  # fmt: skip


# ---------------------------------------------------------------- the log


def clean_text(text: str) -> str:
    """``text`` as every database and page can hold it: no NUL, no lone surrogate. Colours (ANSI) are kept."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


@dataclass(slots=True)
class LogTail:
    """A log as the server gets it: valid UTF-8, at most ``cap`` bytes of it, or little more if half of it is none.

    Offsets count bytes of that clean text, which depends on the file alone, so a restarted agent (or a server that
    has less or more than we thought) can go on at any of them. Of a longer log the first and the last half are kept
    with a line between; the last half can be known, and is sent, only at the end.
    """

    path: Path
    cap: int
    raw_at: int = 0
    base: int = 0
    buffer: bytes = b""
    head_left: int = field(init=False)
    closed: bool = False
    decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)

    def __post_init__(self) -> None:
        self.head_left = self.cap // 2

    def chunk(self, *, final: bool) -> tuple[int, str] | None:
        """``(offset, text)`` of the next piece to send, the same until acknowledged; None when there is none now."""
        if len(self.buffer) < CHUNK_BYTES and not self.closed:
            self._fill(final=final)
        if not self.buffer:
            return None
        piece = self.buffer[: _boundary(self.buffer, CHUNK_BYTES)]
        return self.base, piece.decode("utf-8")

    def acknowledge(self, offset: int) -> None:
        """The server holds the text up to ``offset`` and wants what follows."""
        if offset < self.base:  # it has less than was once acknowledged: begin again and skip
            self.__init__(self.path, self.cap)  # type: ignore[misc]
        skip = offset - self.base
        while skip > len(self.buffer) and not self.closed:
            before = len(self.buffer)
            self._fill(final=True)
            if len(self.buffer) == before:
                break
        skip = _boundary(self.buffer, min(skip, len(self.buffer)))
        self.buffer = self.buffer[skip:]
        self.base += skip

    def refuse(self) -> None:
        """The server wants no more of it."""
        self.buffer, self.closed = b"", True

    def at_end(self) -> bool:
        """Whether all of a finished job's log has been acknowledged."""
        return self.closed and not self.buffer

    def _fill(self, *, final: bool) -> None:
        """Read on: the head while it lasts; once ``final``, the gap's line and the tail."""
        try:
            size = self.path.stat().st_size
        except OSError:
            size = 0
        if self.head_left > 0:
            self._append(self._read(min(READ_BYTES, self.head_left)), last=final and self.raw_at >= size)
            if self.raw_at >= size and final:
                self._append(b"", last=True)
                self.closed = True
            return
        if final and not self.closed:
            self._end(size)

    def _end(self, size: int) -> None:
        """The rest of the ended log is in the buffer: all of it, or after the gap's line as much of its end as there is
        room for."""
        room = max(0, self.cap - self.base - len(self.buffer))
        gap = max(0, size - room - self.raw_at)
        if gap:  # at most so much of the end is text within the room
            self.decoder.reset()
            self.raw_at += gap
        begun = len(self.buffer)
        while self.raw_at < size and (block := self._read(READ_BYTES)):
            self._append(block, last=False)
        self._append(b"", last=True)
        end = self.buffer[begun:]
        if gap or len(end) > room:
            kept = max(0, room - GAP_BYTES)
            lost = len(end) - kept
            while lost < len(end) and (end[lost] & 0xC0) == 0x80:  # not in the middle of a character
                lost += 1
            words = f"\n[... {gap + lost} bytes of log left out: log_bytes is {self.cap} ...]\n".encode()
            self.buffer = self.buffer[:begun] + words + end[lost:]
        self.closed = True

    def _read(self, most: int) -> bytes:
        try:
            with self.path.open("rb") as source:
                source.seek(self.raw_at)
                block = source.read(most)
        except OSError:
            return b""
        self.raw_at += len(block)
        self.head_left = max(0, self.head_left - len(block))
        return block

    def _append(self, block: bytes, *, last: bool) -> None:
        self.buffer += clean_text(self.decoder.decode(block, last)).encode()


def _boundary(text: bytes, most: int) -> int:
    """The largest length up to ``most`` at which no character of the UTF-8 ``text`` is cut."""
    if most >= len(text):
        return len(text)
    while most > 0 and (text[most] & 0xC0) == 0x80:
        most -= 1
    return most
