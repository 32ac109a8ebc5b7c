"""Rules between jobs: where the jobs of a group run, and which places they keep to themselves or share (D19)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.inventory import Inventory
from scheduling.core.resources import GroupRule, ResourceRequest


class Groups:
    """The running jobs that belong to a group or keep apart from one. ``version`` rises with every change."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._members: dict[str, dict[str, list[int]]] = {}
        self._keepers: dict[str, dict[str, tuple[str, list[int]]]] = {}
        self._known: dict[str, tuple[str | None, GroupRule | None]] = {}
        self.version = 0

    def start(self, job: str, gpus: list[int], group: str | None, *, apart: GroupRule | None) -> None:
        """The job runs on these GPUs."""
        if group is None and apart is None:
            return
        self.version += 1
        self._known[job] = (group, apart)
        if group is not None:
            self._members.setdefault(group, {})[job] = gpus
        if apart is not None:
            self._keepers.setdefault(apart.group, {})[job] = (apart.level, gpus)

    def stop(self, job: str) -> None:
        """The job runs no more."""
        known = self._known.pop(job, None)
        if known is None:
            return
        self.version += 1
        group, apart = known
        if group is not None:
            del self._members[group][job]
        if apart is not None:
            del self._keepers[apart.group][job]

    def partners(self, group: str) -> bool:
        """Whether a job of the group runs."""
        return bool(self._members.get(group))

    def confined(self, request: ResourceRequest, group: str | None) -> tuple[int, ...] | None:
        """The mask per cell in which a job of this request and group may lie; None for everywhere."""
        inventory = self._inventory
        taken: dict[int, int] = {}
        if request.apart is not None:
            for gpus in self._members.get(request.apart.group, {}).values():
                self._add(taken, request.apart.level, gpus)
        if group is not None:
            for level, gpus in self._keepers.get(group, {}).values():
                self._add(taken, level, gpus)
        near = request.near
        if near is None or (near.group == group and not self.partners(near.group)):
            if not taken:
                return None
            return tuple(full & ~taken.get(cell, 0) for cell, full in enumerate(inventory.full))
        beside: dict[int, int] = {}
        for gpus in self._members.get(near.group, {}).values():
            self._add(beside, near.level, gpus)
        return tuple(beside.get(cell, 0) & ~taken.get(cell, 0) for cell in range(len(inventory.full)))

    def _add(self, masks: dict[int, int], level: str, gpus: Iterable[int]) -> None:
        """Every GPU of the places at that level in which these GPUs lie."""
        inventory = self._inventory
        for cell in sorted({inventory.cell_of[gpu] for gpu in gpus}):
            for other in self._domain(level, cell):
                masks[other] = inventory.full[other]

    def _domain(self, level: str, cell: int) -> list[int]:
        inventory = self._inventory
        node = inventory.node_of[cell]
        if level == "node":
            return inventory.cells_of[node]
        if level == "nvlink_group":
            return inventory.group_cells[inventory.group_of[cell]] if inventory.group_of[cell] else []
        rack = inventory.nodes[node].rack_id
        return [other for each in inventory.nodes_of_rack[rack] for other in inventory.cells_of[each]] if rack else []
