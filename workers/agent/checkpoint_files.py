"""Which files make up a job's checkpoint, and how they are kept still while they are read."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from workers.agent.contract import COMMAND
from workers.agent.transfer import TransferFailed, walk
from workers.protocol import UnsafePath, check_path

# A framework's own sign that a directory is half-written.
INCOMPLETE_MARK = "checkpoint-is-incomplete.txt"


def chosen(root: Path, *, kind: str, clean: bool, declared: str | None) -> list[str]:
    """The files below ``root`` that a later run may resume from.

    All of it after an end in order. Else what the job last declared complete; and of a job that never declared
    anything (``declared`` None) whatever is not known to be half-written. A job that declared its whole directory
    and did not end in order has changed it since: what was taken of it then counts.
    """
    if clean:
        return walk(root)
    if declared is None:
        return [name for name in walk(root) if _complete(root, name, kind)]
    return declared_files(root, declared) if declared != "." else []


def declared_files(root: Path, declared: str) -> list[str]:
    """The files of the checkpoint at ``declared`` below ``root`` (``.``: all); none when there is no such place."""
    try:
        place = root if declared == "." else root / check_path(declared.rstrip("/"))
    except UnsafePath as problem:
        raise TransferFailed(f"checkpoint: path {problem}; it is relative to EMEP_CHECKPOINT_DIR") from problem
    if not place.exists():
        return []
    base = place.parent if place.is_file() else place
    return sorted(str((base / name).relative_to(root)) for name in walk(place))


def held_still(root: Path, names: list[str], into: Path) -> dict[str, Path]:
    """The files as they are now, under ``into``: the job may replace or remove its own while these are read.

    ``into`` must be out of the job's reach. Raises :class:`TransferFailed` when one is gone, or is not the job's own
    regular file any more: a job that runs can put a link in a file's place after it was looked at.
    """
    shutil.rmtree(into, ignore_errors=True)
    owner = root.lstat().st_uid
    found: dict[str, Path] = {}
    try:
        for name in names:
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _same(root / name, target, owner)
            found[name] = target
    except OSError as problem:
        raise TransferFailed(f"checkpoint: it changed while it was read: {problem}") from problem
    return found


def _same(source: Path, target: Path, owner: int) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        _copy(source, target, owner)
    else:
        _check(target.lstat(), source, owner)


def _copy(source: Path, target: Path, owner: int) -> None:
    handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as data, target.open("wb") as out:
        _check(os.fstat(handle), source, owner)
        shutil.copyfileobj(data, out)


def _check(found: os.stat_result, source: Path, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        raise TransferFailed(f"checkpoint: {source.name!r:.80} is no regular file of the job's own")


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
