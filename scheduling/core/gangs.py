"""Where best for a job of several nodes? One NVLink group, else one rack, else the fewest racks; all or nothing (D18).

A gang takes ``gpus_per_node`` on each of ``node_count`` distinct nodes, and perhaps a remainder on one more. Outside
a group it is as fast as its slowest node: of equally few racks it gets those where this one has the most bandwidth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.core.bits import places_in
from scheduling.core.room import Pins, Room, Wanted
from scheduling.core.view import View

GROUP, RACK, ANYWHERE = range(3)
_HIGHEST = {None: ANYWHERE, "rack": RACK, "nvlink_group": GROUP}
NOTHING_OPENED: Mapping[int, int] = {}


@dataclass(slots=True)
class _Scope:
    """Nodes with enough GPUs: (node, count); ``spare`` those that have enough only for the remainder."""

    enough: list[tuple[int, int]]
    spare: list[tuple[int, int]]

    def suits(self, wanted: Wanted) -> bool:
        """Whether the whole gang finds its nodes among these."""
        if len(self.enough) < wanted.nodes:
            return False
        return not wanted.remainder or len(self.enough) + len(self.spare) > wanted.nodes


def find_gang(room: Room, wanted: Wanted, pins: Pins, *, wishes: int) -> list[int] | None:
    """The GPUs of the gang, node by node, the remainder's last; None when it doesn't fit."""
    everything = room.view(wanted, wishes=wishes)
    if not is_possible(everything, wanted):
        return None
    classes: Sequence[int | None] = (*everything.memories, None) if len(everything.memories) > 1 else (None,)
    for memory in classes:
        view = room.view(wanted, wishes=wishes, memory=memory)
        if is_possible(view, wanted):
            place = _in_view(room, view, wanted, pins)
            if place is not None:
                return place
    return None


def is_possible(view: View, wanted: Wanted) -> bool:
    """False when too few nodes have enough, whatever is pinned: the cheap answer for most that wait."""
    view.with_nodes()
    found = 0
    for bits in view.node_bits[wanted.need :]:
        found += bits.bit_count()
    return found >= wanted.nodes


def has_nodes(
    room: Room, view: View, wanted: Wanted, pins: Pins, *, opened: Mapping[int, int] = NOTHING_OPENED
) -> bool:
    """Whether enough nodes have a full part each, wherever they are, with the GPUs of ``opened`` free too."""
    view.with_nodes()
    found, open_nodes = 0, ~pins.node_bits
    for bits in view.node_bits[wanted.need :]:
        found += (bits & open_nodes).bit_count()
    if found >= wanted.nodes:
        return True
    for node in places_in(pins.node_bits):
        if view.node_count[node] >= wanted.need:
            cells = room.inventory.cells_of[node]
            found += sum(count for _, count in _counts_in(room, view, cells, pins)) >= wanted.need
    for node in {room.inventory.node_of[cell]: None for cell in opened}:
        now = then = 0
        for cell in room.inventory.cells_of[node]:
            suited = view.eligible[cell] & ~pins.cells.get(cell, 0)
            now += (room.free[cell] & suited).bit_count()
            then += ((room.free[cell] | opened.get(cell, 0)) & suited).bit_count()
        found += now < wanted.need <= then
    return found >= wanted.nodes


def _in_view(room: Room, view: View, wanted: Wanted, pins: Pins) -> list[int] | None:
    lowest, highest = rungs_of(room, wanted)
    if lowest == GROUP:
        place = _in_one_group(room, view, wanted, pins)
        if place is not None or highest == GROUP:
            return place
    scope = _scope(view, room, wanted, pins)
    if not scope.suits(wanted):
        return None
    place = _in_one_rack(room, view, wanted, scope=scope, pins=pins)
    if place is None and highest == ANYWHERE:
        place = _over_racks(room, view, wanted, scope=scope, pins=pins)
    return place


def rungs_of(room: Room, wanted: Wanted) -> tuple[int, int]:
    """The best and the worst rung of the ladder the gang may take now; a strict one holds out for the best there is."""
    highest = GROUP if wanted.nvlink else _HIGHEST[wanted.request.required_level]
    lowest = GROUP if highest == GROUP or room.inventory.spanning else RACK
    if wanted.strict:
        highest = min(highest, wanted.best_rung)
    return min(lowest, highest), highest


def _counts_in(room: Room, view: View, cells: Iterable[int], pins: Pins) -> list[tuple[int, int]]:
    """(cell, free suitable GPUs) of each of the cells."""
    free, eligible = room.free, view.eligible
    return [(cell, (free[cell] & eligible[cell] & ~pins.cells.get(cell, 0)).bit_count()) for cell in cells]


def _in_one_group(room: Room, view: View, wanted: Wanted, pins: Pins) -> list[int] | None:
    inventory = room.inventory
    best: tuple[int, str, list[tuple[int, int]]] | None = None
    for group in inventory.spanning:
        counts = _counts_in(room, view, inventory.group_cells[group], pins)
        enough = sum(count >= wanted.need for _, count in counts)
        spare = sum(0 < wanted.remainder <= count < wanted.need for _, count in counts)
        if enough < wanted.nodes or (wanted.remainder and enough + spare <= wanted.nodes):
            continue
        total = sum(count for _, count in counts)
        if best is None or (total, group) < best[:2]:
            best = (total, group, counts)
    if best is None:
        return None
    by_tightness = sorted(best[2], key=lambda each: (each[1], inventory.node_of[each[0]]))
    chosen = [cell for cell, count in by_tightness if count >= wanted.need][: wanted.nodes]
    gpus: list[int] = []
    for cell in chosen:
        gpus += _of_cell(room, view, cell, pins)[: wanted.need]
    if wanted.remainder:
        cell_on = {inventory.node_of[cell]: cell for cell, _ in by_tightness}
        others = [(inventory.node_of[cell], count) for cell, count in by_tightness if count >= wanted.remainder]
        last = _beside(room, [inventory.node_of[cell] for cell in chosen], others)
        gpus += _of_cell(room, view, cell_on[last], pins)[: wanted.remainder]
    return gpus


def _scope(view: View, room: Room, wanted: Wanted, pins: Pins) -> _Scope:
    """Every node with enough for a full part, or for the remainder."""
    least = wanted.remainder or wanted.need
    scope = _Scope([], [])
    for count in range(least, len(view.node_bits)):
        bits = view.node_bits[count] & ~pins.node_bits
        kept = scope.enough if count >= wanted.need else scope.spare
        if bits:
            kept += [(node, count) for node in places_in(bits)]
    for node in places_in(pins.node_bits):
        count = sum(each for _, each in _counts_in(room, view, room.inventory.cells_of[node], pins))
        if count >= least:
            (scope.enough if count >= wanted.need else scope.spare).append((node, count))
    return scope


def _by_rack(room: Room, nodes: list[tuple[int, int]]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for node, count in nodes:
        found.setdefault(room.inventory.rack_of[node], []).append((node, count))
    return found


def _fastest(room: Room, nodes: list[tuple[int, int]]) -> list[int]:
    """Nodes by bandwidth, high first, then the tightest, then in canonical order."""
    if room.inventory.is_even:
        return [node for _, node in sorted([(count, node) for node, count in nodes])]
    bandwidth = room.inventory.bandwidth
    return [node for node, _ in sorted(nodes, key=lambda each: (-bandwidth[each[0]], each[1], each[0]))]


def _in_one_rack(room: Room, view: View, wanted: Wanted, *, scope: _Scope, pins: Pins) -> list[int] | None:
    enough, spare = _by_rack(room, scope.enough), _by_rack(room, scope.spare)
    best: tuple[float, int, str] | None = None
    for rack, nodes in enough.items():
        inside = _Scope(nodes, spare.get(rack, []))
        if not inside.suits(wanted):
            continue
        key = (-_bottleneck(room, wanted, inside), len(nodes) - wanted.nodes, rack)
        best = key if best is None else min(best, key)
    if best is None:
        return None
    rack = best[2]
    chosen = _fastest(room, enough[rack])[: wanted.nodes]
    others = enough[rack] + spare.get(rack, [])
    return _take(room, view, wanted, chosen=chosen, others=others, pins=pins)


def _bottleneck(room: Room, wanted: Wanted, scope: _Scope) -> float:
    """The bandwidth of the slowest node of the gang where it has the fastest ones of the scope, which suits it."""
    bandwidth = room.inventory.bandwidth
    if room.inventory.is_even:
        return bandwidth[0]
    slowest = sorted((bandwidth[node] for node, _ in scope.enough), reverse=True)[wanted.nodes - 1]
    if not wanted.remainder:
        return slowest
    every = sorted((bandwidth[node] for node, _ in scope.enough + scope.spare), reverse=True)
    return min(slowest, every[wanted.nodes])


def _over_racks(room: Room, view: View, wanted: Wanted, *, scope: _Scope, pins: Pins) -> list[int]:
    """The largest racks wholly, then the smallest that holds the rest: never more racks than needed.

    Of the sets of so few racks it is one whose slowest node for a full part has the most bandwidth.
    """

    def sizes(nodes: list[tuple[int, int]]) -> Iterable[int]:
        return Counter(room.inventory.rack_of[node] for node, _ in nodes).values()

    racks = _by_rack(room, _fast_enough(room, scope.enough, need=wanted.nodes, amounts=sizes))
    chosen: list[int] = []
    while len(chosen) < wanted.nodes:
        rest = wanted.nodes - len(chosen)
        last = min((rack for rack in racks if len(racks[rack]) >= rest), key=lambda r: (len(racks[r]), r), default=None)
        rack = last if last is not None else min(racks, key=lambda r: (-len(racks[r]), r))
        chosen += _fastest(room, racks.pop(rack))[:rest]
    return _take(room, view, wanted, chosen=chosen, others=scope.enough + scope.spare, pins=pins)


def _fast_enough(
    room: Room, nodes: list[tuple[int, int]], *, need: int, amounts: Callable[[list[tuple[int, int]]], Iterable[int]]
) -> list[tuple[int, int]]:
    """The fastest of the nodes, as many as it takes to get along with the fewest places.

    ``amounts``: how much of the ``need`` each place holds, given its nodes; with all of them it is met.
    """
    bandwidth = room.inventory.bandwidth
    if room.inventory.is_even:
        return nodes
    speeds = sorted({bandwidth[node] for node, _ in nodes}, reverse=True)
    if len(speeds) == 1:
        return nodes
    fewest = _fewest(amounts(nodes), need)

    def fast(speed: float) -> list[tuple[int, int]]:
        return [each for each in nodes if bandwidth[each[0]] >= speed]

    enough = bisect_left(speeds, True, key=lambda speed: _fewest(amounts(fast(speed)), need) == fewest)
    return fast(speeds[enough])


def _fewest(amounts: Iterable[int], need: int) -> int | None:
    """How many of the amounts add up to the need at least; None when all of them don't."""
    for count, amount in enumerate(sorted(amounts, reverse=True), 1):
        need -= amount
        if need <= 0:
            return count
    return None


