"""Where artifact bytes lie on local disk: blobs by sha256, published by link, never rewritten."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import UUID

from django.conf import settings
from safetensors import SafetensorError, safe_open

CHUNK = 1024 * 1024
# The file that tells whose the directory is.
NAME = "store-name"
LEAST_FREE = 64 * CHUNK
WRITERS = 8

T = TypeVar("T")


class NoSpace(Exception):
    """The artifact directory's file system is full."""


class CorruptModel(ValueError):
    """A file named ``*.safetensors`` is not one, or is cut off."""


def can_store() -> bool:
    """Whether a checkpoint could be stored now: the directory can be written and is not full (D31)."""
    try:
        settings.ARTIFACT_DIR.mkdir(parents=True, exist_ok=True)
        return os.access(settings.ARTIFACT_DIR, os.W_OK) and shutil.disk_usage(settings.ARTIFACT_DIR).free >= LEAST_FREE
    except OSError:
        return False


def blob(sha256: str) -> Path:
    """The path of a blob, there or not."""
    return Path(f"{settings.ARTIFACT_DIR}/objects/{sha256[:2]}/{sha256[2:]}")


def blob_size(sha256: str) -> int | None:
    """The size of a blob in bytes; None when it is not there."""
    return _size(blob(sha256))


def part(upload: UUID, number: int) -> Path:
    """The path of the ``number``-th file of an upload on its way."""
    return Path(f"{settings.ARTIFACT_DIR}/uploads/{upload}/{number}")


def part_size(upload: UUID, number: int) -> int:
    """Bytes received so far of that file."""
    return _size(part(upload, number)) or 0


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def part_sizes(upload: UUID) -> dict[int, int]:
    """Bytes received so far of every file of the upload, by its number; what nothing came of is left out."""
    try:
        with os.scandir(part(upload, 0).parent) as found:
            return {int(entry.name): entry.stat().st_size for entry in found if entry.name.isdigit()}
    except FileNotFoundError:
        return {}


def keep_whole(upload: UUID, files: Mapping[int, bytes]) -> None:
    """These files of the upload have come, by number: all their bytes are there. NoSpace when that can't be."""
    part(upload, 0).parent.mkdir(parents=True, exist_ok=True)

    def write(number: int) -> None:
        with part(upload, number).open("wb") as file:
            file.write(files[number])

    try:
        _a_few_at_a_time(write, list(files))
    except OSError as full:
        if full.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace("the artifact store is full") from full
        raise


def _a_few_at_a_time(work: Callable[[T], None], things: Sequence[T]) -> None:
    """The work is done on each: the disk takes many for little more than one, and a checkpoint has thousands."""

    def some(first: int) -> None:
        for thing in things[first::WRITERS]:
            work(thing)

    if len(things) < WRITERS:
        for thing in things:
            work(thing)
        return
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(some, range(WRITERS)))


