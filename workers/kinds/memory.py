"""How much memory may this job still take? Its control groups tell (version 2); of other limits nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

OWN = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def room(own: Path = OWN, root: Path = ROOT) -> int | None:
    """Bytes by the tightest limit of the groups that this process is in; None where none limits it.

    Only what can't be given back counts as taken: pages of files can.
    """
    try:
        line = next(line for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    inside = [part for part in line.removeprefix("0::").split("/") if part]
    groups = [root.joinpath(*inside[:depth]) for depth in range(len(inside) + 1)]
    rooms = [free for group in groups if (free := _free(group)) is not None]
    return max(min(rooms), 0) if rooms else None


def fitting(estimate: Callable[[int], int], workers: int, free: int | None) -> int:
    """How many of so many workers have room at once; 0 if not even one has. ``estimate``: bytes that they take."""
    return next((n for n in range(workers, 0, -1) if free is None or estimate(n) <= free), 0)


def _free(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        if not limit.isdecimal():  # "max"
            return None
        stat = dict(row.split() for row in (group / "memory.stat").read_text().splitlines())
        return int(limit) - int(stat.get("anon", 0))
    except (OSError, ValueError):
        return None
