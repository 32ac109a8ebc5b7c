"""By when is enough free where, as one job sees it past what was promised to others before?"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from scheduling.core.bits import places_in
from scheduling.core.bookings import NEVER, Bookings
from scheduling.core.forecast import NODE, Beside, Forecast, Places, Releases
from scheduling.core.view import View

if TYPE_CHECKING:
    from scheduling.core.reservations import Asked

MAX_OUTLOOKS = 64


class Outlook:
    """The expected releases past these promises, until anything else is expected of a node that they are about."""

    __slots__ = (
        "_beside",
        "_cell_bits",
        "_cells",
        "_changed",
        "_instants",
        "_node_bits",
        "_nodes",
        "_position",
        "_sooner",
        "releases",
    )

    def __init__(self, releases: Releases, bookings: Bookings, asked: Asked, *, before: Outlook | None = None) -> None:
        """``before``: that of the same question past all promises but the last, if it is known and stands."""
        self.releases = releases
        at, changed = releases.at, dict(asked.sooner if before is None else before._changed)
        promises = bookings.reservations if before is None else bookings.reservations[-1:]
        for gpu, instant in asked.sooner.items():
            changed[gpu] = min(instant, at[gpu])
        for gpu, instant in asked.later.items():
            if changed.get(gpu, at[gpu]) < instant:
                changed[gpu] = instant
        for booking in promises:
            end = booking.end_ms
            for gpu in booking.gpus:
                if changed.get(gpu, at[gpu]) < end:
                    changed[gpu] = end
        first = max(bookings.now_ms, asked.from_ms)
        for window in bookings.windows_for(asked.project):
            start, end, duration = window.start_ms, window.end_ms, asked.duration_ms
            for gpu in window.gpus:
                instant = max(changed.get(gpu, at[gpu]), first)
                if instant < end and instant + duration > start:
                    changed[gpu] = end
        self._changed: dict[int, int] = changed  # by GPU, where it may differ from the releases
        cells = set[int]() if before is None else before._cells
        cells = cells.union(*[booking.cells for booking in promises])
        if asked.sooner or asked.later or bookings.are_windows:
            cells.update(releases.inventory.cells_of_gpus(list(changed)))
        node_of = releases.inventory.node_of
        self._cells: set[int] = cells
        self._nodes = {node_of[cell] for cell in cells}
        self._cell_bits = self._node_bits = -1  # not known yet
        self._sooner = bool(asked.sooner)
        self._instants: dict[Places, dict[int, list[int]]] = {}
        if before is not None:
            for places, known in before._instants.items():
                touched = promises[0].cells if places.kind != NODE else {node_of[cell] for cell in promises[0].cells}
                self._instants[places] = {place: known[place] for place in known if place not in touched}
        self._beside: dict[tuple[Forecast, int], Beside] = {}
        self._position = len(releases.log)

    def stands(self) -> bool:
        """Whether nothing has changed since about the nodes on which something is promised."""
        log, node_of = self.releases.log, self.releases.inventory.node_of
        for place in range(self._position, len(log)):
            if node_of[log[place]] in self._nodes:
                return False
        self._position = len(log)
        return True

    def by(self, gpu: int) -> int:
        """By when the job can have this GPU."""
        return self._changed.get(gpu, self.releases.at[gpu])

    def all_by(self, instant_ms: int, instants: list[int], gpus: list[int]) -> list[int]:
        """The GPUs that the job can have by then, in order. ``gpus``: all there are, by the ``instants`` of their
        releases, the soonest first."""
        changed = self._changed
        found = [gpu for gpu in gpus[: bisect_right(instants, instant_ms)] if gpu not in changed]
        return sorted(found + [gpu for gpu, instant in changed.items() if instant <= instant_ms])

    def places(self, view: View, kind: int, need: int) -> tuple[Forecast, list[int]]:
        """By when each place of the kind has ``need`` suitable GPUs for the job."""
        forecast = self.releases.forecast(view, kind, need)
        others = self._others(forecast, NEVER)
        if not others:
            return forecast, forecast.by
        by = list(forecast.by)
        for instant, place in others:
            by[place] = instant
        return forecast, by

    def first(self, forecast: Forecast) -> tuple[int, int]:
        """(instant, place) of the place that is ready first; NEVER when none ever is."""
        hidden, best = self._bits_of(forecast), (NEVER, -1)
        if self._sooner:
            best = min(self._others(forecast, NEVER), default=best)
        instants, bits = forecast.order
        for instant in instants:
            if instant > best[0]:
                break
            places = bits[instant]
            concealed = places & hidden
            if concealed:
                places ^= concealed
                # Promises make none ready sooner, so those of a higher index than an open one are no better.
                for place in places_in(concealed & (places & -places) - 1):
                    best = min(best, (self._instant(forecast, place), place))
            if places:
                return min(best, (instant, (places & -places).bit_length() - 1))
        return best

    def beside(self, forecast: Forecast, until_ms: int) -> Beside:
        """What promises to others have changed of the places that are ready by then."""
        key = (forecast, until_ms)
        found = self._beside.get(key)
        if found is None:
            by = forecast.by
            hidden = sorted([place for place in self._changed_of(forecast) if by[place] <= until_ms])
            found = self._beside[key] = tuple(hidden), tuple(self._others(forecast, until_ms))
        return found

    def soonest(self, forecast: Forecast, count: int, *, patience_ms: int) -> list[tuple[int, int]]:
        """(instant, places as bits) until ``count`` places are ready, and for so long after that; the soonest first.

        Nothing when there are never so many.
        """
        hidden = self._bits_of(forecast)
        instants, bits = forecast.order
        steps: dict[int, int] = {}
        end, left = NEVER - 1, count
        for instant in instants:
            if instant > end:
                break
            places = bits[instant] & ~hidden
            if places:
                steps[instant] = places
                if left > 0:
                    left -= places.bit_count()
                    if left <= 0:
                        end = min(instant + patience_ms, end)
        for instant, place in self._others(forecast, end):
            steps[instant] = steps.get(instant, 0) | 1 << place
        found, left = [], count
        for instant in sorted(steps):
            if instant > end:
                break
            found.append((instant, steps[instant]))
            if left > 0:
                left -= steps[instant].bit_count()
                if left <= 0:
                    end = min(instant + patience_ms, end)
        return found if left <= 0 else []

    def _others(self, forecast: Forecast, until_ms: int) -> list[tuple[int, int]]:
        """(instant, place) of the places that promises may have changed and that are ready by then; in order."""
        by, everything = forecast.by, self._sooner
        found = [
            (instant, place)
            for place in self._changed_of(forecast)
            # Promises to others make no place ready sooner.
            if (everything or by[place] <= until_ms)
            and forecast.members[place]
            and (instant := self._instant(forecast, place)) <= until_ms
        ]
        found.sort()
        return found

    def _instant(self, forecast: Forecast, place: int) -> int:
        """By when the place has enough for the job."""
        known = self._instants.get(forecast.places)
        if known is None:
            known = self._instants[forecast.places] = {}
        instants = known.get(place)
        if instants is None:
            at, other = self.releases.at, self._changed
            instants = known[place] = sorted([other.get(gpu, at[gpu]) for gpu in forecast.members[place]])
        return forecast.nth(instants)

    def _changed_of(self, forecast: Forecast) -> set[int]:
        return self._nodes if forecast.on_nodes else self._cells

    def _bits_of(self, forecast: Forecast) -> int:
        if forecast.on_nodes:
            if self._node_bits < 0:
                self._node_bits = sum([1 << node for node in self._nodes])
            return self._node_bits
        if self._cell_bits < 0:
            self._cell_bits = sum([1 << cell for cell in self._cells])
        return self._cell_bits

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


def outlook_of(releases: Releases, bookings: Bookings, asked: Asked) -> Outlook:
    """Where neither victims nor windows nor groups count, jobs see the same past the same promises: it is kept while it
    stands."""
    if asked.sooner or asked.later or bookings.windows_for(asked.project):
        return Outlook(releases, bookings, asked)
    key, kept = tuple(bookings.reservations), releases.outlooks
    known = kept.get(key)
    if known is None or not known.stands():
        if len(kept) >= MAX_OUTLOOKS:
            kept.clear()
        before = kept.get(key[:-1]) if key else None
        if before is not None and not before.stands():
            before = None
        known = kept[key] = Outlook(releases, bookings, asked, before=before)
    return known
