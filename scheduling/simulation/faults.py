"""What breaks in a simulation, when, and what the pool is then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Pool


@dataclass(frozen=True, slots=True)
class Fault:
    """At ``at_ms`` a node is lost, or a GPU goes bad; at ``repaired_ms`` it is back, None for never.

    What runs there loses the work since its last checkpoint and is queued again; of one that ``spares`` it goes on, and
    only nothing new is taken (cordoned, draining, in doubt). ValueError unless exactly one of ``node`` and ``gpu`` is
    named and the repair comes later.
    """

    at_ms: int
    node: str | None = None
    gpu: str | None = None
    repaired_ms: int | None = None
    spares: bool = False

    def __post_init__(self) -> None:
        if (self.node is None) == (self.gpu is None):
            raise ValueError("a fault names either a node or a gpu")
        if self.repaired_ms is not None and self.repaired_ms <= self.at_ms:
            raise ValueError(f"a fault at {self.at_ms} ms can't be repaired at {self.repaired_ms} ms: repair it later")

    def hits(self, nodes: Collection[str], gpus: Collection[str]) -> bool:
        """Whether something that has these nodes and GPUs is lost by it."""
        if self.spares:
            return False
        return self.node in nodes if self.node is not None else self.gpu in gpus


def check_known(faults: Collection[Fault], pool: Pool) -> None:
    """ValueError when a fault names hardware that the pool does not have."""
    for fault in faults:
        known = fault.node in pool.node_by_name if fault.node is not None else fault.gpu in pool.gpu_by_uuid
        if not known:
            raise ValueError(f"the pool has no {fault.node or fault.gpu!r}, which a fault at {fault.at_ms} ms names")


def with_faults(pool: Pool, faults: Collection[Fault]) -> Pool:
    """The pool while these faults last: their nodes LOST, their GPUs UNHEALTHY."""
    nodes = {fault.node for fault in faults if fault.node is not None}
    gpus = {fault.gpu for fault in faults if fault.gpu is not None}
    return Pool(
        tuple(replace(node, state=NodeState.LOST) if node.name in nodes else node for node in pool.nodes),
        tuple(replace(gpu, state=GpuState.UNHEALTHY) if gpu.uuid in gpus else gpu for gpu in pool.gpus),
    )


def working_gpus(pool: Pool) -> int:
    """How many GPUs are healthy on a node that is not lost."""
    lost = {node.name for node in pool.nodes if node.state is NodeState.LOST}
    return sum(1 for gpu in pool.installed if gpu.state is GpuState.HEALTHY and gpu.node not in lost)