def _take(
    room: Room, view: View, wanted: Wanted, *, chosen: list[int], others: list[tuple[int, int]], pins: Pins
) -> list[int]:
    gpus: list[int] = []
    for node in chosen:
        gpus += of_node(room, view, node, need=wanted.need, pins=pins)
    if wanted.remainder:
        gpus += of_node(room, view, _beside(room, chosen, others), need=wanted.remainder, pins=pins)
    return gpus


def _beside(room: Room, chosen: list[int], others: list[tuple[int, int]]) -> int:
    """The node of the remainder: in a rack with a full part, then of the most bandwidth, then the tightest."""
    racks, speed = room.inventory.rack_of, room.inventory.bandwidth
    used = {racks[node] for node in chosen}
    rest = [each for each in others if each[0] not in chosen]
    return min(rest, key=lambda each: (racks[each[0]] not in used, -speed[each[0]], each[1], each[0]))[0]


def of_node(room: Room, view: View, node: int, *, need: int, pins: Pins) -> list[int]:
    """``need`` GPUs of a node: of the tightest cell that has them all, else of the largest cells first."""
    counts = _counts_in(room, view, room.inventory.cells_of[node], pins)
    fitting = [(count, cell) for cell, count in counts if count >= need]
    if fitting:
        return _of_cell(room, view, min(fitting)[1], pins)[:need]
    gpus: list[int] = []
    for cell, _ in sorted(counts, key=lambda each: (-each[1], each[0])):
        gpus += _of_cell(room, view, cell, pins)
    return gpus[:need]


