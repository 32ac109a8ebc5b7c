"""An attempt's files on their way down: small ones together, large ones alone, through a cache of verified bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workers.agent.client import Api, CallFailed
from workers.agent.messages import Failure, FailureKind
from workers.agent.meter import Meter, unheard
from workers.agent.statedir import Ref, read_json
from workers.agent.transfer import (
    EXPERIMENT_FILE,
    FRAMEWORK_DIR,
    TRIES,
    WRAPPED,
    Patience,
    TransferFailed,
    hash_file,
    safe,
)
from workers.bundles import SMALL_BYTES, BadBundle, arrived, grouped, sha256_of
from workers.protocol import FileEntry, Transfer, clashes
from workers.said_back import shown

# The modification time of everything in the cache: a file that a job has written to shows by another one.
CACHE_MTIME_NS = 10**18
# What a file system answers to a name that it can't have, or has for something else.
UNNAMEABLE = frozenset({errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EILSEQ, errno.EINVAL})


class Fetcher:
    """Downloads for one attempt, through a cache of verified files by sha256."""

    def __init__(
        self, api: Api, cache: Path, *, ref: Ref, patience: Patience, meter: Meter | None = None
    ) -> None:  # fmt: skip
        self.api = api
        self.cache = cache
        self.ref = ref
        self.patience = patience
        self.meter = meter or unheard(ref)

    def inputs(self, inputs: Iterable[dict[str, Any]], directory: Path) -> None:
        """Every input lies read-only under ``directory/<as>/``, verified. Raises :class:`TransferFailed`."""
        for item in inputs:
            place = directory / safe(str(item["as"]), one=True)
            for entry, cached in self._all(Transfer.FETCH_INPUTS, item):
                with _laying_out(entry["path"]):
                    link(cached, place / entry["path"])

    def checkpoint(self, resume: dict[str, Any], directory: Path) -> None:
        """``directory`` holds the checkpoint, writable; it appears there as a whole or not at all."""
        fresh = directory.with_name("restoring")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        files = list(self._all(Transfer.FETCH_CHECKPOINT, resume))
        wrapped = any(_says_wrapped(entry, cached) for entry, cached in files)
        folders: set[Path] = set()
        for entry, cached in files:
            path = safe(entry["path"])
            if wrapped and path == EXPERIMENT_FILE:
                continue
            target = fresh / (path.removeprefix(FRAMEWORK_DIR) if wrapped else path)
            with _laying_out(path):
                if target.parent not in folders:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    folders.add(target.parent)
                shutil.copyfile(cached, target)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.replace(directory)

    def _all(self, what: Transfer, item: Mapping[str, Any]) -> Iterator[tuple[FileEntry, Path]]:
        """Each file of an artifact with where it lies in the cache, verified, those that are missing fetched before."""
        artifact, entries = str(item["artifact"]), item["files"]
        for entry in entries:
            safe(entry["path"])
        for words in clashes(entry["path"] for entry in entries):
            raise TransferFailed(f"{artifact} can't be laid out: {words}")
        missing = {entry["sha256"]: entry for entry in entries if self._kept(entry) is None}
        self._make_room(missing)
        size = sum(entry["size"] for entry in missing.values())
        self.meter.begin(what, len(missing), size, step=item.get("step") or 0)
        small = [entry for entry in missing.values() if 0 < entry["size"] <= SMALL_BYTES]
        for group in grouped(small, lambda entry: entry["size"]):
            with _disk_trouble(f"{len(group)} small file{'' if len(group) == 1 else 's'} of {artifact}"):
                self._bundle(artifact, group)
        for entry in entries:
            yield entry, self._kept(entry) or self._fetched(artifact, entry)

    def _kept(self, entry: FileEntry) -> Path | None:
        """The cache's file with this content; one that somebody has changed is gone, as if it had never been there."""
        kept = self._place(entry)
        with contextlib.suppress(FileNotFoundError):
            stat = kept.stat()
            if stat.st_size == entry["size"] and stat.st_mtime_ns == CACHE_MTIME_NS and not stat.st_mode & 0o222:
                return kept
            if stat.st_size == entry["size"] and (
                stat.st_mtime_ns == CACHE_MTIME_NS or hash_file(kept) == entry["sha256"]
            ):
                _seal(kept)
                return kept
            kept.unlink()
        return None

    def _place(self, entry: FileEntry) -> Path:
        sha256 = entry["sha256"]
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise TransferFailed(f"{shown(entry['path'])}: sha256 must be 64 hex digits")
        return Path(f"{self.cache}/{sha256[:2]}/{sha256}")

    def _part(self, entry: FileEntry) -> Path:
        return Path(f"{self._place(entry)}.{self.ref.name}.part")

    def _make_room(self, missing: Iterable[str]) -> None:
        """There is a folder in the cache for every sha256."""
        for folder in sorted({sha256[:2] for sha256 in missing}):
            (self.cache / folder).mkdir(exist_ok=True)

    # ------------------------------------------------------------ many small files

    def _bundle(self, artifact: str, group: list[FileEntry]) -> None:
        """The small files are in the cache; of a bundle that was cut off what has come is not asked for again."""
        left = {entry["path"]: entry for entry in group}
        wrong = 0
        while left:
            try:
                came = self.patience.again(lambda: self._some(artifact, list(left)))
            except CallFailed as problem:
                raise TransferFailed(problem.failure.message, stale=problem.failure.stale) from problem
            for path, piece in came.items():
                entry = left.get(path)
                if entry is None or len(piece) != entry["size"] or sha256_of(piece) != entry["sha256"]:
                    wrong += 1
                    if wrong == TRIES:
                        raise TransferFailed(f"{path}: the bytes don't have the sha256 they should, {TRIES} times")
                    continue
                self._keep(entry, piece)
                del left[path]
                self.meter.add(1, len(piece))

    def _keep(self, entry: FileEntry, content: bytes) -> None:
        part = self._part(entry)
        with part.open("wb") as out:
            out.write(content)
        _seal(part)
        part.replace(self._place(entry))

    def _some(self, artifact: str, paths: list[str]) -> dict[str, bytes]:
        """Those of the files that came as a whole, at least one."""
        content, cut = self.api.read_bundle(self.ref.attempt, artifact, epoch=self.ref.epoch, paths=paths)
        try:
            files, pieces = arrived(content)
        except BadBundle as wrong:
            raise CallFailed(cut or Failure(FailureKind.SILENT, f"no bundle came: {wrong}")) from wrong
        if not pieces:
            raise CallFailed(cut or Failure(FailureKind.SILENT, f"{paths[0]}: the download was cut"))
        return {file["path"]: piece for file, piece in zip(files, pieces, strict=False)}

    # ------------------------------------------------------------ one file

    def _fetched(self, artifact: str, entry: FileEntry) -> Path:
        part = self._part(entry)
        with _disk_trouble(entry["path"]):
            self._download(artifact, entry, part)
        _seal(part)
        part.replace(self._place(entry))
        self.meter.add(1, 0)
        return self._place(entry)

    def _download(self, artifact: str, entry: FileEntry, part: Path) -> None:
        """``part`` holds the whole content, checked; what an earlier try left of it is not fetched again."""
        for _ in range(TRIES):
            try:
                self.patience.again(lambda: self._go_on(artifact, entry, part))
            except CallFailed as problem:
                failure = problem.failure
                raise TransferFailed(f"{entry['path']}: {failure.message}", stale=failure.stale) from problem
            if part.stat().st_size == entry["size"] and hash_file(part) == entry["sha256"]:
                return
            part.unlink()
        raise TransferFailed(f"{entry['path']}: the bytes don't have the sha256 they should, {TRIES} times")

    def _go_on(self, artifact: str, entry: FileEntry, part: Path) -> None:
        have = part.stat().st_size if part.exists() else 0
        if have >= entry["size"] and part.exists():
            return
        where = self.api.input_path(self.ref.attempt, artifact, safe(entry["path"]))
        part.touch()
        with (
            self.api.read(where, epoch=self.ref.epoch, offset=have) as (start, blocks),
            part.open("r+b") as out,
        ):
            out.seek(start)
            out.truncate()
            for block in blocks:
                self.patience.check()
                out.write(block)
                self.meter.add(0, len(block))
                if out.tell() > entry["size"]:
                    raise TransferFailed(f"{entry['path']}: more bytes than its size of {entry['size']}")
            short = out.tell() < entry["size"]
        if short:
            raise CallFailed(Failure(FailureKind.SILENT, f"{entry['path']}: the download was cut"))


