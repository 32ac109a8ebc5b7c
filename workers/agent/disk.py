"""What a job takes of the disk, and how its log is kept from taking more. Sizes are bytes really allocated."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02
BLOCK = 4096
_STAT_UNIT = 512  # st_blocks counts these, whatever the file system's own blocks are


def allocated(path: Path, counted: set[tuple[int, int]] | None = None) -> int:
    """The bytes that ``path`` takes on its disk: the file, or all below the directory; what vanishes counts as 0.

    A file with several names counts once, and not at all if it is among the ``counted``, to which it is added.
    """
    counted = set() if counted is None else counted
    total = 0
    try:
        total += _new(os.lstat(path), counted)
        entries = list(os.scandir(path)) if path.is_dir() and not path.is_symlink() else []
    except OSError:
        return total
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                total += allocated(Path(entry.path), counted)
            else:
                total += _new(entry.stat(follow_symlinks=False), counted)
    return total


def _new(stat: os.stat_result, counted: set[tuple[int, int]]) -> int:
    """The file's bytes, unless it was counted under another name."""
    if stat.st_nlink > 1:
        if (stat.st_dev, stat.st_ino) in counted:
            return 0
        counted.add((stat.st_dev, stat.st_ino))
    return stat.st_blocks * _STAT_UNIT


def keep_ends(path: Path, *, head: int, tail: int) -> int:
    """Give back the blocks between the first ``head`` and the last ``tail`` bytes of a file somebody appends to.

    Its length and every offset stay; what lay between reads as zeros. Returns the bytes given back: 0 where the file
    is short, or the file system can't punch holes (then the file counts in full toward the job's disk).
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        before = os.fstat(handle)
        first = -(-head // BLOCK) * BLOCK
        length = (before.st_size - tail) // BLOCK * BLOCK - first
        if length <= 0 or before.st_blocks * _STAT_UNIT <= head + tail + 2 * BLOCK:
            return 0
        if _LIBC.fallocate(handle, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_long(first), ctypes.c_long(length)) != 0:
            return 0
        return max(0, (before.st_blocks - os.fstat(handle).st_blocks) * _STAT_UNIT)
    finally:
        os.close(handle)