def _of_cell(room: Room, view: View, cell: int, pins: Pins) -> list[int]:
    return room.inventory.gpus_in(cell, room.free[cell] & view.eligible[cell] & ~pins.cells.get(cell, 0))


def find_spread(room: Room, view: View, wanted: Wanted, pins: Pins) -> list[int] | None:
    """GPUs anywhere, on the fewest nodes: the fullest wholly, then the tightest that holds the rest.

    Of the sets of so few nodes it is one whose slowest node has the most bandwidth.
    """
    view.with_nodes()
    counts = {node: count for node, count in enumerate(view.node_count) if count}
    for node in places_in(pins.node_bits):
        counts[node] = sum(each for _, each in _counts_in(room, view, room.inventory.cells_of[node], pins))
    rest = wanted.request.gpu_count
    if sum(counts.values()) < rest:
        return None
    counts = dict(
        _fast_enough(room, list(counts.items()), need=rest, amounts=lambda nodes: [count for _, count in nodes])
    )
    gpus: list[int] = []
    for node in sorted(counts, key=lambda node: (-counts[node], node)):
        last = min(((count, place) for place, count in counts.items() if count >= rest), default=None)
        if last is not None:
            return gpus + of_node(room, view, last[1], need=rest, pins=pins)
        gpus += of_node(room, view, node, need=counts[node], pins=pins)
        rest -= counts.pop(node)
    raise AssertionError("the counts add up to enough, yet no node held the rest")
