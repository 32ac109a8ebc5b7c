"""Artifact bytes: uploads on their way lie in the artifact directory, what is stored is in the store of blobs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings

from scheduling.services import blobs_in_directory
from scheduling.services.blob_store import NAME as NAME
from scheduling.services.blob_store import CorruptModel as CorruptModel
from scheduling.services.blob_store import NoSpace as NoSpace
from scheduling.services.blob_store import StoreAway as StoreAway
from scheduling.services.blob_store import StoreRefused as StoreRefused
from scheduling.services.blob_store import Words, a_few_at_a_time, store
from scheduling.services.blob_store import tensors_of as tensors_of

CHUNK = 1024 * 1024


def check_store() -> None:
    """StoreAway says why the store of blobs can't be used and what to do."""
    store().check()


def can_store() -> bool:
    """Whether a checkpoint could be stored now: the directory can be written and is not full (D31), and the store takes
    blobs."""
    return blobs_in_directory.can_write() and store().can_store()


def is_local() -> bool:
    """Whether blobs are kept in the artifact directory itself."""
    return isinstance(store(), blobs_in_directory.Directory)


def words() -> Words:
    """How the store of blobs is spoken of."""
    return store().words()


def blob(sha256: str) -> Path:
    """The path of a blob in the artifact directory, there or not."""
    return blobs_in_directory.path_of(sha256)


def blob_size(sha256: str) -> int | None:
    """The size of a blob in bytes; None when it is not there."""
    return blob_sizes([sha256]).get(sha256)


def blob_sizes(digests: Collection[str]) -> dict[str, int]:
    """The size in bytes of each of these blobs that is there."""
    return store().sizes(digests)


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
        a_few_at_a_time(write, list(files))
    except OSError as full:
        if full.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace("the artifact store is full") from full
        raise


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
def alone_with(upload: UUID, lock_name: str = "lock") -> Iterator[bool]:
    """Whether nobody else has entered this for the upload; nobody can meanwhile."""
    folder = part(upload, 0).parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / lock_name).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def room() -> int:
    """So many bytes can be stored before the directory's file system counts as full; below zero when it does."""
    return shutil.disk_usage(made()).free - blobs_in_directory.LEAST_FREE


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
    store().keep([(part(upload, number), sha256) for number, sha256 in files.items()], anew=anew)


def forget(upload: UUID) -> None:
    """What the upload left on its way is gone."""
    shutil.rmtree(part(upload, 0).parent, ignore_errors=True)


def open_blob(sha256: str) -> BinaryIO:
    """The blob's bytes; FileNotFoundError when they are missing, StoreAway when that can't be told."""
    return store().opened(sha256)


def tensors_of_blob(sha256: str) -> dict[str, list[object]]:
    """``{name: [dtype, [shape]]}`` of a blob of safetensors; CorruptModel says what is wrong with it."""
    return store().tensors(sha256)


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
    return store().all()


def remove_blobs(digests: Collection[str]) -> None:
    """These blobs are not there any more."""
    store().remove(digests)


def remove_blob(sha256: str) -> None:
    """The blob is not there any more."""
    remove_blobs([sha256])


def store_name() -> str | None:
    """By what name the store's database knows it; None before it was given one."""
    return store().name()


def name_store(name: str) -> None:
    """The store has that name from now on."""
    store().give_name(name)


def tidy_store(*, older_than_s: float) -> int:
    """What was begun to be stored longer ago and never ended is gone from the store; returns how many."""
    return store().tidy(older_than_s=older_than_s)
