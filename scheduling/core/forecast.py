"""By when is enough free where? The expected release of each GPU, and per place of the g-th one."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduling.core.bookings import NEVER, Booking
from scheduling.core.room import Room
from scheduling.core.view import View

if TYPE_CHECKING:
    from scheduling.core.outlook import Outlook

NODE, CELL, WHOLE = range(3)
MAX_PLACES, MAX_KEPT, MAX_KEPT_EACH = 256, 64, 16

Beside = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Places that others have been promised, and (instant, place) of those that are ready then all the same."""


class Releases:
    """By when each GPU is free: 0 for now, ``NEVER`` for one that takes no work; instants in ms.

    ``sooner`` counts how often something was expected sooner than before, other than by its time having come.
    ``outlooks``: the releases past the promises of others, by these.
    """

    def __init__(self, room: Room) -> None:
        self.inventory = room.inventory
        self.at = [NEVER] * len(self.inventory.gpus)
        self.log: list[int] = []  # cells
        self.sooner = 0
        self.places: dict[tuple[View, int, int], Places] = {}
        self.outlooks: dict[tuple[Booking, ...], Outlook] = {}
        self._latest: dict[int, int] = {}  # by cell
        room.latest = self.latest

    def latest(self, cell: int) -> int:
        """By when all GPUs of the cell that take work are free; 0 for now."""
        found = self._latest.get(cell)
        if found is None:
            first = self.inventory.first[cell]
            instants = [instant for instant in self.at[first : first + self.inventory.size[cell]] if instant < NEVER]
            found = self._latest[cell] = max(instants, default=0)
        return found

    def set(self, gpus: list[int], instant: int, now_ms: int) -> None:
        """These GPUs are free by ``instant``."""
        at, cell_of, log = self.at, self.inventory.cell_of, self.log
        last = -1
        for gpu in gpus:
            before = at[gpu]
            at[gpu] = instant
            if instant < before and before > now_ms:
                self.sooner += 1
            cell = cell_of[gpu]
            if cell != last:
                last = cell
                log.append(cell)
                self._latest.pop(cell, None)
        if len(log) > 8192:
            for places in self.places.values():
                places.sync()
                places.position = 0
            self.outlooks.clear()
            log.clear()

    def forecast(self, view: View, kind: int, need: int) -> Forecast:
        """For each place of that kind, by when ``need`` GPUs of the view's eligible ones are free in it."""
        key = (view, kind, need if kind == WHOLE else 0)
        places = self.places.get(key)
        if places is None:
            if len(self.places) >= MAX_PLACES:
                self.places.clear()
            places = self.places[key] = Places(self, view, kind, need=need)
        if places.position != len(self.log):
            places.sync()
        found = places.forecasts.get(need)
        if found is None:
            if len(places.forecasts) >= MAX_PLACES:
                places.forecasts.clear()
            found = places.forecasts[need] = Forecast(places, need)
        elif found.stale:
            found.renew()
        return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The places that several parts get together and their start. It rests on what is ready by ``until``, no more:
    by the forecast, and by what of it promises to others have changed, ``beside``."""

    start_ms: int
    until_ms: int
    places: tuple[int, ...]
    beside: Beside = ((), ())


class Places:
    """The suitable GPUs of each node, or cell, and the forecasts that rest on them, by how many are needed."""

    __slots__ = ("_instants", "forecasts", "kind", "members", "position", "releases")

    def __init__(self, releases: Releases, view: View, kind: int, *, need: int) -> None:
        inventory = releases.inventory
        self.releases, self.kind = releases, kind
        eligible = [inventory.gpus_in(cell, mask) for cell, mask in enumerate(view.eligible)]
        if kind == NODE:
            self.members = [[gpu for cell in cells for gpu in eligible[cell]] for cells in inventory.cells_of]
        elif kind == CELL:
            self.members = [gpus if inventory.group_of[cell] else [] for cell, gpus in enumerate(eligible)]
        else:
            self.members = [
                inventory.gpus_in(cell, inventory.full[cell])
                if inventory.whole_group[cell] and len(gpus) >= need
                else []
                for cell, gpus in enumerate(eligible)
            ]
        self.forecasts: dict[int, Forecast] = {}
        self._instants: dict[int, list[int]] = {}
        self.position = len(releases.log)

    def sync(self) -> None:
        """The forecasts know which places to look at again."""
        releases = self.releases
        changed = set(releases.log[self.position :])
        self.position = len(releases.log)
        if self.kind == NODE:
            node_of = releases.inventory.node_of
            changed = {node_of[cell] for cell in changed}
        for place in changed:
            self._instants.pop(place, None)
        for forecast in self.forecasts.values():
            forecast.stale |= changed

    def instants(self, place: int) -> list[int]:
        """By when each of the place's GPUs is free, the soonest first."""
        found = self._instants.get(place)
        if found is None:
            at = self.releases.at
            found = self._instants[place] = sorted([at[gpu] for gpu in self.members[place]])
        return found


