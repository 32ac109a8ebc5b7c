"""When and where can a blocked job start at the latest? By the ``max_duration`` of what runs and what is promised."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.core.bits import lowest_in, places_in
from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.forecast import CELL, NODE, WHOLE, Choice, Forecast, Releases
from scheduling.core.gangs import ANYWHERE, GROUP, RACK, rungs_of
from scheduling.core.inventory import Inventory
from scheduling.core.outlook import Outlook, outlook_of
from scheduling.core.placement import take_whole_cell
from scheduling.core.room import Room, Wanted
from scheduling.core.view import View


@dataclass(slots=True)
class Asked:
    """One job's question. ``sooner``: GPUs it may take from others, with the instant by which it would have them;
    ``later``: GPUs it may not have before an instant, whoever has left them by then.
    ``from_ms``: it starts no sooner, and may end before what is promised to others begins; 0: past every promise."""

    wanted: Wanted
    project: str
    duration_ms: int
    sooner: dict[int, int] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)
    patience_ms: int = 0
    from_ms: int = 0


def earliest(room: Room, releases: Releases, bookings: Bookings, asked: Asked) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start of the job, or None when the pool has no place for it as it is now."""
    return _earliest(room, asked.wanted, outlook_of(releases, bookings, asked), patience_ms=asked.patience_ms)


def _earliest(room: Room, wanted: Wanted, outlook: Outlook, *, patience_ms: int) -> tuple[int, list[int]] | None:
    view = room.view(wanted)
    if wanted.is_gang:
        return _gang(room, view, wanted, outlook=outlook, patience_ms=patience_ms)
    if wanted.request.allow_span:
        return _spread(room, view, wanted, outlook=outlook)
    forecast = outlook.releases.forecast(view, _kind(wanted), wanted.need)
    start, place = outlook.first(forecast)
    if start >= NEVER:
        return None
    if wanted.exclusive:
        return start, take_whole_cell(room, place, view.eligible[place], need=wanted.need)
    return start, outlook.ready(forecast.members[place], wanted.need, start)


def earliest_place(room: Room, wanted: Wanted, outlook: Outlook) -> tuple[int, str] | None:
    """(start in ms, where) of :func:`earliest`: the NVLink group for a job that needs one, else its first node.

    The GPUs themselves are only found where they must be to tell. No patience for a single rack.
    """
    inventory, releases = room.inventory, outlook.releases
    if not wanted.is_gang and not wanted.request.allow_span:
        start, place = outlook.first(releases.forecast(room.view(wanted), _kind(wanted), wanted.need))
        if start >= NEVER:
            return None
        return start, inventory.group_of[place] if wanted.nvlink else inventory.nodes[place].name
    if _is_of_equal_parts(room, wanted):
        choice = _choice(releases.forecast(room.view(wanted), NODE, wanted.need), outlook, wanted.nodes)
        return None if choice is None else (choice.start_ms, inventory.nodes[choice.places[0]].name)
    found = _earliest(room, wanted, outlook, patience_ms=0)
    if found is None:
        return None
    return found[0], place_name(inventory, wanted, found[1])


def place_name(inventory: Inventory, wanted: Wanted, gpus: list[int]) -> str:
    """The NVLink group of these GPUs for a job that needs one, else their first node."""
    if wanted.nvlink:
        return inventory.group_of[min(inventory.cells_of_gpus(gpus))]
    return inventory.nodes_of(gpus)[0]


def _kind(wanted: Wanted) -> int:
    """The kind of the places of which a job of one node takes one."""
    return WHOLE if wanted.exclusive else CELL if wanted.nvlink else NODE


def _is_of_equal_parts(room: Room, wanted: Wanted) -> bool:
    """Whether it is a gang without a remainder that may lie anywhere."""
    return wanted.is_gang and not wanted.remainder and rungs_of(room, wanted)[1] == ANYWHERE


def _spread(room: Room, view: View, wanted: Wanted, *, outlook: Outlook) -> tuple[int, list[int]] | None:
    gpus = [gpu for cell, mask in enumerate(view.eligible) for gpu in room.inventory.gpus_in(cell, mask)]
    count = wanted.request.gpu_count
    if len(gpus) < count:
        return None
    start = sorted(outlook.by(gpu) for gpu in gpus)[count - 1]
    return None if start >= NEVER else (start, outlook.ready(gpus, count, start))


@dataclass(slots=True)
class _Parts:
    """By when each of the places (nodes or cells) can give a full part, and a remainder."""

    full: Forecast
    by_full: list[int]
    rest: Forecast | None
    by_rest: list[int]

    def start(self, places: list[int], nodes: int) -> int:
        """By when ``nodes`` of the places can give a full part, and one more the remainder."""
        if len(places) < nodes + (self.rest is not None):
            return NEVER
        start = sorted([self.by_full[place] for place in places])[nodes - 1]
        if self.rest is not None:
            start = max(start, sorted([self.by_rest[place] for place in places])[nodes])
        return start

    def gpus(self, places: list[int], nodes: int, *, start_ms: int, outlook: Outlook) -> list[int]:
        """The GPUs of the first places that are ready by then."""
        full = [place for place in places if self.by_full[place] <= start_ms][:nodes]
        chosen: list[int] = []
        for place in full:
            chosen += outlook.ready(self.full.members[place], self.full.need, start_ms)
        if self.rest is not None:
            last = next(place for place in places if self.by_rest[place] <= start_ms and place not in full)
            chosen += outlook.ready(self.rest.members[last], self.rest.need, start_ms)
        return chosen


