"""The rules of the house as data: queues, levels, weights, who may preempt whom, retries, leases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MAX_WEIGHT = 1e6
LEDGERS = ("queue", "project", "user")


@dataclass(frozen=True, slots=True)
class Level:
    """A priority level of one queue; ``value`` (at least 1) is the priority in the fair-share formula."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One queue: its fair-share weight (0 or more), its levels and its limits in seconds.

    ``never_without_checkpoint``: its jobs are not stopped for others unless they save first (D8).
    """

    name: str
    weight: float
    levels: tuple[Level, ...]
    default_level: str = "Normal"
    default_max_duration_s: int = 4 * 3600
    max_duration_cap_s: int = 7 * 86400
    grace_s: float = 120.0
    never_without_checkpoint: bool = False

    def __post_init__(self) -> None:
        _refuse_bad_weight(f"queue {self.name}", self.weight)
        if any(level.value < 1 for level in self.levels):
            raise ValueError(f"queue {self.name}: every level's value must be at least 1")

    def level(self, name: str) -> Level | None:
        """The level of that name whatever its case, or None."""
        wanted = name.casefold()
        return next((level for level in self.levels if level.name.casefold() == wanted), None)


@dataclass(frozen=True, slots=True)
class PreemptRule:
    """A job of ``queue`` and ``level`` may evict one of ``victim_queue`` and ``victim_level`` (D7)."""

    queue: str
    level: str
    victim_queue: str
    victim_level: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries after a fault that was not the job's (D13): how many, and the pause before the first and at most."""

    infrastructure_budget: int = 5
    backoff_s: float = 10.0
    backoff_cap_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Preemption:
    """How victims are chosen (D8, D10): seconds; ``protect_times`` a day; ``nomination_slack_s`` past the grace."""

    protect_s: float = 60.0
    protect_times: int = 3
    nomination_slack_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Backfill:
    """How many blocked jobs hold a reservation (D29): ``reservations_per_level`` of those that need several GPUs, and
    up to ``aged_reservations`` of any that wait longer than ``aged_after_s``. ``rack_patience_s``: how much later a
    reservation in one rack may start than one over several."""

    reservations_per_level: int = 1
    aged_after_s: float = 86_400.0
    aged_reservations: int = 8
    rack_patience_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything an operator may set.

    ``ledgers``: those that are compared, always the queue's, then the project's, then the user's.
    ``in_flight``: what counts as consumption to come, "full"
    (what runs and what was just placed), "cycle" (only what was just placed) or "off". ``nvlink_mode`` "exclusive"
    gives every NVLink job its whole group. ``prefer``: see ``placement``.

    ``user_weights`` is keyed by (project, user); a project or user that is not listed has weight 1. ``billing``
    multiplies consumption by GPU model, 1 when not listed (D5). ``half_life_s`` 0 means no decay; then
    ``share_window_s`` is the length of the accounting period. ``mass_silent_min`` and ``mass_silent_share``: at
    least so many nodes and more than that share silent at once stops reclaiming (D21).
    """

    queues: tuple[QueuePolicy, ...]
    preemption: tuple[PreemptRule, ...] = ()
    project_weights: Mapping[str, float] = field(default_factory=dict)
    user_weights: Mapping[tuple[str, str], float] = field(default_factory=dict)
    billing: Mapping[str, float] = field(default_factory=dict)
    half_life_s: float = 7 * 86400.0
    share_window_s: float = 30 * 86400.0
    ledgers: tuple[str, ...] = LEDGERS
    in_flight: Literal["full", "cycle", "off"] = "full"
    nvlink_mode: Literal["shared", "exclusive"] = "shared"
    prefer: Literal["whole_groups", "smallest_memory", "best_fit"] = "whole_groups"
    backfill: Backfill = Backfill()
    evict: Preemption = Preemption()
    retry: RetryPolicy = RetryPolicy()
    lease_s: float = 60.0
    claim_s: float = 60.0
    ready_s: float = 600.0
    mass_silent_min: int = 5
    mass_silent_share: float = 1 / 3
    max_retries: int = 10
    permission_levels: tuple[str, ...] = ("Critical", "Realtime")
    purpose_levels: tuple[str, ...] = ("Critical",)
    purposes: tuple[str, ...] = ("regression_gate", "deployment_validation")

    def __post_init__(self) -> None:
        for kind, weights in (("project", self.project_weights), ("user", self.user_weights), ("GPU", self.billing)):
            for name, weight in weights.items():
                _refuse_bad_weight(f"{kind} {name}", weight)

    def queue(self, name: str) -> QueuePolicy | None:
        """The queue of that name, or None."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def grace_s(self, queue: str) -> float:
        """Seconds a victim of that queue has to save; 0 for a queue there is not."""
        found = self.queue(queue)
        return 0.0 if found is None else found.grace_s

    def never_without_checkpoint(self, queue: str) -> bool:
        """Whether jobs of that queue are not stopped for others unless they save first; False for one there is not."""
        found = self.queue(queue)
        return found is not None and found.never_without_checkpoint

    @property
    def values_above_lowest(self) -> tuple[int, ...]:
        """The numbers of all levels but the lowest, the highest first."""
        return tuple(sorted({level.value for queue in self.queues for level in queue.levels}, reverse=True)[:-1])


def _refuse_bad_weight(what: str, weight: float) -> None:
    if not math.isfinite(weight) or not 0 <= weight <= MAX_WEIGHT:
        raise ValueError(f"{what}: a weight must be a number from 0 to {MAX_WEIGHT:.0f}, not {weight}")


def goes_down(policy: Policy, rule: PreemptRule) -> bool:
    """Whether the rule's victims are of a lower level than who evicts them: else two jobs could evict each other.

    False too when the policy has not both levels.
    """
    found = [
        None if queue is None else queue.level(name)
        for queue, name in (
            (policy.queue(rule.queue), rule.level),
            (policy.queue(rule.victim_queue), rule.victim_level),
        )
    ]
    upper, lower = found
    return upper is not None and lower is not None and lower.value < upper.value


def backoff_s(policy: Policy, failures: int) -> float:
    """Seconds to wait after the ``failures``-th infrastructure failure in a row: doubling from the first, capped."""
    if failures < 1:
        return 0.0
    # The exponent is bounded because 2.0 ** 1024 is not a float; the cap is long since reached there.
    return min(policy.retry.backoff_s * 2.0 ** min(failures - 1, 60), policy.retry.backoff_cap_s)


_NAMES = {"Critical": 4, "Realtime": 4, "High": 3, "Normal": 2, "Low": 1}


def _levels(*names: str) -> tuple[Level, ...]:
    return tuple(Level(name, _NAMES[name]) for name in names)


DEFAULT_POLICY = Policy(
    queues=(
        QueuePolicy("merge", 2.0, _levels("Critical", "High", "Normal", "Low")),
        QueuePolicy("eval", 1.0, _levels("High", "Normal", "Low")),
        QueuePolicy("inference", 3.0, _levels("Realtime", "Normal")),
    ),
    preemption=(
        PreemptRule("merge", "Critical", "merge", "Normal"),
        PreemptRule("merge", "Critical", "merge", "Low"),
        PreemptRule("merge", "Critical", "eval", "Normal"),
        PreemptRule("merge", "Critical", "eval", "Low"),
        PreemptRule("merge", "Critical", "inference", "Normal"),
        PreemptRule("inference", "Realtime", "inference", "Normal"),
    ),
)
"""The specification's queue table, with D2's numbers and D7's reading of who may preempt whom."""
