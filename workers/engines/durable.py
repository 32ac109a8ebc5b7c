"""Bytes that stay: written whole or not at all, and on the disk before anybody is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.engines.refusals import EngineRefusal

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named_when_full(path: Path, wanted: int) -> Iterator[None]:
    """Turns "disk full", "quota used up" and "file too large" into the refusal ``no_space``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise EngineRefusal(
            "no_space",
            f"no room for {path.name} ({wanted} bytes): {os.strerror(error.errno)}; free space and run it again",
            {"file": path.name, "bytes": wanted},
        ) from error


def sync_directory(directory: Path) -> None:
    """Renames and new names in ``directory`` survive a power cut afterwards."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, view: memoryview, offset: int) -> None:
    """All of ``view`` at ``offset``, however little each write takes."""
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def write_file(path: Path, content: bytes) -> None:
    """``path`` holds ``content``, atomically and on the disk; its directory exists."""
    beside = path.with_name(f".{path.name}.tmp")
    with named_when_full(path, len(content)):
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_directory(path.parent)
