"""The finished tensors of a part-written output, kept in steps that are whole or not there.

The part files go on being written on; a step does not change. It is a directory ``step-N``: N tensors in files, and
``state.json``, which says of which plan they are, and of each file which tensors it has, at which byte and with which
CRC-32. A later step links to the files of the earlier ones, so it costs what is new.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engines.durable import named_when_full, sync_directory, write_file
from workers.engines.planning import OutputPlan
from workers.engines.writing import PART, PlannedWriter

STATE = "state.json"
_STEP = re.compile(r"step-(\d{1,18})")
_FILE = re.compile(r"tensors-(\d{1,9})\.bin")


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """Where a tensor begins in its file (bytes), and the CRC-32 of its bytes."""

    name: str
    crc32: int
    offset: int


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a step and the tensors in it."""

    name: str
    tensors: tuple[SavedTensor, ...]


class SavedTensors:
    """The steps of one plan under ``directory``, of which the newest stays. Not for several threads at once."""

    def __init__(self, directory: Path, plan: OutputPlan) -> None:
        self.directory = directory
        self._plan = plan
        self._planned = {t.spec.name: t for t in plan.tensors}
        self._files: tuple[SavedFile, ...] = ()
        self._step: Path | None = None

    @property
    def names(self) -> frozenset[str]:
        """The tensors that the newest step has."""
        return frozenset(tensor.name for file in self._files for tensor in file.tensors)

    def size(self) -> int:
        """Bytes that the newest step takes."""
        place = self._step
        return 0 if place is None else sum((place / file.name).stat().st_size for file in self._files)

    def unsaved(self, writer: PlannedWriter) -> int:
        """Bytes of the tensors that the writer has finished and the newest step has not."""
        return sum(self._planned[name].spec.nbytes for name in writer.done - self.names)

    def restore(self, writer: PlannedWriter) -> None:
        """The opened ``writer`` has what the newest step of this plan has, as far as checksums prove it. What is no
        such step, half of one among them, is removed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        steps = {int(found[1]): path for path in self.directory.iterdir() if (found := _STEP.fullmatch(path.name))}
        for _, path in sorted(steps.items(), reverse=True):
            kept = () if self._files else self._taken(path, writer)
            if kept:
                self._files, self._step = kept, path
            else:
                shutil.rmtree(path)
        for half in self.directory.glob(".step-*.tmp"):
            shutil.rmtree(half)
        writer.flush()

    def turn_back(self, work: Path) -> None:
        """No step is left: files that :meth:`hand_over` took are part files in ``work`` again, for a writer that is not
        open yet. The journal beside them says what is in them."""
        for step in sorted(path for path in self.directory.glob("step-*") if _STEP.fullmatch(path.name)):
            for file in _stated(step, self._plan.digest):
                if (step / file.name).is_file() and (number := self._part_of(file)) is not None:
                    (step / file.name).replace(work / (self._plan.files[number].name + PART))
            shutil.rmtree(step)

    def save(self, writer: PlannedWriter) -> str:
        """All that the writer has finished is a step, the only one; returns its name. What is new is copied."""
        fresh = sorted(writer.done - self.names, key=self._place)
        if self._step is not None and not fresh:
            return self._step.name
        beside = self._begun(len(self.names) + len(fresh))
        try:
            for file in self._files:
                _link(self._at(file), beside / file.name)
            made = self._copied(fresh, writer, beside)
            return self._whole(beside, (*self._files, made))
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)  # half of a step takes room and is worth nothing
            raise

    def hand_over(self, writer: PlannedWriter) -> str:
        """Like :meth:`save`, without a copy: the part files themselves become the step and the writer is closed."""
        beside = self._begun(len(writer.done))
        writer.keep()
        made = []
        for number, file in enumerate(self._plan.files):
            found = tuple(
                SavedTensor(t.spec.name, writer.crc32(t.spec.name), t.offset)
                for t in self._plan.tensors
                if t.file == number and t.spec.name in writer.done
            )
            if found:
                made.append(SavedFile(f"tensors-{self._next() + number}.bin", found))
                (writer.work / (file.name + PART)).rename(beside / made[-1].name)
        return self._whole(beside, tuple(made))

    def drop(self) -> None:
        """No step is left."""
        if self._step is not None:
            shutil.rmtree(self._step)
        self._files, self._step = (), None

    def _taken(self, step: Path, writer: PlannedWriter) -> tuple[SavedFile, ...]:
        """The files of the step of which every tensor is as it was written; the writer has all that are."""
        kept = []
        for file in _stated(step, self._plan.digest):
            try:
                descriptor = os.open(step / file.name, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                right = [
                    t.name in self._planned and writer.take(self._planned[t.name], t.crc32, descriptor, t.offset)
                    for t in file.tensors
                ]
            finally:
                os.close(descriptor)
            if all(right):
                kept.append(file)
        return tuple(kept)

    def _part_of(self, file: SavedFile) -> int | None:
        """Which planned file this one is a part of; None for a copy, in which a tensor lies where no part has it."""
        found = [self._planned.get(tensor.name) for tensor in file.tensors]
        places = {
            t.file if t and t.offset == saved.offset else None for t, saved in zip(found, file.tensors, strict=True)
        }
        return places.pop() if len(places) == 1 else None

    def _copied(self, fresh: Sequence[str], writer: PlannedWriter, into: Path) -> SavedFile:
        """A file of its own with these tensors, on the disk."""
        path = into / f"tensors-{self._next()}.bin"
        made, at = [], 0
        with named_when_full(path, self.unsaved(writer)), path.open("wb") as out:
            for tensor in fresh:
                for stretch in writer.stretches(self._planned[tensor]):
                    out.write(stretch)
                made.append(SavedTensor(tensor, writer.crc32(tensor), at))
                at += self._planned[tensor].spec.nbytes
            out.flush()
            os.fsync(out.fileno())
        return SavedFile(path.name, tuple(made))

    def _begun(self, count: int) -> Path:
        beside = self.directory / f".step-{count}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        return beside

    def _whole(self, beside: Path, files: Sequence[SavedFile]) -> str:
        """The directory is the step now, and on the disk; the one before is gone."""
        write_file(beside / STATE, _document(self._plan.digest, files))
        before, step = self._step, self.directory / beside.name.removeprefix(".").removesuffix(".tmp")
        if before == step:  # of as many tensors, but some of them were damaged
            shutil.rmtree(step)
        beside.rename(step)
        sync_directory(self.directory)
        self._files, self._step = tuple(files), step
        if before is not None and before != step:
            shutil.rmtree(before)
        return step.name

    def _next(self) -> int:
        return 1 + max((int(found[1]) for file in self._files if (found := _FILE.fullmatch(file.name))), default=-1)

    def _place(self, tensor: str) -> tuple[int, int]:
        planned = self._planned[tensor]
        return planned.file, planned.offset

    def _at(self, file: SavedFile) -> Path:
        if self._step is None:
            raise RuntimeError("a saved file lies in a step")
        return self._step / file.name


def _stated(step: Path, plan_digest: str) -> tuple[SavedFile, ...]:
    """The files that the step says it has; none of another plan, nor where it says nothing that can be read."""
    try:
        state = json.loads((step / STATE).read_bytes())
        if state["plan"] != plan_digest:
            return ()
        return tuple(_file(each) for each in state["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def _file(told: Mapping[str, Any]) -> SavedFile:
    if not _FILE.fullmatch(told["file"]):
        raise ValueError("no file of a step")
    tensors = (SavedTensor(str(t["tensor"]), int(t["crc32"]), int(t["offset"])) for t in told["tensors"])
    return SavedFile(told["file"], tuple(tensors))


def _document(plan_digest: str, files: Sequence[SavedFile]) -> bytes:
    told = [
        {"file": f.name, "tensors": [{"tensor": t.name, "crc32": t.crc32, "offset": t.offset} for t in f.tensors]}
        for f in files
    ]
    return json.dumps({"plan": plan_digest, "files": told}, separators=(",", ":")).encode() + b"\n"


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        with named_when_full(target, source.stat().st_size):
            shutil.copyfile(source, target)
