"""Which files lie in a job's own directory? A symbolic link is followed as far as it stays inside it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from workers.agent.transfer import TransferFailed
from workers.protocol import MAX_PATH, UnsafePath, check_path, spelled

MAX_ENTRIES = 100_000
# As many links in one path as the kernel follows.
MAX_LINKS = 40


def files_below(root: Path, place: str = ".") -> dict[str, str]:
    """The files of ``place`` in ``root``: the name below ``place`` -> where it lies below ``root``, without any link.

    A single file has its own name. Raises :class:`TransferFailed`, with what to do, on a link that leads out of
    ``root``, to nothing or in a circle, on what is no file or can't be read, and on a name no artifact can have;
    with ``gone`` where there is no such place.
    """
    try:
        if stat.S_ISLNK(root.lstat().st_mode):
            raise TransferFailed(f"{spelled(root.name)} is a symbolic link; leave the directory in its place")
        real = _real(root, place)
        if stat.S_ISDIR((root / real).lstat().st_mode):
            return _of_directory(root, real, before="" if place == "." else f"{place}/")
        _look(root, real, place)
        return {place.rsplit("/", 1)[-1]: real}
    except OSError as problem:
        shown = spelled(os.path.relpath(os.fsdecode(problem.filename or root), root))
        if isinstance(problem, FileNotFoundError | NotADirectoryError):
            raise TransferFailed(
                f"there is no {shown}; what is announced must be there, and stay", gone=True
            ) from problem
        raise TransferFailed(f"{shown} can't be read ({problem.strerror}); make it readable for its owner") from problem


def _of_directory(root: Path, real: str, *, before: str) -> dict[str, str]:
    """All files below the directory at ``real``, by their names below it; in words with ``before`` in front."""
    found: dict[str, str] = {}
    entries = 0
    todo: list[tuple[str, str, frozenset[tuple[int, int]]]] = [(real, "", frozenset())]
    while todo:
        where, shown, within = todo.pop()
        about = (root / where).lstat()
        me = (about.st_dev, about.st_ino)
        if me in within:
            raise TransferFailed(
                f"{spelled(before + shown)} is a symbolic link to a directory that it lies in; remove it"
            )
        with os.scandir(root / where) as listing:
            names = sorted((entry.name for entry in listing), reverse=True)
        entries += len(names)
        if entries > MAX_ENTRIES:
            raise TransferFailed(f"more than {MAX_ENTRIES} files and directories; write fewer, larger files")
        for name in names:
            path = f"{shown}/{name}" if shown else name
            target = _real(root, name, start=where, shown=before + path)
            if stat.S_ISDIR((root / target).lstat().st_mode):
                if len(os.fsencode(path)) > MAX_PATH:
                    raise TransferFailed(
                        f"{spelled(before + path)}: a path longer than {MAX_PATH} bytes; use shorter names"
                    )
                todo.append((target, path, within | {me}))
            else:
                _look(root, target, before + path)
                found[path] = target
    return dict(sorted(found.items()))


def _look(root: Path, real: str, shown: str) -> None:
    try:
        check_path(shown)
    except UnsafePath as problem:
        raise TransferFailed(f"{problem}; rename it") from problem
    if not stat.S_ISREG((root / real).lstat().st_mode):
        raise TransferFailed(f"{spelled(shown)} is neither a file nor a directory; remove it or write a file")
    os.close(os.open(root / real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def _real(root: Path, path: str, *, start: str = ".", shown: str = "") -> str:
    """Where ``path`` from ``start`` leads, below ``root``, with every link in it followed by hand and none left."""
    at = [part for part in start.split("/") if part != "."]
    todo = path.split("/")[::-1]
    links = 0
    word = f"{spelled(shown or path)} is a symbolic link"
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                raise TransferFailed(f"{word} that leads out of the job's directory; write the file itself")
            at.pop()
            continue
        here = root.joinpath(*at, part)
        try:
            target = str(here.readlink())
        except OSError as problem:
            if problem.errno == errno.EINVAL:  # no link
                at.append(part)
                continue
            if links and problem.errno in (errno.ENOENT, errno.ENOTDIR):
                raise TransferFailed(f"{word} to nothing; remove it or write the file itself") from problem
            raise
        links += 1
        if links > MAX_LINKS:
            raise TransferFailed(f"{word} that leads in a circle; write the file itself")
        if target.startswith("/"):
            starts = [path + "/" for path in (os.path.normpath(root), os.path.realpath(root))]
            inside = next((start for start in starts if (target + "/").startswith(start)), None)
            if inside is None:
                raise TransferFailed(f"{word} that leads out of the job's directory; write the file itself")
            at, target = [], target[len(inside) :]
        todo += target.split("/")[::-1]
    return "/".join(at) or "."
