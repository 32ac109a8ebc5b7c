"""Which processes belong to a job: a look at /proc. Standard library only (the keeper uses it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
WAITS_FOR_DISK = "D"


@dataclass(frozen=True, slots=True)
class Proc:
    """One living process: ``start`` in clock ticks since boot tells it from a later one with the same pid."""

    pid: int
    ppid: int
    pgrp: int
    session: int
    start: int


def read_proc(pid: int) -> Proc | None:
    """The process ``pid``; None when it is gone or only its exit status is left (a zombie holds nothing)."""
    fields = _stat(pid)
    if not fields or fields[0] in ("Z", "X", "x"):
        return None
    return Proc(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def state_of(pid: int) -> str:
    """What the process ``pid`` does, as the kernel's letter (R, S, D, T, Z ...); empty when it is gone."""
    return next(iter(_stat(pid)), "")


def _stat(pid: int) -> list[str]:
    """What the kernel says of the process after its name, which may hold spaces and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def scan() -> dict[int, Proc]:
    """Every living process of this machine, by pid."""
    found = (read_proc(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return {proc.pid: proc for proc in found if proc is not None}


def descendants(table: Mapping[int, Proc], roots: Iterable[int]) -> set[int]:
    """The pids below ``roots`` (which are not included) by parent."""
    children: dict[int, list[int]] = {}
    for proc in table.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def has_marker(pid: int, marker: bytes) -> bool:
    """Whether the environment ``pid`` was started with holds exactly the entry ``marker`` (``NAME=value``)."""
    try:
        return marker in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def members(table: Mapping[int, Proc], *, leader: int, marker: bytes, within: set[int]) -> set[int]:
    """The living processes of the job led by ``leader`` among the pids ``within``.

    A process belongs to the job by its session, its group, an ancestor that belongs, or the environment it was
    started with: a daemon that forked twice and called setsid() is caught by the last, because as the child
    subreaper's child it has lost the first three.
    """
    own = {
        pid
        for pid in within
        if pid == leader or table[pid].session == leader or table[pid].pgrp == leader or has_marker(pid, marker)
    }
    return own | (descendants(table, own) & within)
