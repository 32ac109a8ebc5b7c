"""How much is missing where? The nearest place to a request, when too little is free for it."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.plan import Number
from scheduling.core.room import Room, Wanted
from scheduling.core.view import View
from scheduling.core.words import gpus_in_words, nodes_in_words, place_word, wanted_in_words

Shortage = tuple[str, str, tuple[tuple[str, Number], ...]]


def shortage(room: Room, wanted: Wanted) -> Shortage:
    """(code, message, numbers): BUSY, FRAGMENTED, GANG_NODES or GANG_RACK."""
    view = room.view(wanted)
    view.sync()
    if wanted.request.is_gang:
        return _of_gang(room, view, wanted)
    return _of_one_place(room, view, wanted)


def most_in_one_place(room: Room, wanted: Wanted) -> int:
    """The most suitable GPUs free in one place that the request may not cross; of a gang or a spread one, in all."""
    view = room.view(wanted)
    view.sync()
    if wanted.request.is_gang or wanted.request.allow_span:
        return sum(view.count)
    return max((_free_in(room, view, cells) for _, cells in _places(room, wanted)), default=0)


def _free_in(room: Room, view: View, cells: Iterable[int]) -> int:
    return sum((room.free[cell] & view.eligible[cell]).bit_count() for cell in cells)


def _of_one_place(room: Room, view: View, wanted: Wanted) -> Shortage:
    request, inventory = wanted.request, room.inventory
    need, free = request.gpu_count, sum(view.count)
    words = wanted_in_words(request)
    if request.allow_span:
        numbers: tuple[tuple[str, Number], ...] = (("need", need), ("free", free), ("short", need - free))
        return "BUSY", f"Needs {words}; {free} suitable free, {need - free} short.", numbers
    best: tuple[int, int, str, int] | None = None
    for name, cells in _places(room, wanted):
        installed = sum((room.usable[cell] & view.eligible[cell]).bit_count() for cell in cells)
        if installed < need:
            continue
        here = _free_in(room, view, cells)
        missing = need - here
        if wanted.exclusive:
            missing = sum(inventory.size[cell] - room.free[cell].bit_count() for cell in cells)
        key = (missing, len(cells), name, here)
        best = key if best is None else min(best, key)
    if best is None:
        return "BUSY", f"Needs {words}; {free} suitable free.", (("need", need), ("free", free))
    missing, _, name, here = best
    place = place_word(request)
    numbers = (
        ("need", need), ("free", free), ("best_domain", name), ("best_free", here), ("short", missing),
    )  # fmt: skip
    if free >= need:
        message = f"Enough GPUs are free ({free}), but not in one {place}: {name} is {missing} short. It needs {words}."
        return "FRAGMENTED", message, numbers
    return (
        "BUSY",
        f"Needs {words}; {free} suitable free. The nearest {place} is {name}, {missing} short.",
        numbers,
    )


def _places(room: Room, wanted: Wanted) -> list[tuple[str, list[int]]]:
    """The boundaries a job of one node may not cross: by name, with their cells."""
    inventory = room.inventory
    if wanted.nvlink or wanted.exclusive:
        cells = [cell for cell, group in enumerate(inventory.group_of) if group]
        if wanted.exclusive:
            cells = [cell for cell in cells if inventory.whole_group[cell]]
        return [(inventory.group_of[cell], [cell]) for cell in cells]
    return [(inventory.nodes[node].name, cells) for node, cells in enumerate(inventory.cells_of) if cells]


def _of_gang(room: Room, view: View, wanted: Wanted) -> Shortage:
    request, inventory = wanted.request, room.inventory
    words = wanted_in_words(request)
    ready = [node for node, cells in enumerate(inventory.cells_of) if _free_in(room, view, cells) >= wanted.need]
    free = sum(view.count)
    numbers: tuple[tuple[str, Number], ...] = (
        ("need", request.gpu_count), ("free", free), ("need_nodes", wanted.nodes), ("ready_nodes", len(ready)),
        ("short_nodes", max(0, wanted.nodes - len(ready))),
    )  # fmt: skip
    each = gpus_in_words(wanted.need)
    if len(ready) >= wanted.nodes and (request.required_level or wanted.nvlink or wanted.strict):
        where = "NVLink group" if wanted.nvlink or request.required_level == "nvlink_group" else "rack"
        message = (
            f"{nodes_in_words(len(ready))} have {each} free, but not enough of them in one {where}. It needs {words}."
        )
        return "GANG_RACK", message, numbers
    if free >= request.gpu_count and len(ready) < wanted.nodes:
        message = f"Needs {words}; {free} suitable are free, but only {nodes_in_words(len(ready))} have {each} free."
    else:
        message = f"Needs {words}; {nodes_in_words(len(ready))} have {each} free, {free} suitable free in all."
    return "GANG_NODES", message, numbers
