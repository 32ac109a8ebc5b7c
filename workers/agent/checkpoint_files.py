"""Which files make up a job's checkpoint, and how they are kept still while they are read."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from workers.agent.contract import COMMAND
from workers.agent.transfer import TransferFailed
from workers.agent.tree import files_below
from workers.protocol import UnsafePath, check_path, spelled

# A framework's own sign that a directory is half-written.
INCOMPLETE_MARK = "checkpoint-is-incomplete.txt"


def chosen(root: Path, *, kind: str, clean: bool, declared: str | None) -> dict[str, str]:
    """The files below ``root`` that a later run may resume from: the name of each -> where its bytes lie below it.

    All of it after an end in order. Else what the job last declared complete; and of a job that never declared
    anything (``declared`` None) whatever is not known to be half-written. A job that declared its whole directory
    and did not end in order has changed it since: what was taken of it then counts.
    """
    if not clean and declared == ".":
        return {}
    try:
        if clean:
            return files_below(root)
        if declared is not None:
            return declared_files(root, declared)
        return {name: real for name, real in files_below(root).items() if _complete(root, name, kind)}
    except TransferFailed as problem:
        if problem.gone:
            return {}
        raise


def declared_files(root: Path, declared: str) -> dict[str, str]:
    """The files of the checkpoint at ``declared`` below ``root`` (``.``: all), as :func:`chosen` has them."""
    if declared == ".":
        return files_below(root)
    try:
        place = check_path(declared.rstrip("/"))
    except UnsafePath as problem:
        raise TransferFailed(f"checkpoint: {problem}; it is relative to EMEP_CHECKPOINT_DIR") from problem
    found = files_below(root, place)
    folder = place if (root / place).is_dir() else place.rpartition("/")[0]
    return {f"{folder}/{name}" if folder else name: real for name, real in found.items()}


def held_still(root: Path, files: Mapping[str, str], into: Path) -> dict[str, Path]:
    """The files as they are now, under ``into``: the job may replace or remove its own while these are read.

    ``files`` is the name of each -> where it lies below ``root``; ``into`` must be out of the job's reach. Raises
    :class:`TransferFailed` when one is gone, or is not the job's own regular file any more: a job that runs can put a
    link in the place of a file, or of a directory on the way to it, after it was looked at.
    """
    shutil.rmtree(into, ignore_errors=True)
    owner = root.lstat().st_uid
    found: dict[str, Path] = {}
    try:
        for name, real in files.items():
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _same(root, real, target, owner)
            found[name] = target
    except OSError as problem:
        words = f"it changed while it was read: {problem.strerror}; keep it until the next is announced"
        raise TransferFailed(words, gone=True) from problem
    return found


def _same(root: Path, real: str, target: Path, owner: int) -> None:
    *folders, last = real.split("/")
    with _folder(root, folders) as folder:
        try:
            os.link(last, target, src_dir_fd=folder, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            _copy(last, folder, target, owner)
        else:
            _check(target.lstat(), last, owner)


@contextlib.contextmanager
def _folder(root: Path, folders: list[str]) -> Iterator[int]:
    """The directory, opened step by step so that no link on the way to it is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(root, flags)
    try:
        for folder in folders:
            below = os.open(folder, flags, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _copy(name: str, folder: int, target: Path, owner: int) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(handle, "rb") as data, target.open("wb") as out:
        _check(os.fstat(handle), name, owner)
        shutil.copyfileobj(data, out)


def _check(found: os.stat_result, name: str, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        raise TransferFailed(f"{spelled(name)} is no regular file of the job's own; write the file itself")


def _complete(root: Path, name: str, kind: str) -> bool:
    """Not a temporary file, nor in a directory marked as half-written.

    A merge's ``.part`` has a journal that says how much of it is true; another's is just half a file.
    """
    endings = (".tmp", ".part") if kind == COMMAND else (".tmp",)
    if any(part.endswith(endings) for part in name.split("/")):
        return False
    folder = (root / name).parent
    while folder != root.parent:
        if (folder / INCOMPLETE_MARK).exists():
            return False
        folder = folder.parent
    return True
