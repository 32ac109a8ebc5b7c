"""When and where can a blocked job start at the latest? By the ``max_duration`` of what runs and what is promised."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.forecast import CELL, NODE, WHOLE, Choice, Forecast, Releases
from scheduling.core.gangs import ANYWHERE, GROUP, RACK, rungs_of
from scheduling.core.placement import take_whole_cell
from scheduling.core.room import Room, Wanted
from scheduling.core.view import View


@dataclass(slots=True)
class Asked:
    """One job's question. ``sooner``: GPUs it may take from others, with the instant by which it would have them."""

    wanted: Wanted
    project: str
    duration_ms: int
    sooner: dict[int, int] = field(default_factory=dict)
    patience_ms: int = 0


class Outlook:
    """The expected releases as one job sees them, past the promises made to others before."""

    def __init__(self, room: Room, releases: Releases, bookings: Bookings, asked: Asked) -> None:
        self.releases, self.version = releases, releases.version
        at, changed = releases.at, dict(asked.sooner)
        for gpu, instant in asked.sooner.items():
            changed[gpu] = min(instant, at[gpu])
        for booking in bookings.reservations:
            end = booking.end_ms
            for gpu in booking.gpus:
                if changed.get(gpu, at[gpu]) < end:
                    changed[gpu] = end
        for window in bookings.windows_for(asked.project):
            start, end, duration = window.start_ms, window.end_ms, asked.duration_ms
            for gpu in window.gpus:
                instant = changed.get(gpu, at[gpu])
                if instant < end and max(instant, bookings.now_ms) + duration > start:
                    changed[gpu] = end
        self._changed = changed  # by GPU, where it may differ from the releases
        inventory = room.inventory
        self._cells = {inventory.cell_of[gpu] for gpu in changed}
        self._nodes = {inventory.node_of[cell] for cell in self._cells}

    def by(self, gpu: int) -> int:
        """By when the job can have this GPU."""
        return self._changed.get(gpu, self.releases.at[gpu])

    def places(self, view: View, kind: int, need: int) -> tuple[Forecast, list[int]]:
        """By when each place of the kind has ``need`` suitable GPUs for the job."""
        forecast = self.releases.forecast(view, kind, need)
        changed = self._nodes if kind == NODE else self._cells
        if not changed:
            return forecast, forecast.by
        by = list(forecast.by)
        for instant, place in self._other(forecast, changed):
            by[place] = instant
        return forecast, by

    def first(self, forecast: Forecast) -> tuple[int, int]:
        """(instant, place) of the place that is ready first; NEVER when none ever is."""
        changed = self._nodes if forecast.kind == NODE else self._cells
        found = min(self._other(forecast, changed), default=(NEVER, -1)) if changed else (NEVER, -1)
        for each in forecast.order:
            if each[1] not in changed:
                return min(each, found)
        return found

    def others(self, forecast: Forecast) -> tuple[tuple[int, int], ...]:
        """(instant, place) of the places that promises may have changed, as the job sees them; the soonest first."""
        return tuple(sorted(self._other(forecast, self._nodes if forecast.kind == NODE else self._cells)))

    def soonest(
        self, forecast: Forecast, count: int, other: tuple[tuple[int, int], ...], *, patience_ms: int
    ) -> list[tuple[int, int]]:
        """(instant, place) of the ``count`` places that are ready first, and of all that are so soon after them.

        The soonest first; nothing when there are not so many. ``other``: those that promises may have changed.
        """
        order, changed = forecast.order, self._nodes if forecast.kind == NODE else self._cells
        first = [each for each in order[: count + len(changed)] if each[1] not in changed]
        first = sorted([*first, *other[:count]])
        if len(first) < count or first[count - 1][0] >= NEVER:
            return []
        end = (min(first[count - 1][0] + patience_ms, NEVER - 1) + 1, -1)
        ready = [each for each in order[: bisect_left(order, end)] if each[1] not in changed]
        return sorted([*ready, *other[: bisect_left(other, end)]])

    def _other(self, forecast: Forecast, changed: set[int]) -> list[tuple[int, int]]:
        """By when each of the places that promises may have changed has enough for the job, as far as any can."""
        at, other, members = self.releases.at, self._changed, forecast.members
        return [
            (forecast.nth([other.get(gpu, at[gpu]) for gpu in members[place]]), place)
            for place in changed
            if members[place]
        ]

    def ready(self, gpus: list[int], need: int, start_ms: int) -> list[int]:
        """The first ``need`` of the GPUs that are free by then.

        Not those that are free first: which ones these are changes whenever one of them is released, and nothing is
        gained by it.
        """
        changed, at = self._changed, self.releases.at
        found: list[int] = []
        for gpu in gpus:
            if changed.get(gpu, at[gpu]) <= start_ms:
                found.append(gpu)
                if len(found) == need:
                    break
        return found


