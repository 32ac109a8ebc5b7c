"""A short name for a job's private temporary directory.

A Unix socket's path has 107 bytes at most, and DataLoader workers put theirs into ``TMPDIR`` under a name of 33: in an
attempt's own directory, deep in the node's state, it would not fit. The bytes stay there; only the name is short.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

BASE = Path("/tmp")  # noqa: S108  not tempfile's choice: the agent's own TMPDIR may be as deep as the attempt


def _link(target: Path) -> Path:
    return BASE / f"emep-{hashlib.sha256(bytes(target.absolute())).hexdigest()[:12]}"


def make(target: Path) -> None:
    """``target`` has a short name, if one could be made; a link of that name to elsewhere is left alone."""
    with contextlib.suppress(OSError):
        _link(target).symlink_to(target.absolute())


def short(target: Path) -> Path:
    """The short name of ``target``; itself where it has none."""
    link = _link(target)
    with contextlib.suppress(OSError):
        if link.readlink() == target.absolute():
            return link
    return target


def remove(target: Path) -> None:
    """``target`` has no short name any more."""
    link = short(target)
    if link != target:
        link.unlink(missing_ok=True)