def _parts(view: View, kind: int, wanted: Wanted, outlook: Outlook) -> _Parts:
    full, by_full = outlook.places(view, kind, wanted.need)
    if not wanted.remainder:
        return _Parts(full, by_full, None, [])
    rest, by_rest = outlook.places(view, kind, wanted.remainder)
    return _Parts(full, by_full, rest, by_rest)


def _gang(
    room: Room, view: View, wanted: Wanted, *, outlook: Outlook, patience_ms: int
) -> tuple[int, list[int]] | None:
    inventory = room.inventory
    _, highest = rungs_of(room, wanted)
    if highest == GROUP:
        parts = _parts(view, CELL, wanted, outlook)
        scopes = [(group, inventory.group_cells[group]) for group in inventory.spanning]
        return _best(parts, wanted, scopes, outlook=outlook)
    if _is_of_equal_parts(room, wanted):
        forecast = outlook.releases.forecast(view, NODE, wanted.need)
        return _equal_parts(forecast, outlook, wanted.nodes, patience_ms=patience_ms)
    parts = _parts(view, NODE, wanted, outlook)
    racks = list(inventory.nodes_of_rack.items())
    if highest == RACK or len(racks) == 1:
        return _best(parts, wanted, racks, outlook=outlook)
    everywhere = list(range(len(inventory.nodes)))
    anywhere = parts.start(everywhere, wanted.nodes)
    if anywhere >= NEVER:
        return None
    in_one = _best(parts, wanted, racks, outlook=outlook)
    if in_one is not None and in_one[0] <= anywhere + patience_ms:
        return in_one
    return anywhere, parts.gpus(everywhere, wanted.nodes, start_ms=anywhere, outlook=outlook)


def _equal_parts(forecast: Forecast, outlook: Outlook, nodes: int, *, patience_ms: int) -> tuple[int, list[int]] | None:
    choice = _choice(forecast, outlook, nodes, patience_ms=patience_ms)
    if choice is None:
        return None
    gpus: list[int] = []
    for node in choice.places:
        gpus += outlook.ready(forecast.members[node], forecast.need, choice.start_ms)
    return choice.start_ms, gpus


def _choice(forecast: Forecast, outlook: Outlook, nodes: int, *, patience_ms: int = 0) -> Choice | None:
    """The nodes of a gang of equal parts. Only those that are ready in time are looked at."""
    key = (nodes, patience_ms)
    until, beside = -1, None
    for choice in reversed(forecast.kept.get(key, ())):
        if choice.until_ms != until:  # mostly all of them have the same
            until = choice.until_ms
            beside = outlook.beside(forecast, until)
        if choice.beside == beside:
            return choice
    ready = outlook.soonest(forecast, nodes, patience_ms=patience_ms)
    if not ready:
        return None
    start, until, places = _chosen(
        ready, nodes, forecast.racks(nodes), outlook.releases.inventory, patience_ms=patience_ms
    )
    choice = Choice(start, until, places, outlook.beside(forecast, until))
    forecast.keep(key, choice)
    return choice


def _chosen(
    steps: list[tuple[int, int]], nodes: int, racks: list[str], inventory: Inventory, *, patience_ms: int
) -> tuple[int, int, tuple[int, ...]]:
    """(start, until, places) of a choice: one of the racks, if one has so many of the nodes that are ready in time,
    else the first of them all."""
    start, ready, first = -1, 0, 0
    in_rack = inventory.rack_bits
    for instant, places in steps:
        ready |= places
        if ready.bit_count() < nodes:
            continue
        if start < 0:
            start, first, touched = instant, ready, racks
        else:
            touched = sorted({inventory.rack_of[node] for node in places_in(places)})
        for rack in touched:
            if (ready & in_rack[rack]).bit_count() >= nodes:
                return instant, start + patience_ms, tuple(lowest_in(ready & in_rack[rack], nodes))
    return start, start + patience_ms, tuple(lowest_in(first, nodes))


def _best(
    parts: _Parts, wanted: Wanted, scopes: list[tuple[str, list[int]]], *, outlook: Outlook
) -> tuple[int, list[int]] | None:
    start, _, places = min(
        ((parts.start(places, wanted.nodes), name, places) for name, places in scopes), default=(NEVER, "", [])
    )
    if start >= NEVER:
        return None
    return start, parts.gpus(places, wanted.nodes, start_ms=start, outlook=outlook)
