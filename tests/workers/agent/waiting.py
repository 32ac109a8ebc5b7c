"""Waiting for a condition of real processes, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workers.agent.cgroup import Cgroups
from workers.agent.statedir import StateDir, read_json

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, timeout_s: float = 30.0) -> T:
    """The first true value of ``condition``; fails with ``what`` when there is none in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {timeout_s} s in vain for: {what}")


def forget_groups(state: StateDir) -> None:
    """Where this machine gives a keeper control groups, none is left of one that was killed with its jobs."""
    where = (read_json(state.keeper_file) or {}).get("cgroup")
    left = Cgroups(Path(where), state.root).left() if where else {}
    for group in left.values():
        group.kill()
        until(group.remove, f"the end of all in {group.path}")
