"""A job's process is born in a control group of its own, where there is one. Standard library only (the keeper's)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workers.agent.cgroup import CgroupError, Cgroups, JobCgroup
from workers.agent.spawn import CannotJoin, CannotRun, ExecSpec, spawn


class CannotLimit(Exception):
    """The job must not run here: its memory is to be limited, and can't be. The text says why."""


@dataclass(frozen=True, slots=True)
class Started:
    """The leader's ``pid``; ``group`` None: it runs in its keeper's group, because of ``trouble`` if that has words."""

    pid: int
    group: JobCgroup | None = None
    trouble: str = ""


def start(spec: ExecSpec, output: Path, *, job: str, cgroups: Cgroups | None) -> Started:
    """``spec`` runs, in a group of its own if that can be made; see :func:`spawn`.

    Raises :class:`CannotRun`, or :class:`CannotLimit` when its memory is to be limited and there is no such group.
    """
    trouble = "its keeper runs without cgroups; restart it (jobs end with it), or set cgroup"
    if cgroups is not None:
        try:
            group = cgroups.create(job, memory_bytes=spec.memory_bytes)
            try:
                return Started(spawn(spec, output, join=group.procs), group)
            except CannotRun:
                group.remove()
                raise
        except (CgroupError, CannotJoin) as problem:
            trouble = str(problem)
    if spec.memory_bytes:
        raise CannotLimit(f"the node's limit on a job's memory (job_memory_bytes) can't be enforced: {trouble}")
    return Started(spawn(spec, output), None, trouble if cgroups is not None else "")
