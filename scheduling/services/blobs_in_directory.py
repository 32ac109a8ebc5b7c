"""Blobs on local disk, by sha256: published by link, durable and read-only, never rewritten."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from scheduling.services.blob_store import NAME, Words, a_few_at_a_time, tensors_of

LEAST_FREE = 64 * 1024 * 1024


def path_of(sha256: str) -> Path:
    """The path of a blob, there or not."""
    return Path(f"{settings.ARTIFACT_DIR}/objects/{sha256[:2]}/{sha256[2:]}")


def can_write() -> bool:
    """Whether the artifact directory can be written and its file system is not full."""
    try:
        settings.ARTIFACT_DIR.mkdir(parents=True, exist_ok=True)
        return os.access(settings.ARTIFACT_DIR, os.W_OK) and shutil.disk_usage(settings.ARTIFACT_DIR).free >= LEAST_FREE
    except OSError:
        return False


class Directory:
    """The artifact directory (EMEP_ARTIFACT_DIR)."""

    def words(self) -> Words:
        """How it is spoken of."""
        return Words(
            f"artifact directory {settings.ARTIFACT_DIR}", "is it mounted?", f"the file {NAME} in it",
            "a directory of its own (EMEP_ARTIFACT_DIR)",
        )  # fmt: skip

    def can_store(self) -> bool:
        """Whether the directory can be written and its file system is not full."""
        return can_write()

    def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """The size in bytes of each of these blobs that is there."""
        found = {sha256: _size(path_of(sha256)) for sha256 in digests}
        return {sha256: size for sha256, size in found.items() if size is not None}

    def opened(self, sha256: str) -> BinaryIO:
        """The blob's bytes; FileNotFoundError when it is not there."""
        return path_of(sha256).open("rb")

    def tensors(self, sha256: str) -> dict[str, list[object]]:
        """``{name: [dtype, [shape]]}`` of a blob of safetensors; CorruptModel says what is wrong with it."""
        return tensors_of(path_of(sha256))

    def keep(self, files: Sequence[tuple[Path, str]], *, anew: Collection[str] = ()) -> None:
        """The files, which lie on the same file system, are blobs; see :class:`BlobStore`."""
        a_few_at_a_time(_write_out, [received for received, _ in files])
        folders: dict[Path, None] = {}
        for received, sha256 in files:
            target = path_of(sha256)
            if target.parent not in folders:
                target.parent.mkdir(parents=True, exist_ok=True)
                folders[target.parent] = None
            if sha256 in anew or _size(target) not in (None, received.stat().st_size):
                fresh = received.with_name(f"{received.name}.anew")
                fresh.unlink(missing_ok=True)
                fresh.hardlink_to(received)
                fresh.replace(target)
            else:
                with contextlib.suppress(FileExistsError):
                    target.hardlink_to(received)
        a_few_at_a_time(_write_names_out, list(folders))

    def all(self) -> dict[str, int]:
        """Every blob that is there, with its size in bytes."""
        found: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            for folder in os.scandir(settings.ARTIFACT_DIR / "objects"):
                with os.scandir(folder) as files:
                    found |= {folder.name + file.name: file.stat().st_size for file in files}
        return found

    def remove(self, digests: Collection[str]) -> None:
        """These blobs are not there any more."""
        for sha256 in digests:
            path_of(sha256).unlink(missing_ok=True)

    def name(self) -> str | None:
        """By what name the directory's database knows it; None before it was given one."""
        with contextlib.suppress(FileNotFoundError):
            return (settings.ARTIFACT_DIR / NAME).read_text().strip() or None
        return None

    def give_name(self, name: str) -> None:
        """The directory has that name from now on."""
        settings.ARTIFACT_DIR.mkdir(parents=True, exist_ok=True)
        (settings.ARTIFACT_DIR / NAME).write_text(f"{name}\n")

    def tidy(self, *, older_than_s: float) -> int:
        """Nothing is ever left: what is on its way lies with its upload."""
        return 0

    def check(self) -> None:
        """Nothing is refused: a directory that can't be written is told by the board while it can't be."""


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


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
