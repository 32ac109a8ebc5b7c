"""Writes a planned output at fixed offsets, so that it can be stopped or killed at any byte and continued.

``NAME.part`` has its full size from the start (a full disk is found at second 0). Data is synced before the
journal says so, every 256 MB or 5 seconds. A resume trusts only what its checksum proves.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from workers.engines.durable import named_when_full, sync_directory, write_all, write_file
from workers.engines.journal import Finished, Journal
from workers.engines.planning import OutputPlan, PlannedTensor
from workers.engines.refusals import EngineRefusal
from workers.engines.sources import INDEX

JOURNAL = "journal.jsonl"
PART = ".part"
FLUSH_BYTES = 256_000_000
FLUSH_SECONDS = 5.0
_READ = 1 << 22


class PlannedWriter:
    """The output of one plan while it is being written under ``work``. Several threads may write tensors."""

    def __init__(
        self,
        plan: OutputPlan,
        work: Path,
        *,
        flush_bytes: int = FLUSH_BYTES,
        flush_seconds: float = FLUSH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        allocate: Callable[[int, int, int], None] = os.posix_fallocate,
    ) -> None:
        self.plan = plan
        self.work = work
        self._journal = Journal(work / JOURNAL, plan.digest)
        self._flush_bytes = flush_bytes
        self._flush_seconds = flush_seconds
        self._clock = clock
        self._allocate = allocate
        self._lock = threading.Lock()
        self._fds: list[int] = []
        self._done: dict[str, Finished] = {}
        self._pending: list[Finished] = []
        self._unsynced = 0
        self._synced_at = clock()

    @property
    def done(self) -> frozenset[str]:
        """Names of the tensors that are finished; the last few may not be journalled yet."""
        with self._lock:
            return frozenset(self._done)

    def finished_bytes(self) -> int:
        """Bytes of all finished tensors."""
        return sum(t.spec.nbytes for t in self.plan.tensors if t.spec.name in self._done)

    def open(self) -> frozenset[str]:
        """Take the disk space, write the headers, verify what an earlier run finished; returns those names.

        Refuses with ``no_space`` and leaves no part file then.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        earlier = self._journal.read()
        self._drop_strangers()
        held = {number for number in range(len(self.plan.files)) if self._part(number).exists()}
        for number, file in enumerate(self.plan.files):
            fd = os.open(self._part(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._fds.append(fd)
            try:
                with named_when_full(self._part(number), file.size):
                    if os.fstat(fd).st_size > file.size:
                        os.ftruncate(fd, file.size)
                    self._allocate(fd, 0, file.size)
                    write_all(fd, memoryview(file.header), 0)
            except EngineRefusal:
                self.close()
                self._drop_parts()
                raise
        by_name = {t.spec.name: t for t in self.plan.tensors}
        for entry in earlier:
            tensor = by_name.get(entry.tensor)
            if tensor and tensor.file in held and self._checksum(tensor) == entry.crc32:
                self._done[entry.tensor] = entry
        self._journal.restart(self._done.values())
        sync_directory(self.work)
        return self.done

    def write(self, tensor: PlannedTensor, stretches: Iterable[torch.Tensor]) -> None:
        """All of ``tensor``, given as flat stretches in order. Refuses a wrong number of bytes (a bug)."""
        at, crc, uncounted = 0, 0, 0
        for stretch in stretches:
            self._count(uncounted)
            view = stretch.contiguous().view(torch.uint8).numpy().data
            with named_when_full(self._part(tensor.file), tensor.spec.nbytes):
                write_all(self._fds[tensor.file], view, tensor.offset + at)
            # Linux begins to write these pages out now, in the background, so that the sync finds little to do.
            os.posix_fadvise(self._fds[tensor.file], tensor.offset + at, len(view), os.POSIX_FADV_DONTNEED)
            crc = zlib.crc32(view, crc)
            at += len(view)
            uncounted = len(view)
        if at != tensor.spec.nbytes:
            raise ValueError(f"tensor {tensor.spec.name!r} has {at} bytes, {tensor.spec.nbytes} were planned")
        self._finish(tensor, crc)
        self._count(uncounted)  # only now, so that a flush it causes journals this tensor too

    def take(self, tensor: PlannedTensor, crc32: int, descriptor: int, offset: int) -> bool:
        """Whether the bytes of ``tensor`` at ``offset`` of the open file have this checksum; then it is finished with
        them, if it was not before."""
        known, crc, at = tensor.spec.name in self.done, 0, 0
        while at < tensor.spec.nbytes:
            stretch = os.pread(descriptor, min(_READ, tensor.spec.nbytes - at), offset + at)
            if not stretch:
                return False
            if not known:
                with named_when_full(self._part(tensor.file), tensor.spec.nbytes):
                    write_all(self._fds[tensor.file], memoryview(stretch), tensor.offset + at)
            crc, at = zlib.crc32(stretch, crc), at + len(stretch)
        if crc == crc32 and not known:
            self._finish(tensor, crc)
            self._count(at)
        return crc == crc32

    def crc32(self, tensor: str) -> int:
        """The checksum of a finished tensor."""
        with self._lock:
            return self._done[tensor].crc32

    def stretches(self, tensor: PlannedTensor) -> Iterator[bytes]:
        """The bytes of a finished tensor as they are written."""
        at, end = tensor.offset, tensor.offset + tensor.spec.nbytes
        while at < end:
            stretch = os.pread(self._fds[tensor.file], min(_READ, end - at), at)
            if not stretch:
                raise OSError(errno.EIO, f"{self._part(tensor.file).name} ends at {at}: something cut it")
            yield stretch
            at += len(stretch)

    def flush(self) -> None:
        """Everything finished so far is on the disk, then in the journal."""
        with self._lock:
            self._flush()

    def publish(self, destination: Path) -> list[Path]:
        """Move the complete output into ``destination`` (same file system) and forget the work.

        Every file is on the disk under its final name afterwards; the paths are returned, index included.
        """
        missing = [t.spec.name for t in self.plan.tensors if t.spec.name not in self._done]
        if missing:
            raise ValueError(
                f"not yet written are {len(missing)} of {len(self.plan.tensors)}; the first tensor is {missing[0]!r}"
            )
        self.flush()
        self.close()
        destination.mkdir(parents=True, exist_ok=True)
        paths = [destination / file.name for file in self.plan.files]
        for number, path in enumerate(paths):
            self._part(number).rename(path)
        if self.plan.index is not None:
            write_file(destination / INDEX, self.plan.index)
            paths.append(destination / INDEX)
        sync_directory(destination)
        self._journal.delete()
        return paths

    def keep(self) -> int:
        """Close with the finished prefix of every part kept and the rest cut off; returns the bytes kept."""
        self.flush()
        for number, file in enumerate(self.plan.files):
            ends = [
                t.offset + t.spec.nbytes for t in self.plan.tensors if t.file == number and t.spec.name in self._done
            ]
            os.ftruncate(self._fds[number], max(ends, default=len(file.header)))
        sizes = [os.fstat(fd).st_size for fd in self._fds]
        self.close()
        return sum(sizes)

    def discard(self) -> None:
        """Close with the part files gone; the journal stays and says what had been reached."""
        self.flush()
        self.close()
        self._drop_parts()

    def close(self) -> None:
        """Give the files back to the system; what was not flushed may be lost."""
        while self._fds:
            os.close(self._fds.pop())

    def _finish(self, tensor: PlannedTensor, crc: int) -> None:
        with self._lock:
            entry = Finished(tensor.spec.name, crc)
            self._done[entry.tensor] = entry
            self._pending.append(entry)

    def _count(self, written: int) -> None:
        with self._lock:
            self._unsynced += written
            due = self._clock() - self._synced_at >= self._flush_seconds
            if self._unsynced >= self._flush_bytes or due:
                self._flush()

    def _flush(self) -> None:
        for fd in self._fds:
            os.fdatasync(fd)
        if self._pending:
            self._journal.append(self._pending)
            self._pending = []
        self._unsynced = 0
        self._synced_at = self._clock()

    def _checksum(self, tensor: PlannedTensor) -> int:
        crc, at, end = 0, tensor.offset, tensor.offset + tensor.spec.nbytes
        while at < end:
            stretch = os.pread(self._fds[tensor.file], min(_READ, end - at), at)
            if not stretch:
                return -1
            crc, at = zlib.crc32(stretch, crc), at + len(stretch)
        return crc

    def _part(self, number: int) -> Path:
        return self.work / (self.plan.files[number].name + PART)

    def _drop_strangers(self) -> None:
        ours = {self._part(i) for i in range(len(self.plan.files))}
        for path in self.work.glob("*" + PART):
            if path not in ours:
                path.unlink()

    def _drop_parts(self) -> None:
        for number in range(len(self.plan.files)):
            self._part(number).unlink(missing_ok=True)