def _outlook(room: Room, releases: Releases, bookings: Bookings, asked: Asked) -> Outlook:
    """Where neither victims nor windows count, jobs see the same, so it is made once for all that ask meanwhile."""
    if asked.sooner or bookings.windows_for(asked.project):
        return Outlook(room, releases, bookings, asked)
    known = bookings.outlook
    if not isinstance(known, Outlook) or known.version != releases.version:
        known = bookings.outlook = Outlook(room, releases, bookings, asked)
    return known


def earliest(room: Room, releases: Releases, bookings: Bookings, asked: Asked) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start of the job, or None when the pool has no place for it as it is now."""
    wanted = asked.wanted
    outlook = _outlook(room, releases, bookings, asked)
    view = room.view(wanted)
    if wanted.request.is_gang:
        return _gang(room, view, wanted, outlook=outlook, patience_ms=asked.patience_ms)
    if wanted.request.allow_span:
        return _spread(room, view, wanted, outlook=outlook)
    kind = WHOLE if wanted.exclusive else CELL if wanted.nvlink else NODE
    forecast = releases.forecast(view, kind, wanted.need)
    start, place = outlook.first(forecast)
    if start >= NEVER:
        return None
    if kind == WHOLE:
        return start, take_whole_cell(room, place, view.eligible[place], need=wanted.need)
    return start, outlook.ready(forecast.members[place], wanted.need, start)


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
    if highest == ANYWHERE and not wanted.remainder:
        forecast = outlook.releases.forecast(view, NODE, wanted.need)
        return _equal_parts(forecast, inventory.rack_of, wanted.nodes, outlook=outlook, patience_ms=patience_ms)
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


def _equal_parts(
    forecast: Forecast, rack_of: list[str], nodes: int, *, outlook: Outlook, patience_ms: int
) -> tuple[int, list[int]] | None:
    """For a gang without a remainder that may lie anywhere: only the nodes that are ready in time are looked at."""
    other = outlook.others(forecast)
    key = (nodes, patience_ms, other)
    choice = forecast.kept.get(key)
    if choice is None:
        ready = outlook.soonest(forecast, nodes, other, patience_ms=patience_ms)
        if not ready:
            return None
        choice = _chosen(ready, rack_of, nodes, patience_ms=patience_ms)
        forecast.keep(key, choice)
    gpus: list[int] = []
    for node in choice.places:
        gpus += outlook.ready(forecast.members[node], forecast.need, choice.start_ms)
    return choice.start_ms, gpus


def _chosen(ready: list[tuple[int, int]], rack_of: list[str], nodes: int, *, patience_ms: int) -> Choice:
    """One rack, if one has so many of the nodes that are ready in time, else the first of them all."""
    start = ready[nodes - 1][0]
    until = start + patience_ms
    racks: dict[str, list[tuple[int, int]]] = {}
    for each in ready:
        rack = rack_of[each[1]]
        if rack in racks:
            racks[rack].append(each)
        else:
            racks[rack] = [each]
    in_one = min([(some[nodes - 1][0], rack) for rack, some in racks.items() if len(some) >= nodes], default=None)
    if in_one is not None:
        start, ready = in_one[0], racks[in_one[1]]
    return Choice(start, until, tuple(sorted([node for instant, node in ready if instant <= start])[:nodes]))


def _best(
    parts: _Parts, wanted: Wanted, scopes: list[tuple[str, list[int]]], *, outlook: Outlook
) -> tuple[int, list[int]] | None:
    start, _, places = min(
        ((parts.start(places, wanted.nodes), name, places) for name, places in scopes), default=(NEVER, "", [])
    )
    if start >= NEVER:
        return None
    return start, parts.gpus(places, wanted.nodes, start_ms=start, outlook=outlook)
