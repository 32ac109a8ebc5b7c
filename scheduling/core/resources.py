"""What a job may ask for, as values: the parts of a request that passed validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Limit = int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: ``limit`` is the largest value, or the names, that would be accepted."""

    field: str
    code: str
    message: str
    limit: Limit = None


@dataclass(frozen=True, slots=True)
class Rights:
    """What the submitter may do. ``levels_cap``: the highest level value; ``projects``: those he is a member of."""

    levels_cap: int
    may_critical: bool
    may_unpreemptible: bool = False
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A rule about where a job runs (D19). ``weight`` only with preferred terms; ``values`` as text."""

    key: str
    op: str
    values: tuple[str, ...] = ()
    weight: int | None = None
    required: bool = True


Shape = tuple[int, int, int, bool, bool, str | None, tuple[AffinityTerm, ...]]


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """The resources of a job. ``gpu_count`` = ``node_count * gpus_per_node``; memory per GPU in MiB, 0 = any."""

    gpu_count: int
    node_count: int = 1
    gpus_per_node: int = 0
    gpu_memory_min_mib: int = 0
    nvlink_required: bool = False
    nvlink_exclusive: bool = False
    required_level: str | None = None
    max_duration_s: int = 3600
    affinity: tuple[AffinityTerm, ...] = ()

    def __post_init__(self) -> None:
        if self.gpus_per_node == 0:
            object.__setattr__(self, "gpus_per_node", self.gpu_count // self.node_count)
        if self.gpu_count < 1 or self.gpu_count != self.node_count * self.gpus_per_node:
            raise ValueError("gpu_count must be at least 1 and node_count * gpus_per_node")

    @property
    def required_terms(self) -> tuple[AffinityTerm, ...]:
        """The rules that must hold."""
        return tuple(term for term in self.affinity if term.required)

    @property
    def preferred_terms(self) -> tuple[AffinityTerm, ...]:
        """The rules that should hold, the weightiest first; equal weights in the order they were given."""
        wishes = [term for term in self.affinity if not term.required]
        return tuple(sorted(wishes, key=lambda term: -(term.weight or 1)))

    @property
    def shape(self) -> Shape:
        """Equal for requests that fit alike: everything but the duration."""
        return (
            self.node_count,
            self.gpus_per_node,
            self.gpu_memory_min_mib,
            self.nvlink_required,
            self.nvlink_exclusive,
            self.required_level,
            self.affinity,
        )


@dataclass(frozen=True, slots=True)
class Submission:
    """A valid job. ``params`` is as it came: the catalog of kinds checks it. ``level`` is spelt as in the policy."""

    name: str
    kind: str
    project: str
    queue: str
    level: str
    request: ResourceRequest
    params: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None
    retries: int = 0
    preemptible: bool = True
    purpose: str | None = None
    after: tuple[str, ...] = ()
    not_before: str | None = None
    start_by: str | None = None
    max_wait_for_level: int | None = None
