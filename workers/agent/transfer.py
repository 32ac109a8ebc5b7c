"""Moving bytes between server and node: inputs and checkpoints down, outputs and checkpoints up."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from workers.agent.client import Api, CallFailed
from workers.agent.messages import Failure, FailureKind
from workers.agent.statedir import Ref, read_json
from workers.protocol import FileEntry, UnsafePath, check_path

T = TypeVar("T")
PART_BYTES = 8 * 2**20
TRIES = 3
# The modification time of everything in the cache: a file that a job has written to shows by another one.
CACHE_MTIME_NS = 10**18


class TransferFailed(Exception):
    """The bytes can't be had or given, and trying again won't help; ``retryable``: another node might do it.

    ``gone``: the job has removed or replaced them meanwhile, or they never were there.
    """

    def __init__(self, message: str, *, retryable: bool = False, stale: bool = False, gone: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.stale = stale
        self.gone = gone


class Aborted(Exception):
    """The attempt is over; nobody wants the bytes any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How to go on when the server can't answer: ``wait(tries)`` returns False when the transfer was aborted."""

    wait: Callable[[int], bool]

    def again(self, call: Callable[[], T]) -> T:
        """The call's value, repeated for as long as the server is away (D31). Raises what is final."""
        tries = 0
        while True:
            try:
                return call()
            except CallFailed as problem:
                if problem.failure.final:
                    raise
                tries += 1
                if not self.wait(tries):
                    raise Aborted from problem


