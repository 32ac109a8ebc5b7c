"""Where best? The GPUs a job gets, of those that are free: one node, and one NVLink group if it asks for NVLink.

The choice is the smallest of keys, in the order of D15 and D16: GPUs outside groups first; then groups already broken
or used up exactly; then, the smallest first, a whole group is broken; inside that the smallest sufficient memory,
the tightest place, the canonical index. Packing so keeps large places whole for the jobs that need them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduling.core.feasibility import suitable
from scheduling.core.pool import Cell, Gpu, Pool
from scheduling.core.resources import ResourceRequest

LOOSE, BROKEN, WHOLE, ACROSS = range(4)
Preference = tuple[int, int, float, int, int, str]


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs on one node; with ``nvlink_exclusive`` the whole group, the job's own GPUs first."""

    node: str
    gpus: tuple[str, ...]


Option = tuple[Preference, Place]
Question = tuple[int, bool, bool, frozenset[str]]


class Room:
    """The free GPUs; they only become fewer within a cycle.

    The options of each cell are kept per question and made anew only for cells that something was taken from, so a
    cycle that starts many jobs does not look at every GPU for each.
    """

    def __init__(self, pool: Pool, free: Iterable[str]) -> None:
        self.pool = pool
        self._free = set(free)
        self._options: dict[Question, dict[int, Option]] = {}
        self._stale: dict[Question, set[int]] = {}

    @property
    def free(self) -> frozenset[str]:
        """The UUIDs of the GPUs that are free now."""
        return frozenset(self._free)

    def take(self, place: Place) -> None:
        """The place's GPUs are no longer free; taking one twice is a bug."""
        for gpu in place.gpus:
            self._free.remove(gpu)
        touched = {self.pool.cell_index[gpu] for gpu in place.gpus}
        for stale in self._stale.values():
            stale |= touched

    def cells(self, eligible: frozenset[str]) -> Iterator[tuple[Cell, list[Gpu]]]:
        """Every cell that has free GPUs among ``eligible``, with those, in canonical order."""
        usable = self._free & eligible
        for index in sorted({self.pool.cell_index[gpu] for gpu in usable}):
            cell = self.pool.cells[index]
            yield cell, [gpu for gpu in cell.gpus if gpu.uuid in usable]

    def is_whole(self, cell: Cell) -> bool:
        """Whether every GPU of the cell is free."""
        return all(gpu.uuid in self._free for gpu in cell.gpus)

    def options(self, request: ResourceRequest, eligible: frozenset[str]) -> Iterable[Option]:
        """For each cell that could hold the request now, where in it and how good that is."""
        question = (request.gpus_per_node, request.nvlink_required, request.nvlink_exclusive, eligible)
        known = self._options.setdefault(question, {})
        if question not in self._stale:
            self._stale[question] = {self.pool.cell_index[gpu] for gpu in self._free & eligible}
        for index in self._stale[question]:
            cell = self.pool.cells[index]
            gpus = [gpu for gpu in cell.gpus if gpu.uuid in self._free and gpu.uuid in eligible]
            option = _option(self, request, cell, gpus=gpus)
            if option is None:
                known.pop(index, None)
            else:
                known[index] = option
        self._stale[question].clear()
        return known.values()


def find(room: Room, request: ResourceRequest, *, eligible: frozenset[str]) -> Place | None:
    """The best place among the free ``eligible`` GPUs, or None. Preferred rules are dropped from the lightest on."""
    wishes = request.preferred_terms
    for count in range(len(wishes), -1, -1):
        wished = eligible & suitable(room.pool, request, wishes[:count]) if count else eligible
        place = _best(room, request, wished)
        if place is not None:
            return place
    return None


def fits(pool: Pool, request: ResourceRequest, *, free: Iterable[str], eligible: frozenset[str]) -> bool:
    """Whether the request could be placed on its ``eligible`` GPUs if exactly the GPUs ``free`` were free."""
    return find(Room(pool, free), request, eligible=eligible) is not None


def _best(room: Room, request: ResourceRequest, eligible: frozenset[str]) -> Place | None:
    if request.node_count != 1:
        return None
    place = _pick(room.options(request, eligible))
    if place is None and request.gpus_per_node > 1 and not request.nvlink_required:
        place = _pick(_node_options(room, request, eligible))
    return place


def _pick(options: Iterable[Option]) -> Place | None:
    best = min(options, key=lambda option: option[0], default=None)
    return best[1] if best else None


def _option(room: Room, request: ResourceRequest, cell: Cell, *, gpus: list[Gpu]) -> Option | None:
    """The place in this cell, of whose suitable GPUs ``gpus`` are free, and its preference; None if there is none."""
    need, rank = request.gpus_per_node, room.pool.node_rank[cell.node]
    if len(gpus) < need or (request.nvlink_required and cell.group is None):
        return None
    memory, chosen = _smallest_memory(gpus, need)
    if request.nvlink_exclusive:
        if cell.group is None or not cell.whole_group or not room.is_whole(cell):
            return None
        rest = [gpu for gpu in cell.gpus if gpu not in chosen]
        return (WHOLE, len(cell.gpus), memory, 0, rank, cell.group), _place(cell.node, [*chosen, *rest])
    breaks = cell.group is not None and len(cell.gpus) > need and room.is_whole(cell)
    kind = LOOSE if cell.group is None else WHOLE if breaks else BROKEN
    # Breaking a small group is better than breaking a large one, even at the price of memory: gangs need large ones.
    size = len(cell.gpus) if kind == WHOLE else 0
    return (kind, size, memory, len(gpus), rank, cell.group or ""), _place(cell.node, chosen)


def _node_options(room: Room, request: ResourceRequest, eligible: frozenset[str]) -> Iterator[Option]:
    need, rank = request.gpus_per_node, room.pool.node_rank
    nodes: dict[str, list[list[Gpu]]] = {}
    for cell, gpus in room.cells(eligible):
        nodes.setdefault(cell.node, []).append(gpus)
    for node, cells in nodes.items():
        gpus = [gpu for cell in sorted(cells, key=len, reverse=True) for gpu in cell]
        if len(gpus) < need:
            continue
        memory = _tier(gpus, need)
        chosen = [gpu for gpu in gpus if memory in (gpu.memory_mib, math.inf)][:need]
        yield (ACROSS, 0, memory, len(gpus), rank[node], ""), _place(node, chosen)


def _tier(gpus: Sequence[Gpu], need: int) -> float:
    """The smallest memory size of which ``need`` of the GPUs are, or infinite when sizes must be mixed."""
    sizes = [gpu.memory_mib for gpu in gpus]
    return min((float(size) for size in set(sizes) if sizes.count(size) >= need), default=math.inf)


def _smallest_memory(gpus: Sequence[Gpu], need: int) -> tuple[float, list[Gpu]]:
    tier = _tier(gpus, need)
    suited = [gpu for gpu in gpus if tier in (gpu.memory_mib, math.inf)]
    return tier, sorted(suited, key=lambda gpu: (gpu.memory_mib, gpu.index, gpu.uuid))[:need]


def _place(node: str, gpus: Sequence[Gpu]) -> Place:
    return Place(node, tuple(gpu.uuid for gpu in gpus))
