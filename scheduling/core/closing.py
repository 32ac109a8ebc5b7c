"""Which promises keep a job off GPUs that are free now, and when do windows let it on them again?

Only those count that lie where the job could lie: by its memory, its required rules, and the size of the place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import and_

from scheduling.core.bookings import Booking, Bookings
from scheduling.core.gangs import ANYWHERE, GROUP, RACK, rungs_of
from scheduling.core.placement import find
from scheduling.core.room import Pins, Room, Wanted
from scheduling.core.waiting import Queued


def suiting(room: Room, wanted: Wanted) -> Sequence[int]:
    """The GPUs that would suit the job, free or not, as a mask for each cell."""
    return room.inventory.full if wanted.exclusive else room.view(wanted).eligible


def able(room: Room, wanted: Wanted, gpus: Sequence[int]) -> list[int]:
    """Those of the GPUs, a mask for each cell, that suit the job and are of places that could hold it, or a part of
    it, if just these GPUs were free."""
    inventory, request = room.inventory, wanted.request
    suited = list(map(and_, gpus, suiting(room, wanted)))
    if request.allow_span:
        return suited
    some = [cell for cell, mask in enumerate(suited) if mask]
    if wanted.exclusive:
        eligible = room.view(wanted).eligible
        held = [
            cell for cell in some
            if inventory.whole_group[cell] and suited[cell] == inventory.full[cell]
            and eligible[cell].bit_count() >= wanted.need
        ]  # fmt: skip
    else:
        held = _large_enough(room, wanted, {cell: suited[cell].bit_count() for cell in some})
    found = [0] * len(suited)
    for cell in held:
        found[cell] = suited[cell]
    return found


def _large_enough(room: Room, wanted: Wanted, counts: Mapping[int, int]) -> list[int]:
    """Those of the cells, with so many GPUs each, whose place could hold a part of the job and others the rest."""
    inventory = room.inventory
    rung = rungs_of(room, wanted)[1] if wanted.is_gang else ANYWHERE
    in_groups = wanted.nvlink or rung == GROUP
    least = wanted.remainder or wanted.need
    in_place: Counter[int] = Counter()
    for cell, count in counts.items():
        in_place[cell if in_groups else inventory.node_of[cell]] += (
            count if inventory.group_of[cell] or not in_groups else 0
        )
    scopes = {place: _scope(room, place, rung) for place, count in in_place.items() if count >= least}
    parts = Counter(scopes.values())
    full_parts = Counter(scope for place, scope in scopes.items() if in_place[place] >= wanted.need)
    return [
        cell for cell in counts
        if (scope := scopes.get(cell if in_groups else inventory.node_of[cell])) is not None
        and full_parts[scope] >= wanted.nodes and parts[scope] >= wanted.nodes + bool(wanted.remainder)
    ]  # fmt: skip


def _scope(room: Room, place: int, rung: int) -> str:
    """What a gang on this rung may not leave that has a part in the place: a group, of which it is a cell, or a rack,
    of which it is a node."""
    if rung == GROUP:
        return room.inventory.group_of[place]
    return room.inventory.nodes[place].rack_id if rung == RACK else ""


def in_reach(room: Room, bookings: Bookings, queued: Queued, gpus: Sequence[int]) -> list[Booking]:
    """The promises of such of the GPUs as are free, from before the job's end on."""
    end = bookings.now_ms + queued.duration_ms
    return [each for each in bookings.blocking(queued.owner[1]) if each.start_ms < end and _of(each, room, gpus)]


def free_in(room: Room, promises: Iterable[Booking], gpus: Sequence[int]) -> dict[int, int]:
    """Such of the GPUs as are free and promised so, as a mask per cell."""
    found: dict[int, int] = {}
    for each in promises:
        for cell, mask in _of(each, room, gpus).items():
            found[cell] = found.get(cell, 0) | mask
    return found


def _of(promise: Booking, room: Room, gpus: Sequence[int]) -> dict[int, int]:
    masks = {cell: mask & room.free[cell] & gpus[cell] for cell, mask in promise.cells.items()}
    return {cell: mask for cell, mask in masks.items() if mask}


def fits_beside(room: Room, promises: Iterable[Booking], wanted: Wanted) -> bool:
    """Whether the job would fit now if nothing else was promised."""
    cells: dict[int, int] = {}
    for each in promises:
        cells |= {cell: cells.get(cell, 0) | mask for cell, mask in each.cells.items()}
    return find(room, wanted, Pins(cells, room.inventory.node_of)) is not None


def opening(room: Room, bookings: Bookings, queued: Queued, gpus: Sequence[int]) -> tuple[list[Booking], int]:
    """(windows, instant): those that keep a job off such of the GPUs as are free, though it fits on them, and when it
    would fit there by what the windows say, which is the end of one of them."""
    project, duration = queued.owner[1], queued.duration_ms
    windows = [each for each in bookings.windows_for(project) if _of(each, room, gpus)]
    *ends, at = sorted({each.end_ms for each in windows})
    for end in ends:
        closed = [each for each in windows if each.end_ms > end and each.start_ms < end + duration]
        if fits_beside(room, closed, queued.shape.wanted):
            at = end
            break
    until = max(at, bookings.now_ms + duration)
    return [each for each in windows if each.start_ms < until], at


def first_open(room: Room, windows: Iterable[Booking], gpus: dict[int, int]) -> int:
    """When the first node of these GPUs, a mask per cell, is closed by none of the windows any more."""
    last: dict[int, int] = {}
    for each in windows:
        for cell in each.cells:
            if cell in gpus:
                node = room.inventory.node_of[cell]
                last[node] = max(each.end_ms, last.get(node, 0))
    return min(last.values())
