"""The list of finished tensors. It never claims what is not on the disk, and may be torn at any byte."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workers.engines.durable import named_when_full, write_file


@dataclass(frozen=True, slots=True)
class Finished:
    """A tensor whose bytes are on the disk, with their crc32."""

    tensor: str
    crc32: int


class Journal:
    """One file of JSON lines: first the plan's digest, then the finished tensors in the order they ended."""

    def __init__(self, path: Path, plan_digest: str) -> None:
        self.path = path
        self._digest = plan_digest

    def read(self) -> list[Finished]:
        """The entries up to the first malformed line; none if the file is missing or belongs to another plan."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is torn
        except FileNotFoundError:
            return []
        if not lines or _parsed(lines[0]).get("plan") != self._digest:
            return []
        entries: list[Finished] = []
        for line in lines[1:]:
            row = _parsed(line)
            tensor, crc32 = row.get("tensor"), row.get("crc32")
            if not isinstance(tensor, str) or type(crc32) is not int:
                break
            entries.append(Finished(tensor, crc32))
        return entries

    def restart(self, entries: Iterable[Finished]) -> None:
        """Replace the file by one of this plan with exactly ``entries``."""
        write_file(self.path, _line({"plan": self._digest}) + b"".join(map(_entry, entries)))

    def append(self, entries: Iterable[Finished]) -> None:
        """Add ``entries``; they are on the disk afterwards. Their data must be already."""
        content = b"".join(map(_entry, entries))
        with named_when_full(self.path, len(content)), self.path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def delete(self) -> None:
        """The output is complete elsewhere: forget."""
        self.path.unlink(missing_ok=True)


def _parsed(line: bytes) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _entry(entry: Finished) -> bytes:
    return _line({"tensor": entry.tensor, "crc32": entry.crc32})


def _line(row: dict[str, object]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"
