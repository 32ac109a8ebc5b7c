"""A directory that can be full."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

NEW_MOUNTS = 0x00020000  # CLONE_NEWNS


def own_mounts() -> bool:
    """Whether this process and its children now have mounts of their own, which go with them; only root may.

    To be called before any thread is started: a thread would keep the mounts of before.
    """
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS) != 0:
        return False
    apart = ["mount", "--make-rprivate", "/"]
    return subprocess.run(apart, check=False, capture_output=True).returncode == 0


class Disk:
    """A directory with a file system of its own where that could be mounted (``own``); else an ordinary one."""

    def __init__(self, path: Path, size: str, *, mounts: bool) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(path)]
        self.own = mounts and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self._filling = path / "filling"

    def fill(self) -> None:
        """Not one byte more can be written."""
        for piece in (2**20, 512):
            with contextlib.suppress(OSError), self._filling.open("ab", buffering=0) as out:
                while True:
                    out.write(bytes(piece))

    def empty(self) -> None:
        """There is room again."""
        self._filling.unlink(missing_ok=True)

    def close(self) -> None:
        """It is unmounted, with all that was on it."""
        if self.own:
            subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
