"""Rules between jobs: where the jobs of a group run, and which places they keep to themselves or share (D19)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduling.core.inventory import Inventory
from scheduling.core.resources import GroupRule, ResourceRequest

NO_TIMES: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Opening:
    """Where rules about groups let a job start, and when, by what runs: ``cells`` has a mask for each cell, None for
    everywhere; of a cell in ``opens`` not before that instant in ms, of one in ``closes`` before it."""

    cells: tuple[int, ...] | None
    opens: dict[int, int]
    closes: dict[int, int]


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

    def openings(self, request: ResourceRequest, group: str | None, ends: Callable[[str], int]) -> tuple[Opening, ...]:
        """Where and when a job of this request and group may start, each running job having left by its ``ends``.

        Whoever keeps apart may go where the last of the others has left. Whoever runs beside a group must start before
        the last of it has left, or, being of that group, may go anywhere after that. None while it has no partner.
        """
        opens: dict[int, int] = {}
        if request.apart is not None:
            for job, gpus in self._members.get(request.apart.group, {}).items():
                self._until(opens, request.apart.level, gpus, ends(job))
        for job, (level, gpus) in self._keepers.get(group or "", {}).items():
            self._until(opens, level, gpus, ends(job))
        near, cells = request.near, range(len(self._inventory.full))
        if near is None:
            return (Opening(None, opens, NO_TIMES),)
        partners = self._members.get(near.group, {})
        closes: dict[int, int] = {}
        last = 0
        for job, gpus in partners.items():
            self._until(closes, near.level, gpus, ends(job))
            last = max(last, ends(job))
        beside = tuple([self._inventory.full[cell] if cell in closes else 0 for cell in cells])
        found = (Opening(beside, opens, closes),) if partners else ()
        if near.group != group:
            return found
        return (*found, Opening(None, {cell: max(opens.get(cell, 0), last) for cell in cells}, NO_TIMES))

    def _until(self, instants: dict[int, int], level: str, gpus: Iterable[int], end_ms: int) -> None:
        """The places at that level in which these GPUs lie are not left before ``end_ms``."""
        for cell in self._around(level, gpus):
            instants[cell] = max(instants.get(cell, 0), end_ms)

    def _add(self, masks: dict[int, int], level: str, gpus: Iterable[int]) -> None:
        """Every GPU of the places at that level in which these GPUs lie."""
        for cell in self._around(level, gpus):
            masks[cell] = self._inventory.full[cell]

    def _around(self, level: str, gpus: Iterable[int]) -> list[int]:
        """The cells of the places at that level in which these GPUs lie."""
        cells = sorted({self._inventory.cell_of[gpu] for gpu in gpus})
        return sorted({other for cell in cells for other in self._domain(level, cell)})

    def _domain(self, level: str, cell: int) -> list[int]:
        inventory = self._inventory
        node = inventory.node_of[cell]
        if level == "node":
            return inventory.cells_of[node]
        if level == "nvlink_group":
            return inventory.group_cells[inventory.group_of[cell]] if inventory.group_of[cell] else []
        rack = inventory.nodes[node].rack_id
        return [other for each in inventory.nodes_of_rack[rack] for other in inventory.cells_of[each]] if rack else []
