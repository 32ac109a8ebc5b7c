"""Where best? The GPUs a job gets of those that are free: one node, one NVLink group, or several nodes together.

Packing tightly, and using up what is already broken, keeps large places whole for the jobs that need them.
"""

from __future__ import annotations

from scheduling.core.bits import places_in
from scheduling.core.gangs import find_gang, find_spread, has_nodes, is_possible
from scheduling.core.preference import MIXED
from scheduling.core.room import NO_PINS, Pins, Room, Wanted
from scheduling.core.view import Span, View, tier_of


def find(room: Room, wanted: Wanted, pins: Pins = NO_PINS, *, span: Span | None = None) -> list[int] | None:
    """The GPUs (by index, node by node) the job is best placed on, or None when it doesn't fit now.

    ``pins`` are left out; ``span`` is the time it would run, where it is to start there. Preferred rules are dropped
    from the lightest on. An exclusive job gets a whole group: its own GPUs first.
    """
    if wanted.count > room.free_count:
        return None
    if not wanted.is_plain:
        for wishes in range(len(wanted.wishes), 0, -1):
            place = _find(room, wanted, pins, wishes=wishes, span=span)
            if place is not None:
                return place
        return _find(room, wanted, pins, wishes=0, span=span)
    return on_one_node(room, room.view(wanted), wanted, pins, span=span)


def is_told_by_counts(room: Room, wanted: Wanted) -> bool:
    """Whether it fits where enough GPUs are, whatever else is so.

    So it is for a job that can only lie in one cell, and for equal parts on any nodes whatever.
    """
    if wanted.is_plain:
        return wanted.need == 1 or wanted.nvlink or not room.inventory.is_split
    anywhere = not (wanted.remainder or wanted.nvlink or wanted.strict or wanted.wishes)
    return wanted.is_gang and anywhere and wanted.request.required_level is None


def fits(room: Room, wanted: Wanted, pins: Pins = NO_PINS) -> bool:
    """Whether :func:`find` finds a place; where the counts tell, none is looked for."""
    if not is_told_by_counts(room, wanted):
        return find(room, wanted, pins) is not None
    if wanted.count > room.free_count:
        return False
    view = room.view(wanted)
    if wanted.is_gang:
        return has_nodes(room, view, wanted, pins)
    return view.has_place(wanted.need, nvlink=wanted.nvlink, pins=pins)


def fits_with(room: Room, wanted: Wanted, pins: Pins, *, opened: dict[int, int]) -> bool:
    """Whether it would fit if these GPUs, a mask per cell of such as take work and are held now, were free too."""
    if wanted.count <= room.free_count and fits(room, wanted, pins):
        return True
    if not is_told_by_counts(room, wanted):
        room.give(opened)
        fit = fits(room, wanted, pins)
        room.take(opened)
        return fit
    view, inventory = room.view(wanted), room.inventory
    if wanted.is_gang:
        return has_nodes(room, view, wanted, pins, opened=opened)
    for cell, mask in opened.items():
        if wanted.nvlink and not inventory.group_of[cell]:
            continue
        suited = (room.free[cell] | mask) & view.eligible[cell] & ~pins.cells.get(cell, 0)
        if suited.bit_count() >= wanted.need:
            return True
    return False


def is_out_of_question(room: Room, wanted: Wanted) -> bool:
    """The cheap answer for most that wait: True when it fits nowhere, whatever is pinned."""
    if wanted.count > room.free_count:
        return True
    if wanted.is_gang:
        return not wanted.wishes and not is_possible(room.view(wanted), wanted)
    if is_told_by_counts(room, wanted):
        return not room.view(wanted).may_fit(wanted.need, nvlink=wanted.nvlink)
    return False


def _find(room: Room, wanted: Wanted, pins: Pins, *, wishes: int, span: Span | None) -> list[int] | None:
    if wanted.is_gang:
        return find_gang(room, wanted, pins, wishes=wishes)
    view = room.view(wanted, wishes=wishes)
    if wanted.exclusive:
        return _whole_group(room, view, wanted, pins)
    place = on_one_node(room, view, wanted, pins, span=span)
    if place is None and wanted.request.allow_span:
        return find_spread(room, view, wanted, pins)
    return place


