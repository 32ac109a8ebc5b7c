"""What may be known when deciding: the frozen world at one instant. Times are integer ms, GPU time integer GPU-ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.core.lifecycle import JobState
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A QUEUED job.

    ``remaining_s``: what is left of its ``max_duration`` over all attempts. ``eligible_at_ms``: not before this
    instant (the pause after an infrastructure failure). ``avoid_*``: where it was lost before.
    """

    id: str
    queue: str
    level: str
    level_value: int
    project: str
    user: str
    submitted_ms: int
    request: ResourceRequest
    remaining_s: int
    eligible_at_ms: int = 0
    avoid_gpus: frozenset[str] = frozenset()
    avoid_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that holds GPUs. ``number`` counts attempts from 1; ``infra_failures`` those lost before it."""

    attempt: str
    job: str
    epoch: int
    number: int
    queue: str
    project: str
    user: str
    gpus: tuple[str, ...]
    node: str
    state: JobState
    granted_ms: int
    claimed_ms: int | None
    started_ms: int | None
    remaining_s: int
    infra_failures: int = 0


@dataclass(frozen=True, slots=True)
class NodeLease:
    """When the server last heard from a node.

    ``silent_ms``: milliseconds since then, counted only while some web process could accept heartbeats, and from
    zero again after an outage of the server (D21).
    """

    node: str
    boot_id: str
    last_heartbeat_ms: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Consumption so far, decayed to now, with lost work credited: integer GPU-ms times the billing weight.

    Includes what running attempts have used; not what they may still use. ``user`` is keyed by (project, user).
    """

    queue: Mapping[str, int] = field(default_factory=dict)
    project: Mapping[str, int] = field(default_factory=dict)
    user: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision may know. The order of the tuples does not matter.

    ``silence_confirmed``: an operator said that the mass silence is real, so the guard of D21 is off.
    """

    now_ms: int
    policy: Policy
    pool: Pool
    waiting: tuple[WaitingJob, ...] = ()
    live: tuple[LiveAttempt, ...] = ()
    leases: tuple[NodeLease, ...] = ()
    usage: Usage = Usage()
    silence_confirmed: bool = False
