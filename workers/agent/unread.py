"""Which lines of a job's events file say nothing that is understood, and how are they shown to people?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SHOWN = 120
FIRST = 3


@dataclass(slots=True)
class Unread:
    """So many lines were not understood; ``first`` are the first ``FIRST`` of them, each in quotes and cut."""

    lines: int = 0
    first: str = ""

    def count(self, line: bytes) -> None:
        """One more line that was not understood."""
        self.lines += 1
        if self.lines <= FIRST:
            self.first += ", " * bool(self.first) + quoted(line)


def quoted(line: bytes) -> str:
    """The line as a page and a database can hold it: one line, printable, at most about ``SHOWN`` characters of it."""
    text = line[: 4 * SHOWN].decode("utf-8", "backslashreplace")
    cut = len(text) > SHOWN or len(line) > 4 * SHOWN
    return repr(text[:SHOWN] + "..." * cut).encode("utf-8", "backslashreplace").decode()


def report_of(lines: int, first: str) -> list[dict[str, Any]]:
    """The report that tells of them, once an attempt; none where every line was understood."""
    return [{"type": "events_unread", "lines": lines, "first": first}] if lines else []
