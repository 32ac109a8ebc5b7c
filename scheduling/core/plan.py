"""What was decided: actions and reasons as frozen values, with one canonical text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from scheduling.core.lifecycle import JobEvent

Number = int | float | str
Cause = Literal["node_lost", "claim_expired", "ready_expired"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is so: a code for programs, a sentence for people, and the numbers in it."""

    code: str
    message: str
    numbers: tuple[tuple[str, Number], ...] = ()


@dataclass(frozen=True, init=False)
class Start:
    """Grant these GPUs to the job. With ``nvlink_exclusive`` it holds a whole group: the first ``gpu_count`` are its
    own, the rest are held so that nobody else uses them. ``nodes``: its nodes by rank, ``gpus`` in their order."""

    job: str
    gpus: tuple[str, ...]
    nodes: tuple[str, ...]

    # Written out, as is that of ``Plan``: simulations make them by the ten thousands, and the one that a frozen
    # dataclass gets goes through ``object.__setattr__`` for each field.
    def __init__(self, job: str, gpus: tuple[str, ...], nodes: tuple[str, ...]) -> None:
        object.__setattr__(self, "__dict__", {"job": job, "gpus": gpus, "nodes": nodes})

    @property
    def node(self) -> str:
        """The node that leads it."""
        return self.nodes[0]


@dataclass(frozen=True, slots=True)
class LoseNode:
    """Mark the node LOST: its lease ran out. The server last heard of it at ``heard_ms`` (ms since 1970)."""

    node: str
    heard_ms: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """End the parts of this attempt on ``nodes`` as LOST, each for its own of ``causes``.

    With its last part (``whole``) the attempt ends: raise the epoch, free its GPUs, and apply ``event`` to the job,
    which is REQUEUE (``retry``, not before ``backoff_s`` from now), FAIL (the budget is used up) or STOPPED (it was
    being cancelled). Until then its other nodes are told to stop.
    """

    attempt: str
    job: str
    epoch: int
    nodes: tuple[str, ...]
    causes: tuple[Cause, ...]
    whole: bool
    retry: bool
    backoff_s: float
    event: JobEvent


@dataclass(frozen=True, slots=True)
class Hold:
    """The job goes on waiting: why, and its place (from 1) among the jobs that wait on."""

    job: str
    reasons: tuple[Reason, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class Preempt:
    """Ask the victim for a checkpoint within ``grace_s``; ``nominee`` gets GPUs of it."""

    attempt: str
    job: str
    epoch: int
    nominee: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class Nominate:
    """Keep exactly these GPUs, free ones and those of the victims, for the job until ``deadline_ms``.

    ``again``: instead of a plan before, a victim of which did not save in time (D8).
    """

    job: str
    gpus: tuple[str, ...]
    deadline_ms: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Unnominate:
    """The job's nomination ends: it starts elsewhere, or its deadline has passed."""

    job: str


@dataclass(frozen=True, slots=True)
class Expire:
    """The job's ``start_by`` has passed: it leaves the queue."""

    job: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs promised to a waiting job from ``start_ms`` until ``end_ms``, by the ``max_duration`` of what runs."""

    job: str
    start_ms: int
    end_ms: int
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """One ledger's view of a job, in GPU-hours.

    ``consumed_gpu_h`` is what the formula uses; ``in_flight_gpu_h`` is the part of it that running and just planned
    jobs may still use. ``deficit`` = (target - consumed) / target; it and ``score`` are None when the target is 0.
    """

    target_gpu_h: float
    consumed_gpu_h: float
    in_flight_gpu_h: float
    deficit: float | None
    score: float | None


@dataclass(frozen=True, slots=True)
class Scores:
    """The three ledgers of a job; the headline is the project's."""

    queue: Score
    project: Score
    user: Score


@dataclass(frozen=True, init=False)
class Plan:
    """Everything one tick wants done. Equal snapshots give equal plans, whatever order their tuples had.

    ``scores`` has every job that waited, as it was ranked at its start, or at the end of the tick if it waits on.
    ``next_wakeup_ms``: the first instant at which the plan could differ without any new event; None = never.
    """

    now_ms: int
    lose_nodes: tuple[LoseNode, ...] = ()
    reclaims: tuple[Reclaim, ...] = ()
    starts: tuple[Start, ...] = ()
    preempts: tuple[Preempt, ...] = ()
    nominations: tuple[Nominate, ...] = ()
    unnominations: tuple[Unnominate, ...] = ()
    expired: tuple[Expire, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    holds: tuple[Hold, ...] = ()
    scores: Mapping[str, Scores] = field(default_factory=dict)
    next_wakeup_ms: int | None = None
    alarms: tuple[Reason, ...] = ()

    def __init__(
        self,
        now_ms: int,
        *,
        lose_nodes: tuple[LoseNode, ...] = (),
        reclaims: tuple[Reclaim, ...] = (),
        starts: tuple[Start, ...] = (),
        preempts: tuple[Preempt, ...] = (),
        nominations: tuple[Nominate, ...] = (),
        unnominations: tuple[Unnominate, ...] = (),
        expired: tuple[Expire, ...] = (),
        reservations: tuple[Reservation, ...] = (),
        holds: tuple[Hold, ...] = (),
        scores: Mapping[str, Scores] | None = None,
        next_wakeup_ms: int | None = None,
        alarms: tuple[Reason, ...] = (),
    ) -> None:
        fields = {
            "now_ms": now_ms, "lose_nodes": lose_nodes, "reclaims": reclaims, "starts": starts, "preempts": preempts,
            "nominations": nominations, "unnominations": unnominations, "expired": expired,
            "reservations": reservations, "holds": holds, "scores": {} if scores is None else scores,
            "next_wakeup_ms": next_wakeup_ms, "alarms": alarms,
        }  # fmt: skip
        object.__setattr__(self, "__dict__", fields)

    def to_json(self) -> str:
        """The plan as canonical JSON: sorted keys, no spaces, so equal plans are equal byte for byte."""
        return json.dumps(_plain(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    def digest(self) -> str:
        """The sha256 of :meth:`to_json` in hex."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def _plain(plan: Plan) -> dict[str, Any]:
    return asdict(plan)
