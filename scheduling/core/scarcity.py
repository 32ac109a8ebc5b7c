"""How much is missing where? The nearest place to a request, when too little is free for it."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.core.bits import places_in
from scheduling.core.plan import Number
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.view import View
from scheduling.core.words import agree, gpus_in_words, nodes_in_words, place_word, wanted_in_words

Numbers = tuple[tuple[str, Number], ...]
Shortage = tuple[str, str, Numbers]


def shortage(room: Room, wanted: Wanted, request: ResourceRequest) -> Shortage:
    """(code, message, numbers): BUSY, FRAGMENTED, GANG_NODES or GANG_RACK. ``request``: as its owner wrote it."""
    view = room.view(wanted)
    view.with_nodes()
    if request.is_gang:
        return _of_gang(room, view, wanted, request)
    return _of_one_place(room, view, wanted, request)


def most_in_one_place(room: Room, wanted: Wanted) -> int:
    """The most suitable GPUs free in one place that the request may not cross; of a gang or a spread one, in all."""
    view = room.view(wanted)
    view.with_nodes()
    if wanted.request.is_gang or wanted.request.allow_span:
        return _total(view)
    return max((count for count, _ in _places(room, view, wanted)), default=0)


def ready_nodes(room: Room, wanted: Wanted) -> int:
    """How many nodes have enough suitable GPUs free for a full part of the job."""
    view = room.view(wanted)
    view.with_nodes()
    return sum(bits.bit_count() for bits in view.node_bits[wanted.need :])


def _total(view: View) -> int:
    return sum(count * bits.bit_count() for count, bits in enumerate(view.node_bits))


def _of_one_place(room: Room, view: View, wanted: Wanted, request: ResourceRequest) -> Shortage:
    need, free = request.gpu_count, _total(view)
    words = wanted_in_words(request)
    if request.allow_span:
        numbers: Numbers = (("need", need), ("free", free), ("short", need - free))
        return "BUSY", f"Needs {words}; {free} suitable free, {need - free} short.", numbers
    nearest = _nearest(room, view, wanted)
    if nearest is None:
        return "BUSY", f"Needs {words}; {free} suitable free.", (("need", need), ("free", free))
    name, here, missing = nearest
    place = place_word(request)
    numbers = (
        ("need", need), ("free", free), ("best_domain", name), ("best_free", here), ("short", missing),
    )  # fmt: skip
    if free >= need:
        message = f"Enough GPUs are free ({free}), but not in one {place}: {name} is {missing} short. It needs {words}."
        return "FRAGMENTED", message, numbers
    message = f"Needs {words}; {free} suitable free. The nearest {place} is {name}, {missing} short."
    return "BUSY", message, numbers


def _nearest(room: Room, view: View, wanted: Wanted) -> tuple[str, int, int] | None:
    """(name, free there, missing) of the place that lacks least, of those that could hold the job when empty."""
    inventory, need = room.inventory, wanted.need
    for count, place in _places(room, view, wanted):
        cells = [place] if wanted.nvlink else inventory.cells_of[place]
        name = inventory.group_of[place] if wanted.nvlink else inventory.nodes[place].name
        if sum((room.usable[cell] & view.eligible[cell]).bit_count() for cell in cells) >= need:
            if wanted.exclusive:
                return name, count, inventory.size[place] - room.free[place].bit_count()
            return name, count, need - count
    return None


def _places(room: Room, view: View, wanted: Wanted) -> Iterator[tuple[int, int]]:
    """(free suitable GPUs, place): the boundaries a job of one node may not cross, those with most free first."""
    inventory = room.inventory
    if wanted.exclusive:
        whole = [cell for cell in range(len(inventory.full)) if inventory.whole_group[cell]]
        by_missing = sorted(whole, key=lambda cell: (inventory.size[cell] - room.free[cell].bit_count(), cell))
        yield from ((view.count[cell], cell) for cell in by_missing)
        return
    by_count = view.by_count_in_groups if wanted.nvlink else view.node_bits
    rest = by_count[0]
    for count in range(len(by_count) - 1, -1, -1):
        bits = rest if count == 0 else by_count[count]
        if bits:
            yield count, (bits & -bits).bit_length() - 1
            for place in places_in(bits & (bits - 1)):
                yield count, place


def _of_gang(room: Room, view: View, wanted: Wanted, request: ResourceRequest) -> Shortage:
    words = wanted_in_words(request)
    ready = ready_nodes(room, wanted)
    free = _total(view)
    numbers: Numbers = (
        ("need", request.gpu_count), ("free", free), ("need_nodes", wanted.nodes), ("ready_nodes", ready),
        ("short_nodes", max(0, wanted.nodes - ready)),
    )  # fmt: skip
    nodes, each = f"{nodes_in_words(ready)} {agree(ready, 'has', 'have')}", gpus_in_words(wanted.need)
    if ready >= wanted.nodes and (request.required_level or wanted.nvlink or wanted.strict):
        where = "NVLink group" if wanted.nvlink or request.required_level == "nvlink_group" else "rack"
        message = f"{nodes} {each} free, but not enough of them in one {where}. It needs {words}."
        return "GANG_RACK", message, numbers
    if free >= request.gpu_count and ready < wanted.nodes:
        message = f"Needs {words}; {free} suitable {agree(free, 'is', 'are')} free, but only {nodes} {each} free."
    else:
        message = f"Needs {words}; {nodes} {each} free, {free} suitable free in all."
    return "GANG_NODES", message, numbers
