"""Can each job have a control group, and a memory limit, as the settings want it? Asked at the start and by --check."""

from __future__ import annotations

from pathlib import Path

from workers.agent.cgroup import AUTO, OFF, CgroupError, open_cgroups
from workers.agent.processes import Processes
from workers.agent.settings import Settings
from workers.agent.statedir import StateDir, read_json

WITHOUT = "a job's end is proved by its process group, sessions and descendants"


def cgroup_check(settings: Settings) -> tuple[str, str]:
    """``(wrong, words)``: what is wrong, empty when nothing is; and what there is, in words.

    A keeper that somebody else starts finds out by itself; one that runs already is asked for what it has.
    """
    limit = settings.job_memory_bytes
    wrong, words = "", "the affair of the keeper, which somebody else starts"
    if settings.keeper == "start":
        wrong, words = can_limit(settings.cgroup, StateDir(settings.state).root, limit)
    if wrong or not limit:
        return wrong, words
    state = StateDir(settings.state)
    if Processes(state).keeper_alive() and not (read_json(state.keeper_file) or {}).get("cgroup"):
        return (
            "job_memory_bytes: the keeper that runs here has no cgroups, so it can't be enforced: drain the node, stop "
            "the keeper, and start again"
        ), ""
    return "", words


def can_limit(setting: str, state: Path, memory_bytes: int) -> tuple[str, str]:
    """The same for a keeper that would be started now. A limit together with ``off`` is refused before."""
    try:
        groups = open_cgroups(setting, state)
    except CgroupError as problem:
        if setting != AUTO:
            return f"cgroup: {problem}", ""
        if memory_bytes:
            return f"job_memory_bytes: it can't be enforced: {problem}", ""
        return "", f"none ({problem}); {WITHOUT}"
    if groups is None:
        return "", f"{OFF}; {WITHOUT}"
    try:
        groups.give_memory()
    except CgroupError as problem:
        if memory_bytes:
            return f"job_memory_bytes: it can't be enforced: {problem}", ""
        return "", f"one for each job in {groups.parent}; no memory limit is possible ({problem})"
    limit = f"each job gets {memory_bytes} bytes of memory" if memory_bytes else "no memory limit is set"
    return "", f"one for each job in {groups.parent}; {limit}"
