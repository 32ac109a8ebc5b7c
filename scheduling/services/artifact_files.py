"""Where artifact bytes lie on local disk: blobs by sha256, published by link, never rewritten."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from safetensors import SafetensorError, safe_open

CHUNK = 1024 * 1024
LEAST_FREE = 64 * CHUNK


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
    return settings.ARTIFACT_DIR / "objects" / sha256[:2] / sha256[2:]


def blob_size(sha256: str) -> int | None:
    """The size of a blob in bytes; None when it is not there."""
    path = blob(sha256)
    return path.stat().st_size if path.exists() else None


def part(upload: UUID, number: int) -> Path:
    """The path of the ``number``-th file of an upload on its way."""
    return settings.ARTIFACT_DIR / "uploads" / str(upload) / str(number)


def part_size(upload: UUID, number: int) -> int:
    """Bytes received so far of that file."""
    path = part(upload, number)
    return path.stat().st_size if path.exists() else 0


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


def digest(path: Path) -> str:
    """The sha256 of the file in hex, streamed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def publish(upload: UUID, number: int, sha256: str) -> None:
    """The received file is the blob ``sha256`` (checked before by the caller), durable and read-only."""
    source, target = part(upload, number), blob(sha256)
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.touch()  # an empty file was never sent
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file:
        os.fsync(file.fileno())
    source.chmod(0o444)
    if not target.exists():
        with contextlib.suppress(FileExistsError):
            target.hardlink_to(source)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