def on_one_node(room: Room, view: View, wanted: Wanted, pins: Pins, *, span: Span | None = None) -> list[int] | None:
    """GPUs of one cell, or, for a job that needs no NVLink, of several cells of one node."""
    need = wanted.need
    claimed = 0 if room.claims is None else room.claims.against(wanted)
    cell = view.best_cell(need, nvlink=wanted.nvlink, pins=pins, claimed=claimed, span=span)
    if cell is not None:
        mask = room.free[cell] & view.eligible[cell] & ~pins.cells.get(cell, 0)
        return take_from_cell(room, cell, mask, need=need)
    if need > 1 and not wanted.nvlink and room.inventory.is_split:
        return _across(room, view, need, pins)
    return None


def take_from_cell(room: Room, cell: int, mask: int, *, need: int) -> list[int]:
    """``need`` GPUs of the mask: of the smallest memory class that has so many, else the smallest ones mixed."""
    gpus = room.inventory.gpus_in(cell, mask)
    if room.inventory.is_mixed[cell]:
        tier = tier_of(room, cell, mask, need=need)
        if tier != MIXED:
            gpus = [gpu for gpu in gpus if room.inventory.memory_class[gpu] == tier]
    return gpus[:need]


def take_whole_cell(room: Room, cell: int, eligible: int, *, need: int) -> list[int]:
    """All GPUs of a cell: ``need`` of the eligible ones first, which are the job's own, then the rest."""
    own = take_from_cell(room, cell, eligible, need=need)
    inventory = room.inventory
    return own + [gpu for gpu in inventory.gpus_in(cell, inventory.full[cell]) if gpu not in own]


def _across(room: Room, view: View, need: int, pins: Pins) -> list[int] | None:
    """GPUs of several cells of one node: the smallest memory, then the tightest node; the largest cells first."""
    view.with_nodes()
    inventory = room.inventory
    best: tuple[int, int, int] | None = None
    bits = 0
    for count in range(need, len(view.node_bits)):
        bits |= view.node_bits[count]
    bits &= inventory.split_bits
    for node in places_in(bits):
        gpus = free_on(room, view, node, pins)
        if len(gpus) >= need:
            key = (_node_tier(room, gpus, need), len(gpus), node)
            best = key if best is None else min(best, key)
    if best is None:
        return None
    return take_from_node(room, free_on(room, view, best[2], pins), need=need, tier=best[0])


def free_on(room: Room, view: View, node: int, pins: Pins) -> list[int]:
    """The free suitable GPUs of a node, in canonical order."""
    inventory = room.inventory
    found: list[int] = []
    for cell in inventory.cells_of[node]:
        found += inventory.gpus_in(cell, room.free[cell] & view.eligible[cell] & ~pins.cells.get(cell, 0))
    return found


def _node_tier(room: Room, gpus: list[int], need: int) -> int:
    classes = [room.inventory.memory_class[gpu] for gpu in gpus]
    return min((each for each in set(classes) if classes.count(each) >= need), default=MIXED)


def take_from_node(room: Room, gpus: list[int], *, need: int, tier: int = MIXED) -> list[int]:
    """``need`` of the GPUs, which lie on one node: largest cells first, of one memory class unless ``MIXED``."""
    inventory = room.inventory
    by_cell: dict[int, int] = {}
    for gpu in gpus:
        by_cell[inventory.cell_of[gpu]] = by_cell.get(inventory.cell_of[gpu], 0) + 1
    if tier != MIXED:
        gpus = [gpu for gpu in gpus if inventory.memory_class[gpu] == tier]
    gpus = sorted(gpus, key=lambda gpu: (-by_cell[inventory.cell_of[gpu]], gpu))
    return gpus[:need]


def _whole_group(room: Room, view: View, wanted: Wanted, pins: Pins) -> list[int] | None:
    """All GPUs of the smallest wholly free group that has enough suitable ones."""
    inventory, need = room.inventory, wanted.need
    best: tuple[int, int, int] | None = None
    for cell, free in enumerate(room.free):
        if not free or not inventory.whole_group[cell] or free != inventory.full[cell] or cell in pins.cells:
            continue
        suited = free & view.eligible[cell]
        if suited.bit_count() >= need:
            key = (inventory.size[cell], tier_of(room, cell, suited, need=need), cell)
            best = key if best is None else min(best, key)
    if best is None:
        return None
    return take_whole_cell(room, best[2], view.eligible[best[2]], need=need)
