"""What is installed: nodes, their GPUs, and the NVLink groups among them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from scheduling.core.inventory import Inventory
from scheduling.core.lifecycle import GpuState, NodeState

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. ``memory_mib`` is what the board reports as installed; ``labels`` override the node's."""

    uuid: str
    node: str
    index: int
    model: str
    memory_mib: int
    nvlink_group_id: str | None = None
    state: GpuState = GpuState.HEALTHY
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One machine with an agent. ``closed_by``: what keeps it from new work though nobody cordoned it."""

    name: str
    rack_id: str = ""
    network_bandwidth_gbps: float = 0.0
    state: NodeState = NodeState.READY
    labels: Labels = ()
    simulated: bool = False
    closed_by: str = ""


@dataclass(frozen=True)
class Cell:
    """The GPUs of one NVLink group on one node, or (``group`` None) a node's GPUs that are in no group.

    It is the largest set a job of one node may take without crossing a group's boundary. ``whole_group``: the
    group has no GPU on another node.
    """

    node: str
    group: str | None
    gpus: tuple[Gpu, ...]
    whole_group: bool = True


@dataclass(frozen=True)
class Pool:
    """All nodes and GPUs. The indexes are made on first use and do not depend on the order of the tuples.

    Installed means not RETIRED, healthy or not. An NVLink group has at least two installed GPUs; a GPU alone in its
    group is in no group.
    """

    nodes: tuple[Node, ...] = ()
    gpus: tuple[Gpu, ...] = ()

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        """Every node by its name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def gpu_by_uuid(self) -> dict[str, Gpu]:
        """Every GPU by its UUID, retired ones included."""
        return {gpu.uuid: gpu for gpu in self.gpus}

    @cached_property
    def node_rank(self) -> dict[str, int]:
        """The canonical place of each node: low bandwidth first, so that fast nodes stay free for gangs."""
        ordered = sorted(self.nodes, key=lambda node: (node.network_bandwidth_gbps, node.rack_id, node.name))
        return {node.name: rank for rank, node in enumerate(ordered)}

    @cached_property
    def installed(self) -> tuple[Gpu, ...]:
        """The GPUs of known nodes that are not retired, in canonical order."""
        rank = self.node_rank
        present = (gpu for gpu in self.gpus if gpu.state is not GpuState.RETIRED and gpu.node in rank)
        return tuple(sorted(present, key=lambda gpu: (rank[gpu.node], gpu.index, gpu.uuid)))

    @cached_property
    def by_node(self) -> dict[str, tuple[Gpu, ...]]:
        """The installed GPUs of each node that has any, nodes in canonical order."""
        found: dict[str, list[Gpu]] = defaultdict(list)
        for gpu in self.installed:
            found[gpu.node].append(gpu)
        return {name: tuple(gpus) for name, gpus in found.items()}

    @cached_property
    def by_group(self) -> dict[str, tuple[Gpu, ...]]:
        """The installed GPUs of each NVLink group (two or more)."""
        found: dict[str, list[Gpu]] = defaultdict(list)
        for gpu in self.installed:
            if gpu.nvlink_group_id is not None:
                found[gpu.nvlink_group_id].append(gpu)
        return {group: tuple(gpus) for group, gpus in sorted(found.items()) if len(gpus) > 1}

    def group_of(self, gpu: Gpu) -> str | None:
        """The NVLink group the GPU is in, or None when it has no NVLink neighbour."""
        return gpu.nvlink_group_id if gpu.nvlink_group_id in self.by_group else None

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, in canonical order: node, then the GPUs outside groups, then groups by name."""
        found: dict[tuple[int, str, str | None], list[Gpu]] = defaultdict(list)
        for gpu in self.installed:
            found[(self.node_rank[gpu.node], gpu.node, self.group_of(gpu))].append(gpu)
        ordered = sorted(found, key=lambda key: (key[0], key[2] is not None, key[2] or ""))
        return tuple(
            Cell(node, group, tuple(found[(rank, node, group)]), self._is_on_one_node(group))
            for rank, node, group in ordered
        )

    @cached_property
    def inventory(self) -> Inventory:
        """The installed GPUs as numbers."""
        return Inventory(self.nodes, self.installed, frozenset(self.by_group))

    @cached_property
    def kept(self) -> dict[str, object]:
        """What was worked out about this pool and is asked for again and again, by a name for it."""
        return {}

    def _is_on_one_node(self, group: str | None) -> bool:
        return group is None or len({gpu.node for gpu in self.by_group[group]}) == 1

    def largest_group(self, min_mib: int = 0) -> int:
        """Most GPUs with at least ``min_mib`` MiB in one NVLink group on one node; 0 when there is none."""
        return max((_enough(cell.gpus, min_mib) for cell in self.cells if cell.group is not None), default=0)

    def largest_node(self, min_mib: int = 0) -> int:
        """Most GPUs with at least ``min_mib`` MiB on one node; 0 when there is none."""
        return max((_enough(gpus, min_mib) for gpus in self.by_node.values()), default=0)

    def largest_memory(self) -> int:
        """Memory of the largest installed GPU in MiB; 0 when there is none."""
        return max((gpu.memory_mib for gpu in self.installed), default=0)


def _enough(gpus: tuple[Gpu, ...], min_mib: int) -> int:
    return sum(1 for gpu in gpus if gpu.memory_mib >= min_mib)