def append(upload: UUID, number: int, offset: int, chunks: Iterator[bytes], limit: int) -> int:
    """The file has grown from ``offset``; returns its size. Bytes past ``limit`` are refused with ValueError."""
    path = part(upload, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(offset)
            file.truncate()
            size = offset
            for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise ValueError(f"the file was announced with {limit} bytes, more came")
                file.write(chunk)
            return size
    except OSError as full:
        if full.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace("the artifact store is full") from full
        raise


def linked(upload: UUID, number: int, source: Path) -> Path:
    """The file of the upload is ``source`` itself under a second name; OSError when the file system can't do that."""
    path = part(upload, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.hardlink_to(source)
    return path


@contextlib.contextmanager
def alone_with(upload: UUID) -> Iterator[bool]:
    """Whether no other process has entered this for the upload; none can meanwhile."""
    folder = part(upload, 0).parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def room() -> int:
    """So many bytes can be stored before the directory's file system counts as full; below zero when it does."""
    return shutil.disk_usage(made()).free - LEAST_FREE


def made() -> Path:
    """The artifact directory, which is there."""
    settings.ARTIFACT_DIR.mkdir(parents=True, exist_ok=True)
    return Path(settings.ARTIFACT_DIR)


def digest(path: Path) -> str:
    """The sha256 of the file in hex, streamed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def publish(upload: UUID, files: Mapping[int, str], *, anew: Collection[str] = ()) -> None:
    """The received files are blobs, by number -> sha256 (checked before by the caller): durable and read-only.

    A blob that is there already stays, but one of another size, and those ``anew``, which are damaged: these are
    replaced.
    """
    _a_few_at_a_time(_write_out, [part(upload, number) for number in files])
    folders: dict[Path, None] = {}
    for number, sha256 in files.items():
        target = blob(sha256)
        if target.parent not in folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            folders[target.parent] = None
        received = part(upload, number)
        if sha256 in anew or _size(target) not in (None, received.stat().st_size):
            fresh = received.with_name(f"{number}.anew")
            fresh.unlink(missing_ok=True)
            fresh.hardlink_to(received)
            fresh.replace(target)
        else:
            with contextlib.suppress(FileExistsError):
                target.hardlink_to(received)
    _a_few_at_a_time(_write_names_out, list(folders))


def _write_out(source: Path) -> None:
    file = os.open(source, os.O_RDONLY | os.O_CREAT, 0o644)  # an empty file was never sent
    try:
        os.fchmod(file, 0o444)
        os.fsync(file)
    finally:
        os.close(file)


def _write_names_out(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def forget(upload: UUID) -> None:
    """What the upload left on its way is gone."""
    shutil.rmtree(part(upload, 0).parent, ignore_errors=True)


def open_blob(sha256: str) -> BinaryIO:
    """The blob's bytes; FileNotFoundError when they are missing."""
    return blob(sha256).open("rb")


def tensors_of(path: Path) -> dict[str, list[object]]:
    """``{name: [dtype, [shape]]}`` of a safetensors file, from its header alone; CorruptModel says what is wrong."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            return {name: _row(file.get_slice(name)) for name in file.keys()}  # noqa: SIM118  no mapping
    except (SafetensorError, OSError, ValueError) as wrong:
        raise CorruptModel(str(wrong)[:300]) from wrong


def _row(piece: object) -> list[object]:
    return [piece.get_dtype(), list(piece.get_shape())]  # type: ignore[attr-defined]


@contextlib.contextmanager
def nothing_collected() -> Iterator[None]:
    """Meanwhile no blob goes: one that was seen to be there can be relied on until a row says so."""
    with _lock_file() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def collecting() -> Iterator[bool]:
    """Whether blobs may go meanwhile: False, and nothing is locked, while somebody relies on them."""
    with _lock_file() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextlib.contextmanager
def verifying() -> Iterator[bool]:
    """Whether nobody else reads the whole store; nobody can begin to meanwhile."""
    with (made() / "verification.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _lock_file() -> BinaryIO:
    return (made() / "collection.lock").open("ab")


def blobs() -> dict[str, int]:
    """Every blob that is stored, with its size in bytes."""
    found: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError):
        for folder in os.scandir(settings.ARTIFACT_DIR / "objects"):
            with os.scandir(folder) as files:
                found |= {folder.name + file.name: file.stat().st_size for file in files}
    return found


def remove_blob(sha256: str) -> None:
    """The blob is not there any more."""
    blob(sha256).unlink(missing_ok=True)


def store_name() -> str | None:
    """By what name the directory's database knows it; None before it was given one."""
    with contextlib.suppress(FileNotFoundError):
        return (settings.ARTIFACT_DIR / NAME).read_text().strip() or None
    return None


def name_store(name: str) -> None:
    """The directory has that name from now on."""
    settings.ARTIFACT_DIR.mkdir(parents=True, exist_ok=True)
    (settings.ARTIFACT_DIR / NAME).write_text(f"{name}\n")
