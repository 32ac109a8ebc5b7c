"""The pool as numbers: every GPU, cell, node, group and rack has a dense index in one canonical order.

A *cell* is (node, NVLink group), or a node's GPUs outside groups. The GPUs of a cell have consecutive indexes, so which
of them are free is one small integer. Nodes come by bandwidth, rack and name: single GPUs are taken from the slowest
nodes first, which keeps the fast ones for jobs of several nodes at no cost.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scheduling.core.preference import SMALL, kind_of, memory_classes

if TYPE_CHECKING:
    from scheduling.core.pool import Gpu, Node


class Inventory:
    """The installed GPUs by index. Nothing in it changes."""

    def __init__(self, nodes: tuple[Node, ...], installed: tuple[Gpu, ...], groups: frozenset[str]) -> None:
        """``installed``: GPUs of known nodes that are not retired; ``groups``: the NVLink groups of two and more."""
        ordered = sorted(nodes, key=lambda node: (node.network_bandwidth_gbps, node.rack_id, node.name))
        self.nodes: list[Node] = ordered
        self.node_at = {node.name: place for place, node in enumerate(ordered)}
        self.bandwidth = [node.network_bandwidth_gbps for node in ordered]
        self.is_even = len(set(self.bandwidth)) <= 1  # no node has more bandwidth than another

        found: dict[tuple[int, str], list[Gpu]] = defaultdict(list)
        for gpu in installed:
            found[(self.node_at[gpu.node], gpu.nvlink_group_id if gpu.nvlink_group_id in groups else "")].append(gpu)
        self.memory_sizes = sorted({gpu.memory_mib for gpu in installed})
        self._classes = memory_classes(self.memory_sizes)
        self.gpus: list[Gpu] = []
        self.memory_class: list[int] = []  # by GPU
        self.gpu_at: dict[str, int] = {}
        self.cell_of: list[int] = []  # by GPU
        self.first: list[int] = []  # by cell: the index of its first GPU
        self.full: list[int] = []  # by cell: the mask of all its GPUs
        self.size: list[int] = []
        self.node_of: list[int] = []  # by cell
        self.group_of: list[str] = []  # by cell: "" outside groups
        self.cells_of: list[list[int]] = [[] for _ in ordered]  # by node
        self.group_cells: dict[str, list[int]] = defaultdict(list)
        for (node, group), gpus in sorted(found.items(), key=lambda item: item[0]):
            self._add_cell(node, group, gpus)
        self.uuids = [gpu.uuid for gpu in self.gpus]  # by GPU, as its node's name
        self.node_names = [gpu.node for gpu in self.gpus]
        self.whole_group = [group != "" and len(self.group_cells[group]) == 1 for group in self.group_of]
        self.spanning = sorted(group for group, cells in self.group_cells.items() if len(cells) > 1)
        self.rack_of = [node.rack_id for node in ordered]
        self.racks = sorted({node.rack_id for node in ordered})
        self.nodes_of_rack = {
            rack: [place for place, node in enumerate(ordered) if node.rack_id == rack] for rack in self.racks
        }
        self.rack_bits = {rack: sum(1 << place for place in nodes) for rack, nodes in self.nodes_of_rack.items()}
        self.is_mixed = [
            len(set(self.memory_class[first : first + size])) > 1
            for first, size in zip(self.first, self.size, strict=True)
        ]
        self.split_bits = sum(1 << node for node, cells in enumerate(self.cells_of) if len(cells) > 1)
        self.group_bits = sum(1 << cell for cell, group in enumerate(self.group_of) if group)
        self.is_split = self.split_bits != 0
        self.largest_group = max(
            (size for size, group in zip(self.size, self.group_of, strict=True) if group != ""), default=0
        )
        self.has_small_groups = any(
            kind_of(size, self.largest_group, loose=group == "") == SMALL
            for size, group in zip(self.size, self.group_of, strict=True)
        )
        self.largest_node = max((sum(self.size[cell] for cell in cells) for cells in self.cells_of), default=0)

    def _add_cell(self, node: int, group: str, gpus: list[Gpu]) -> None:
        cell = len(self.first)
        self.first.append(len(self.gpus))
        self.full.append((1 << len(gpus)) - 1)
        self.size.append(len(gpus))
        self.node_of.append(node)
        self.group_of.append(group)
        self.cells_of[node].append(cell)
        if group:
            self.group_cells[group].append(cell)
        of_size = self._classes
        for gpu in sorted(gpus, key=lambda gpu: (of_size[gpu.memory_mib], gpu.index, gpu.uuid)):
            self.gpu_at[gpu.uuid] = len(self.gpus)
            self.cell_of.append(cell)
            self.gpus.append(gpu)
            self.memory_class.append(of_size[gpu.memory_mib])

    def cells_of_gpus(self, gpus: list[int]) -> dict[int, int]:
        """The GPUs as a mask per cell."""
        cell_of, first = self.cell_of, self.first
        if len(gpus) == 1:
            cell = cell_of[gpus[0]]
            return {cell: 1 << gpus[0] - first[cell]}
        masks: dict[int, int] = {}
        last, mask = -1, 0
        for gpu in gpus:  # those of a cell mostly stand together
            cell = cell_of[gpu]
            if cell != last:
                if mask:
                    masks[last] = mask
                last, mask = cell, masks.get(cell, 0)
            mask |= 1 << gpu - first[cell]
        if mask:
            masks[last] = mask
        return masks

    def gpus_in(self, cell: int, mask: int) -> list[int]:
        """The GPUs of a cell that are in the mask, in canonical order."""
        first = self.first[cell]
        if mask == self.full[cell]:
            return list(range(first, first + self.size[cell]))
        found = []
        while mask:
            low = mask & -mask
            found.append(first + low.bit_length() - 1)
            mask ^= low
        return found

    def names(self, gpus: list[int]) -> tuple[str, ...]:
        """The UUIDs of GPUs given by index."""
        uuids = self.uuids
        if len(gpus) == 1:
            return (uuids[gpus[0]],)
        return tuple([uuids[gpu] for gpu in gpus])

    def nodes_of(self, gpus: list[int]) -> tuple[str, ...]:
        """The names of the nodes of GPUs given by index, each once, in the order in which they occur."""
        names = self.node_names
        if len(gpus) == 1:
            return (names[gpus[0]],)
        return tuple(dict.fromkeys([names[gpu] for gpu in gpus]))
