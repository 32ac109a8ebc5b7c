"""By when is enough free where? The expected release of each GPU, and per place of the g-th one."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from scheduling.core.bookings import NEVER
from scheduling.core.room import Room
from scheduling.core.view import View

NODE, CELL, WHOLE = range(3)
MAX_KEPT = 64


class Releases:
    """By when each GPU is free: 0 for now, ``NEVER`` for one that takes no work; instants in ms.

    ``sooner`` counts how often something was expected sooner than before, other than by its time having come;
    ``version`` every change.
    """

    def __init__(self, room: Room) -> None:
        self.inventory = room.inventory
        self.at = [NEVER] * len(self.inventory.gpus)
        self.log: list[int] = []  # cells
        self.sooner = self.version = 0
        self.forecasts: dict[tuple[View, int, int], Forecast] = {}
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
        self.version += 1
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
            for forecast in self.forecasts.values():
                forecast.sync()
                forecast.position = 0
            log.clear()

    def forecast(self, view: View, kind: int, need: int) -> Forecast:
        """For each place of that kind, by when ``need`` GPUs of the view's eligible ones are free in it."""
        key = (view, kind, need)
        found = self.forecasts.get(key)
        if found is None:
            if len(self.forecasts) >= 256:
                self.forecasts.clear()
            found = self.forecasts[key] = Forecast(self, view, kind, need=need)
        found.sync()
        return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The places that several parts get together and their start. It rests on what is ready by ``until``, no more."""

    start_ms: int
    until_ms: int
    places: tuple[int, ...]


class Forecast:
    """``by`` has for each node, or cell, the instant by which it has enough free; ``NEVER`` where it never has.

    ``kept``: choices made before, by all that they follow from beside ``by``; those that may differ now are gone.
    """

    __slots__ = ("_order", "_place_of", "_releases", "by", "kept", "kind", "members", "need", "position")

    def __init__(self, releases: Releases, view: View, kind: int, *, need: int) -> None:
        inventory = releases.inventory
        self._releases, self.kind, self.need = releases, kind, need
        self.members: list[list[int]] = []
        eligible = [inventory.gpus_in(cell, mask) for cell, mask in enumerate(view.eligible)]
        if kind == NODE:
            self._place_of: list[int] | None = inventory.node_of
            self.members = [[gpu for cell in cells for gpu in eligible[cell]] for cells in inventory.cells_of]
        else:
            self._place_of = None
            self.members = [
                self._cell_members(releases, cell, gpus) if inventory.group_of[cell] else []
                for cell, gpus in enumerate(eligible)
            ]
        self.by = [NEVER] * len(self.members)
        for place in range(len(self.members)):
            self.by[place] = self.of(place, releases.at)
        self._order: list[tuple[int, int]] | None = None
        self.kept: dict[object, Choice] = {}
        self.position = len(releases.log)

    @property
    def order(self) -> list[tuple[int, int]]:
        """(by, place) of every place, the soonest first; kept in order from the first time it is asked for."""
        if self._order is None:
            self._order = sorted([(by, place) for place, by in enumerate(self.by)])
        return self._order

    def _cell_members(self, releases: Releases, cell: int, gpus: list[int]) -> list[int]:
        if self.kind == CELL:
            return gpus
        inventory = releases.inventory
        if not inventory.whole_group[cell] or len(gpus) < self.need:
            return []
        return inventory.gpus_in(cell, inventory.full[cell])

    def of(self, place: int, at: list[int]) -> int:
        """By when the place has enough free if its GPUs are free by ``at`` (indexed by GPU)."""
        return self.nth([at[gpu] for gpu in self.members[place]])

    def nth(self, instants: list[int]) -> int:
        """By when enough of GPUs that are free by these instants are free."""
        if self.kind == WHOLE:
            return max(instants, default=NEVER)
        if len(instants) < self.need:
            return NEVER
        instants.sort()
        return instants[self.need - 1]

    def sync(self) -> None:
        """The instants are those of the releases as they are now."""
        releases = self._releases
        log = releases.log
        if self.position == len(log):
            return
        cells = set(log[self.position :])
        self.position = len(log)
        places = cells if self._place_of is None else {self._place_of[cell] for cell in cells}
        by, at, order = self.by, releases.at, self._order
        soonest = NEVER
        for place in places:
            if not self.members[place]:
                continue
            before, after = by[place], self.of(place, at)
            if after == before:
                continue
            by[place] = after
            soonest = min(soonest, before, after)
            if order is not None:
                del order[bisect_left(order, (before, place))]
                insort(order, (after, place))
        if self.kept and soonest < NEVER:
            self.kept = {key: choice for key, choice in self.kept.items() if choice.until_ms < soonest}

    def keep(self, key: object, choice: Choice) -> None:
        """The choice holds until something else is ready by its end."""
        if len(self.kept) >= MAX_KEPT:
            self.kept.clear()
        self.kept[key] = choice
