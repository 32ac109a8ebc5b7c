"""What came of a simulation: each job's times, what was lost, and the log of everything that happened."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduling.simulation.rejection import Rejection


class Fate(StrEnum):
    """How a job stands at the end of a simulation."""

    FINISHED = "finished"
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"  # lost more often than its budget allows
    EXPIRED = "expired"  # not started by its ``start_by``
    REJECTED = "rejected"  # the pool as installed could never hold it
    NOT_COME = "not come"  # it was to come after the simulation's end


Happening = tuple[int, str, str, tuple[str, ...]]
"""(ms, what, job, GPUs). What: start, finish, evict, saved, lost, fail, expire; with break and repair in place of the
job stands the node or GPU."""


class JobOutcome(NamedTuple):
    """A job's times in ms; None for what has not happened. ``runs_ms``: the work it had to do. ``lost_gpu_ms``: GPU
    time it held without getting on: work done again, restoring, and being saved. ``waited_again_ms``: in the queue
    after it had lost its GPUs, up to its starts; ``resumed``: it has GPUs again, or never lost any. ``because``: why it
    was rejected."""

    id: str
    level: str
    level_value: int
    project: str
    gpus: int
    submitted_ms: int
    runs_ms: int
    fate: Fate
    first_start_ms: int | None = None
    end_ms: int | None = None
    preemptions: int = 0
    faults: int = 0
    lost_gpu_ms: int = 0
    waited_again_ms: int = 0
    resumed: bool = True
    because: Rejection | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that can be told of a simulation. ``jobs`` are in the order they came.

    ``share_error``: see ``ShareMeter``. ``busy_gpu_ms``: GPU time held between the first and the last
    submission, which are ``window_ms`` apart.
    ``gpus``: those of the pool as installed. ``began_ms`` and ``ended_ms``: the first and the last instant.
    """

    jobs: tuple[JobOutcome, ...]
    log: tuple[Happening, ...]
    began_ms: int
    ended_ms: int
    gpus: int
    busy_gpu_ms: int
    window_ms: int
    share_error: float
    cycles: int

    def digest(self) -> str:
        """The sha256 of the log in hex: equal for equal histories, whatever order the input had."""
        return digest_of(self.log)


def digest_of(log: Iterable[Happening]) -> str:
    """The sha256 of a log in hex."""
    whole = hashlib.sha256()
    for ms, what, job, gpus in log:
        whole.update(f"{ms} {what} {job} {' '.join(gpus)}\n".encode())
    return whole.hexdigest()
