"""The results of every sample while they grow: kept in steps that are whole or not there, and put together at the end.

A step is a directory ``step-N``: the first N rows in files that are never changed again, and ``state.json``, which
says of which plan they are, how many rows each file has, and its sha256. A later step links to the files of the
earlier ones, so it costs what is new.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from workers.engines.durable import named_when_full, sync_directory, write_file
from workers.engines.refusals import EngineRefusal

STATE = "state.json"
_STEP = re.compile(r"step-(\d{1,18})")
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of rows that is whole: its name, how many they are, and the sha256 of its bytes."""

    file: str
    rows: int
    sha256: str


class Results:
    """The rows of one plan in the order of their samples, under ``directory``."""

    def __init__(self, directory: Path, plan_digest: str) -> None:
        self.directory = directory
        self._digest = plan_digest
        self._segments: tuple[Segment, ...] = ()
        self._kept_in: Path | None = None
        self._fresh: list[bytes] = []
        self.unsaved_bytes = 0

    def __len__(self) -> int:
        return self.saved + len(self._fresh)

    @property
    def saved(self) -> int:
        """How many rows the newest step has."""
        return sum(segment.rows for segment in self._segments)

    def restore(self) -> int:
        """Go on from the newest step that is one of this plan and whole to the last byte; returns its number of rows.

        What is no such step, half of one among them, is removed.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        steps = {int(found[1]): path for path in self.directory.iterdir() if (found := _STEP.fullmatch(path.name))}
        for _, path in sorted(steps.items(), reverse=True):
            segments = None if self._segments else _whole(path, self._digest)
            if segments:
                self._segments, self._kept_in = segments, path
            else:
                shutil.rmtree(path)
        for half in self.directory.glob(".step-*.tmp"):
            shutil.rmtree(half)
        return self.saved

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """The rows of the samples that follow; they are in memory until :meth:`save`."""
        lines = [_line(row) for row in rows]
        self._fresh += lines
        self.unsaved_bytes += sum(map(len, lines))

    def save(self) -> str:
        """All rows so far are on the disk as a step, the only one; returns its name."""
        step = f"step-{len(self)}"
        if self._kept_in is not None and self._kept_in.name == step:
            return step
        beside = self.directory / f".{step}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for segment in self._segments:
            _link(self._place(segment), beside / segment.file)
        segments = self._segments
        if self._fresh:
            content = b"".join(self._fresh)
            made = Segment(f"rows-{self.saved}.jsonl", len(self._fresh), hashlib.sha256(content).hexdigest())
            write_file(beside / made.file, content)
            segments = (*segments, made)
        state = {
            "plan": self._digest,
            "next": len(self),
            "segments": [{"file": s.file, "rows": s.rows, "sha256": s.sha256} for s in segments],
        }
        write_file(beside / STATE, _line(state))
        before, self._kept_in = self._kept_in, self.directory / step
        beside.replace(self._kept_in)
        sync_directory(self.directory)
        self._segments, self._fresh, self.unsaved_bytes = segments, [], 0
        if before is not None:
            shutil.rmtree(before)
        return step

    def lines(self) -> Iterator[bytes]:
        """Every row as it is written, in order."""
        for segment in self._segments:
            with self._place(segment).open("rb") as file:
                yield from file
        yield from self._fresh

    def publish(self, path: Path) -> Iterator[dict[str, Any]]:
        """Each row while it is written to ``path``; after the last one the file is whole and on the disk.

        Raises ``wrong_results`` where the rows are not the samples 0, 1, 2 and so on, each once.
        """
        return self._written(path, self._checked())

    def publish_parts(self, directory: Path, rows: int) -> Iterator[tuple[Path, Iterator[dict[str, Any]]]]:
        """The files ``part-00000.jsonl`` and so on in ``directory``, so many rows each but for the last, in order: each
        one with its rows, which are written while they are taken, as by :meth:`publish`. All must be taken."""
        lines = self._checked()
        for number in range(-(-len(self) // rows)):
            path = directory / f"part-{number:05}.jsonl"
            yield path, self._written(path, islice(lines, rows))

    def _checked(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        for expected, line in enumerate(self.lines()):
            row = json.loads(line)
            if row["index"] != expected:
                raise EngineRefusal(
                    "wrong_results",
                    f"the results have sample {row['index']} where {expected} was due: run the job again",
                    {"index": row["index"], "expected": expected},
                )
            yield row, line

    def _written(self, path: Path, lines: Iterable[tuple[dict[str, Any], bytes]]) -> Iterator[dict[str, Any]]:
        beside = path.with_name(f".{path.name}.tmp")
        with named_when_full(path, self.unsaved_bytes), beside.open("wb") as file:
            for row, line in lines:
                file.write(line)
                yield row
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_directory(path.parent)

    def _place(self, segment: Segment) -> Path:
        if self._kept_in is None:
            raise RuntimeError("a segment lies in a step")
        return self._kept_in / segment.file


def _whole(step: Path, plan_digest: str) -> tuple[Segment, ...] | None:
    """The segments of a step of this plan, each as it was written; None for any other."""
    try:
        state = json.loads((step / STATE).read_bytes())
        if state["plan"] != plan_digest:
            return None
        segments = tuple(Segment(str(s["file"]), int(s["rows"]), str(s["sha256"])) for s in state["segments"])
        whole = sum(s.rows for s in segments) == state["next"]
        return segments if whole and all(_digest(step / s.file) == s.sha256 for s in segments) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        with named_when_full(target, source.stat().st_size), source.open("rb") as read, target.open("wb") as file:
            shutil.copyfileobj(read, file, _READ)
            file.flush()
            os.fsync(file.fileno())


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n"
