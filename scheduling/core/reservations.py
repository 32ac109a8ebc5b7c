"""When and where can a blocked job start at the latest? By the ``max_duration`` of what runs and what is promised."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.forecast import CELL, NODE, WHOLE, Forecast, Releases
from scheduling.core.gangs import GROUP, RACK, rungs_of
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
        self._releases = releases
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
        return self._changed.get(gpu, self._releases.at[gpu])

    def places(self, view: View, kind: int, need: int) -> tuple[Forecast, list[int]]:
        """By when each place of the kind has ``need`` suitable GPUs for the job."""
        forecast = self._releases.forecast(view, kind, need)
        changed = self._nodes if kind == NODE else self._cells
        if not changed:
            return forecast, forecast.by
        by = list(forecast.by)
        for place in changed:
            if forecast.members[place]:
                by[place] = forecast.nth([self.by(gpu) for gpu in forecast.members[place]])
        return forecast, by

    def ready(self, gpus: list[int], need: int, start_ms: int) -> list[int]:
        """The first ``need`` of the GPUs that are free by then.

        Not those that are free first: which ones these are changes whenever one of them is released, and nothing is
        gained by it.
        """
        changed, at = self._changed, self._releases.at
        found: list[int] = []
        for gpu in gpus:
            if changed.get(gpu, at[gpu]) <= start_ms:
                found.append(gpu)
                if len(found) == need:
                    break
        return found


def earliest(room: Room, releases: Releases, bookings: Bookings, asked: Asked) -> tuple[int, list[int]] | None:
    """(start in ms, GPUs) of the earliest start of the job, or None when the pool has no place for it as it is now."""
    wanted = asked.wanted
    outlook = Outlook(room, releases, bookings, asked)
    view = room.view(wanted)
    if wanted.request.is_gang:
        return _gang(room, view, wanted, outlook=outlook, patience_ms=asked.patience_ms)
    if wanted.request.allow_span:
        return _spread(room, view, wanted, outlook=outlook)
    kind = WHOLE if wanted.exclusive else CELL if wanted.nvlink else NODE
    forecast, by = outlook.places(view, kind, wanted.need)
    start = min(by, default=NEVER)
    if start >= NEVER:
        return None
    place = by.index(start)
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
        start = sorted(self.by_full[place] for place in places)[nodes - 1]
        if self.rest is not None:
            start = max(start, sorted(self.by_rest[place] for place in places)[nodes])
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


def _best(
    parts: _Parts, wanted: Wanted, scopes: list[tuple[str, list[int]]], *, outlook: Outlook
) -> tuple[int, list[int]] | None:
    start, _, places = min(
        ((parts.start(places, wanted.nodes), name, places) for name, places in scopes), default=(NEVER, "", [])
    )
    if start >= NEVER:
        return None
    return start, parts.gpus(places, wanted.nodes, start_ms=start, outlook=outlook)