@contextlib.contextmanager
def _laying_out(path: str) -> Iterator[None]:
    """A name that this file system takes from nobody is the artifact's fault; all else is the node's disk."""
    with _disk_trouble(path):
        try:
            yield
        except OSError as problem:
            if problem.errno in UNNAMEABLE:
                said = f"{shown(path)} can't be laid out on the node ({problem.strerror}): rename it"
                raise TransferFailed(said) from problem
            raise


@contextlib.contextmanager
def _disk_trouble(what: str) -> Iterator[None]:
    """An error of this node's disk is none of the job's: another node might do it."""
    try:
        yield
    except OSError as problem:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        said = "no space left on the node" if full else str(problem)
        raise TransferFailed(f"{what}: {said}", retryable=True) from problem


def _says_wrapped(entry: FileEntry, cached: Path) -> bool:
    if entry["path"] != EXPERIMENT_FILE:
        return False
    document = read_json(cached)
    return document is not None and document.get("layout") == WRAPPED


def _seal(path: Path) -> None:
    path.chmod(0o444)
    os.utime(path, ns=(path.stat().st_atime_ns, CACHE_MTIME_NS))


def link(source: Path, target: Path) -> None:
    """``target`` is the same file as ``source``, or a read-only copy where links don't reach."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        target.chmod(0o444)