def hash_file(path: Path) -> str:
    """The sha256 of the file in hex."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


# ---------------------------------------------------------------- down


class Fetcher:
    """Downloads for one attempt, through a cache of verified files by sha256."""

    def __init__(self, api: Api, cache: Path, *, ref: Ref, patience: Patience) -> None:
        self.api = api
        self.cache = cache
        self.ref = ref
        self.patience = patience

    def inputs(self, inputs: Iterable[dict[str, Any]], directory: Path) -> None:
        """Every input lies read-only under ``directory/<as>/``, verified. Raises :class:`TransferFailed`."""
        for item in inputs:
            place = directory / _safe(str(item["as"]), one=True)
            for entry in item["files"]:
                cached = self.cached(str(item["artifact"]), entry)
                link(cached, place / _safe(entry["path"]))

    def checkpoint(self, resume: dict[str, Any], directory: Path) -> None:
        """``directory`` holds the checkpoint, writable; it appears there as a whole or not at all."""
        fresh = directory.with_name("restoring")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        wrapped = any(self._says_wrapped(resume, entry) for entry in resume["files"])
        for entry in resume["files"]:
            path = _safe(entry["path"])
            if wrapped and path == EXPERIMENT_FILE:
                continue
            target = fresh / (path.removeprefix(FRAMEWORK_DIR) if wrapped else path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.cached(str(resume["artifact"]), entry), target)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.replace(directory)

    def _says_wrapped(self, resume: dict[str, Any], entry: FileEntry) -> bool:
        if entry["path"] != EXPERIMENT_FILE:
            return False
        document = read_json(self.cached(str(resume["artifact"]), entry))
        return document is not None and document.get("layout") == WRAPPED

    def cached(self, artifact: str, entry: FileEntry) -> Path:
        """The cache's file with this content, fetched if it isn't there, fetched again if somebody changed it."""
        sha256 = entry["sha256"]
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise TransferFailed(f"{entry['path']!r:.80}: sha256 must be 64 hex digits")
        kept = self.cache / sha256[:2] / sha256
        with contextlib.suppress(FileNotFoundError):
            stat = kept.stat()
            if stat.st_size == entry["size"] and (stat.st_mtime_ns == CACHE_MTIME_NS or hash_file(kept) == sha256):
                _seal(kept)
                return kept
            kept.unlink()
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_name(f"{sha256}.{self.ref.name}.part")
        try:
            self._download(artifact, entry, part)
        except OSError as problem:
            full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
            said = "no space left on the node" if full else str(problem)
            raise TransferFailed(f"{entry['path']}: {said}", retryable=True) from problem
        _seal(part)
        part.replace(kept)
        return kept

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
        where = self.api.input_path(self.ref.attempt, artifact, _safe(entry["path"]))
        part.touch()
        with (
            self.api.read(where, epoch=self.ref.epoch, offset=have) as (start, blocks),
            part.open("r+b") as out,
        ):
            out.seek(start)
            out.truncate()
            for block in blocks:
                out.write(block)
                if out.tell() > entry["size"]:
                    raise TransferFailed(f"{entry['path']}: more bytes than its size of {entry['size']}")
            short = out.tell() < entry["size"]
        if short:
            raise CallFailed(Failure(FailureKind.SILENT, f"{entry['path']}: the download was cut"))


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


def _safe(path: str, *, one: bool = False) -> str:
    try:
        check_path(path)
    except UnsafePath as problem:
        raise TransferFailed(str(problem)) from problem
    if one and "/" in path:
        raise TransferFailed(f"an input's name must be one word, not {path!r:.80}")
    return path


# ---------------------------------------------------------------- up

EXPERIMENT_FILE = "experiment.json"
FRAMEWORK_DIR = "framework/"
# In an experiment.json written here and not by the job: only the other part is restored, to where it was.
WRAPPED = "wrapped"


def has_both_parts(names: Iterable[str]) -> bool:
    """Whether a job has laid out its checkpoint in the two parts of D8 (experiment and framework) by itself."""
    found = set(names)
    return EXPERIMENT_FILE in found and all(n == EXPERIMENT_FILE or n.startswith(FRAMEWORK_DIR) for n in found)


def publish(
    api: Api, ref: Ref, *, name: str, kind: str, meta: dict[str, Any], files: dict[str, Path], patience: Patience
) -> str:
    """Upload ``files`` (artifact path -> where it lies) as one artifact and commit it; the artifact's id.

    Goes on where an earlier try stopped, waits while the server is away. Raises :class:`TransferFailed` when it
    refuses, with ``stale`` when the attempt is no longer this node's.
    """
    hashes = _hashes(files)
    entries = [{"path": _safe(p), "size": files[p].stat().st_size, "sha256": hashes[p]} for p in sorted(files)]
    body = {"epoch": ref.epoch, "name": name, "kind": kind, "meta": meta, "files": entries}
    try:
        opened = patience.again(lambda: api.create_artifact(ref.attempt, body))
        upload, have = str(opened["upload"]), opened.get("have") or {}
        for path in sorted(files):
            _send(api, ref, upload=upload, path=path, source=files[path], at=int(have.get(path, 0)), patience=patience)
        done = {"epoch": ref.epoch, "sha256": hashes}
        return str(patience.again(lambda: api.commit_artifact(ref.attempt, upload, done))["artifact"])
    except CallFailed as problem:
        raise TransferFailed(f"{name}: {problem.failure.message}", stale=problem.failure.stale) from problem


def _hashes(files: dict[str, Path]) -> dict[str, str]:
    """The sha256 of each; bytes that several names lead to are read once."""
    known: dict[tuple[int, int], str] = {}
    found: dict[str, str] = {}
    for path, source in files.items():
        about = source.stat()
        me = (about.st_dev, about.st_ino)
        found[path] = known[me] = known.get(me) or hash_file(source)
    return found


def _send(api: Api, ref: Ref, *, upload: str, path: str, source: Path, at: int, patience: Patience) -> None:
    size = source.stat().st_size
    corrected = 0
    with source.open("rb") as data:
        while at < size:
            data.seek(at)
            part = data.read(PART_BYTES)
            put = _put(api, ref, upload=upload, path=path, at=at, part=part)
            try:
                patience.again(put)
                at += len(part)
            except CallFailed as problem:
                right = problem.failure.body.get("offset")
                corrected += 1
                if problem.failure.status != 409 or not isinstance(right, int) or corrected > 2 * TRIES:
                    raise
                at = min(max(0, right), size)


def _put(api: Api, ref: Ref, *, upload: str, path: str, at: int, part: bytes) -> Callable[[], Any]:
    return lambda: api.put_part(ref.attempt, upload, path, epoch=ref.epoch, offset=at, part=part)
