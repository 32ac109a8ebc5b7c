"""What a job may ask for, as values: the parts of a request that passed validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Limit = int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: ``limit`` is the largest value, or the names, that would be accepted.

    ``limits``: what to set fields to, by name and all of them together, for this to be accepted as it is: others, or
    this one where it is to be left out, which is None.
    """

    field: str
    code: str
    message: str
    limit: Limit = None
    limits: Mapping[str, Limit] | None = None

    def as_row(self) -> dict[str, Any]:
        """What is told of it as JSON; ``limits`` only where there are any."""
        limit = list(self.limit) if isinstance(self.limit, tuple) else self.limit
        row = {"field": self.field, "code": self.code, "message": self.message, "limit": limit}
        return {**row, "limits": dict(self.limits)} if self.limits else row


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


PLACES = ("node", "nvlink_group", "rack")
RUNGS = ("nvlink_group", "rack")


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Where a job lies with respect to the running jobs of a ``group``; ``level`` is one of ``PLACES`` (D19)."""

    group: str
    level: str


Shape = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """The resources of a job: ``gpu_count`` = ``node_count * gpus_per_node + remainder``; MiB per GPU, 0 for any.

    ``remainder`` GPUs lie on one node more: a count that does not divide evenly over the fewest nodes. ``allow_span``:
    the GPUs may lie on any nodes, the fewest possible. ``required_level`` (one of ``RUNGS``): a job of several nodes
    lies wholly in one NVLink group or one rack. ``max_wait_for_level_s``: until so long after its submission it
    starts only on the best rung that the pool as installed has for it (D18). ``near`` and ``apart``: in, or in none
    of, the places where jobs of a group run.
    """

    gpu_count: int
    node_count: int = 1
    gpus_per_node: int = 0
    gpu_memory_min_mib: int = 0
    nvlink_required: bool = False
    nvlink_exclusive: bool = False
    required_level: str | None = None
    max_duration_s: int = 3600
    affinity: tuple[AffinityTerm, ...] = ()
    remainder: int = 0
    allow_span: bool = False
    max_wait_for_level_s: int | None = None
    near: GroupRule | None = None
    apart: GroupRule | None = None

    def __post_init__(self) -> None:
        if self.gpus_per_node == 0:
            object.__setattr__(self, "gpus_per_node", (self.gpu_count - self.remainder) // self.node_count)
        whole = self.node_count * self.gpus_per_node + self.remainder
        if self.gpu_count < 1 or self.gpu_count != whole or not 0 <= self.remainder < self.gpus_per_node:
            raise ValueError("gpu_count must be at least 1 and node_count * gpus_per_node + remainder")

    @property
    def is_gang(self) -> bool:
        """Whether it needs GPUs on several nodes."""
        return self.node_count > 1 or self.remainder > 0

    @property
    def required_terms(self) -> tuple[AffinityTerm, ...]:
        """The rules that must hold."""
        return tuple([term for term in self.affinity if term.required]) if self.affinity else ()

    @property
    def preferred_terms(self) -> tuple[AffinityTerm, ...]:
        """The rules that should hold, the weightiest first; equal weights in the order they were given."""
        if not self.affinity:
            return ()
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
            self.remainder,
            self.allow_span,
            self.max_wait_for_level_s,
            self.near,
            self.apart,
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
    after_any: bool = False
    not_before: str | None = None
    start_by: str | None = None
    max_wait_for_level: int | None = None
