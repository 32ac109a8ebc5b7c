"""What a keeper leaves behind when it dies, and how the next one ends it. Standard library only: it is the keeper's."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.agent import proctable
from workers.agent.cgroup import Cgroups, JobCgroup
from workers.agent.statedir import StateDir, read_json

KILL_POLL_S = 0.02
GUARD_KILL_S = 3.0


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that ran under a dead keeper: which processes were killed, and which could not be."""

    directory: Path
    killed: frozenset[int]
    alive: frozenset[int]


def marker_of(directory: Path) -> bytes:
    """The environment entry that every process of the attempt in ``directory`` was started with."""
    return b"EMEP_EVENTS=" + os.fsencode(directory / "events.jsonl")


def kill(pids: set[int], group: JobCgroup | None) -> None:
    """SIGKILL to each of ``pids``, and to all that is in ``group`` if there are any."""
    if pids and group is not None:
        group.kill()
    for pid in pids:
        if pid > 0:  # 0 stands for a process without a pid here, and would be our own process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def swept(
    state: StateDir, *, boot: str, cgroups: Cgroups | None, clock: Callable[[], float]
) -> Iterator[Lost]:  # fmt: skip
    """Every process of a keeper before this one is killed, and its control groups are gone where that worked.

    Yields the attempts that had a process and have no status yet.
    """
    table = proctable.scan()
    groups = _groups_left(state, cgroups)
    for directory in sorted(state.attempts.iterdir()):
        if (directory / "status.json").exists() or not (directory / "exec.json").exists():
            continue
        born, group = read_json(directory / "pid.json"), groups.get(directory.name)
        left = _of(directory, born, table, boot) | _inside(group)
        alive = _end(left, group, clock)
        if born is not None:
            yield Lost(directory, frozenset(left), frozenset(alive))
    for group in groups.values():
        _end(group.pids(), group, clock)
        group.remove()


def _of(directory: Path, born: dict[str, Any] | None, table: dict[int, proctable.Proc], boot: str) -> set[int]:
    """The processes of the attempt, by their mark and by its leader's session."""
    marker = marker_of(directory)
    left = {pid for pid in table if proctable.has_marker(pid, marker)}
    if born is None or born.get("boot_id") != boot:
        return left
    leader = table.get(born["pid"])
    if leader is not None and leader.start != born["start"]:
        return left  # its pid was given to somebody else
    return left | {p.pid for p in table.values() if p.session == born["pid"] and p.start >= born["start"]}


def _groups_left(state: StateDir, cgroups: Cgroups | None) -> dict[str, JobCgroup]:
    """The control groups of a keeper before this one, wherever it had them, by job."""
    was = (read_json(state.keeper_file) or {}).get("cgroup")
    found = Cgroups(Path(was), state.root).left() if was else {}
    return {**found, **(cgroups.left() if cgroups is not None else {})}


def _inside(group: JobCgroup | None) -> set[int]:
    return group.pids() if group is not None else set()


def _end(pids: set[int], group: JobCgroup | None, clock: Callable[[], float]) -> set[int]:
    """Kill processes that are not our children until they are gone, for a few seconds; those still there then."""
    until = clock() + GUARD_KILL_S
    while pids and clock() < until:
        kill(pids, group)
        time.sleep(KILL_POLL_S)
        pids = {pid for pid in pids if pid and proctable.read_proc(pid) is not None} | _inside(group)
    return pids
