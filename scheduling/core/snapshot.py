"""What may be known when deciding: the frozen world at one instant. Times are integer ms, GPU time integer GPU-ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.core.lifecycle import JobState
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.resources import GroupRule, ResourceRequest

RESTORE_S = 120  # until it is measured (D10)
ALWAYS_SAVED = 1 << 62  # ``saved_ms`` of an attempt that loses nothing whenever it is stopped


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A QUEUED job.

    ``remaining_s``: what is left of its ``max_duration`` over all attempts. ``eligible_at_ms``: not before this
    instant (the pause after an infrastructure failure); ``not_before_ms``: not before this one (its owner says so);
    ``start_by_ms``: if it has not started by then it is not to start at all. ``avoid_*``: where it was lost before.
    ``group``: the group of jobs it belongs to. ``recent_preemptions``: how often it was preempted in 24 hours.
    ``may_evict``: False while it is kept from a right that the rules give its level (D10).
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
    not_before_ms: int = 0
    start_by_ms: int | None = None
    group: str | None = None
    preemptible: bool = True
    recent_preemptions: int = 0
    may_evict: bool = True

    @property
    def owner(self) -> tuple[str, str, str]:
        """Queue, project and user: whom it is charged to."""
        return self.queue, self.project, self.user

    @property
    def is_careful(self) -> bool:
        """Whether it avoids where it was lost before."""
        return bool(self.avoid_gpus or self.avoid_nodes)

    @property
    def due_ms(self) -> int:
        """The first instant at which it may start."""
        eligible, not_before = self.eligible_at_ms, self.not_before_ms
        return eligible if eligible > not_before else not_before


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that holds GPUs. ``number`` counts attempts from 1; ``infra_failures`` those lost before it.

    ``nodes``: its nodes by rank; of these ``unclaimed`` have yet to take their part of it, ``unready`` have taken it
    and yet to say that they could start (on several nodes), ``left`` have ended theirs. ``end_ms``: when its
    ``max_duration`` is used up. ``saved_ms``: when its newest verified checkpoint was made, None for none;
    ``checkpoint_interval_s``: how often it makes one, 0 for unknown; ``save_s``: how long saving takes, None for the
    queue's grace; ``restore_s``: how long resuming takes. ``recent_preemptions``: how often its job was preempted in
    the last 24 hours. ``billing_micro``: millionths of the billing weight of all its GPUs together as granted, None for
    the policy's weights of now (D5). ``stop_by_ms``: when its grace ends, if it was asked to stop. ``asked_ms``: when
    that was; it stays when the attempt did not save within its grace and was spared.
    """

    attempt: str
    job: str
    epoch: int
    number: int
    queue: str
    project: str
    user: str
    gpus: tuple[str, ...]
    nodes: tuple[str, ...]
    state: JobState
    granted_ms: int
    started_ms: int | None
    end_ms: int
    infra_failures: int = 0
    level: str = "Normal"
    level_value: int = 2
    preemptible: bool = True
    saved_ms: int | None = None
    checkpoint_interval_s: int = 0
    save_s: float | None = None
    restore_s: int = RESTORE_S
    recent_preemptions: int = 0
    billing_micro: int | None = None
    stop_by_ms: int | None = None
    asked_ms: int | None = None
    group: str | None = None
    apart: GroupRule | None = None
    unclaimed: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def owner(self) -> tuple[str, str, str]:
        """Queue, project and user: whom it is charged to."""
        return self.queue, self.project, self.user


@dataclass(frozen=True, slots=True)
class Nomination:
    """GPUs that are being freed for a waiting job that evicts their holders; it ends at ``deadline_ms``.

    ``again``: it is the one new plan that is made when a victim did not save in time (D8).
    """

    job: str
    gpus: tuple[str, ...]
    deadline_ms: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which nodes are closed by an operator: for maintenance, or but for the jobs of ``project``."""

    name: str
    nodes: tuple[str, ...]
    start_ms: int
    end_ms: int
    project: str | None = None


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
class SilenceGuard:
    """The nodes from which nothing is taken back, since they fell silent together with many others (D21).

    ``nodes``: when each was last heard from, in ms; the guard of one that was heard from since is over. ``until_ms``:
    when it ends for those that do not return; None while they are many.
    """

    nodes: Mapping[str, int] = field(default_factory=dict)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What an entity had consumed by ``settled_ms``, as it counted then: GPU-ms times the billing weight, with lost
    work credited (D6). It fades from there; running attempts count beside it from their grant on."""

    gpu_ms: float
    settled_ms: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The settled consumption of the entities of each ledger. ``user`` is keyed by (project, user)."""

    queue: Mapping[str, Account] = field(default_factory=dict)
    project: Mapping[str, Account] = field(default_factory=dict)
    user: Mapping[tuple[str, str], Account] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision may know. The order of the tuples does not matter.

    ``guard``: what the tick before left of D21's guard over nodes that fell silent together; ``silence_confirmed``: an
    operator said that they are gone, so it is off.
    ``can_preempt``: False while checkpoints can't be stored; then no victims are chosen (D31).
    """

    now_ms: int
    policy: Policy
    pool: Pool
    waiting: tuple[WaitingJob, ...] = ()
    live: tuple[LiveAttempt, ...] = ()
    leases: tuple[NodeLease, ...] = ()
    usage: Usage = Usage()
    nominations: tuple[Nomination, ...] = ()
    windows: tuple[Window, ...] = ()
    guard: SilenceGuard = SilenceGuard()
    silence_confirmed: bool = False
    can_preempt: bool = True