class Forecast:
    """``by`` has for each node, or cell, the instant by which it has enough free; ``NEVER`` where it never has.

    ``kept``: choices made before, by what was asked for; those that would differ now as ``by`` does are gone.
    """

    __slots__ = (
        "_bits",
        "_instants",
        "_racks",
        "by",
        "kept",
        "members",
        "need",
        "on_nodes",
        "places",
        "stale",
        "whole",
    )

    def __init__(self, places: Places, need: int) -> None:
        self.places, self.members, self.need = places, places.members, need
        self.on_nodes, self.whole = places.kind == NODE, places.kind == WHOLE
        self.by = [self.nth(places.instants(place)) for place in range(len(self.members))]
        self.stale: set[int] = set()  # places that may have changed
        self.kept: dict[object, list[Choice]] = {}
        self._bits: dict[int, int] | None = None
        self._instants: list[int] = []
        self._racks: dict[int, list[str]] = {}

    def nth(self, instants: list[int]) -> int:
        """By when enough of GPUs that are free by these instants, the soonest first, are free."""
        if self.whole:
            return instants[-1] if instants else NEVER
        return instants[self.need - 1] if len(instants) >= self.need else NEVER

    @property
    def order(self) -> tuple[list[int], dict[int, int]]:
        """When places have enough free, the soonest instant first; by instant the places that it is true of, as bits.

        Kept from the first time it is asked for.
        """
        if self._bits is None:
            self._bits = {}
            for place, by in enumerate(self.by):
                self._bits[by] = self._bits.get(by, 0) | 1 << place
            self._instants = sorted(self._bits)
        return self._instants, self._bits

    def racks(self, nodes: int) -> list[str]:
        """The racks in which so many nodes have ever enough, in order. The places are nodes."""
        found = self._racks.get(nodes)
        if found is None:
            able = sum(1 << node for node, gpus in enumerate(self.members) if len(gpus) >= self.need)
            in_rack = self.places.releases.inventory.rack_bits
            found = [rack for rack, bits in in_rack.items() if (bits & able).bit_count() >= nodes]
            self._racks[nodes] = found
        return found

    def renew(self) -> None:
        """The instants are those of the releases as they are now."""
        by, soonest = self.by, NEVER
        changed, self.stale = self.stale, set()
        for place in changed:
            before, after = by[place], self.nth(self.places.instants(place))
            if after == before:
                continue
            by[place] = after
            soonest = min(soonest, before, after)
            if self._bits is not None:
                self._move(self._bits, 1 << place, before, after)
        if self.kept and soonest < NEVER:
            lasting = {key: [each for each in some if each.until_ms < soonest] for key, some in self.kept.items()}
            self.kept = {key: some for key, some in lasting.items() if some}

    def _move(self, bits: dict[int, int], bit: int, before: int, after: int) -> None:
        left = bits[before] ^ bit
        if left:
            bits[before] = left
        else:
            del bits[before]
            del self._instants[bisect_left(self._instants, before)]
        if after in bits:
            bits[after] |= bit
        else:
            bits[after] = bit
            insort(self._instants, after)

    def keep(self, key: object, choice: Choice) -> None:
        """The choice holds until something else is ready by its end."""
        some = self.kept.get(key)
        if some is None:
            if len(self.kept) >= MAX_KEPT:
                self.kept.clear()
            some = self.kept[key] = []
        if len(some) >= MAX_KEPT_EACH:
            del some[0]
        some.append(choice)
