"""What is promised for later: reservations of waiting jobs, and windows that an operator has set.

A job of duration d may not have GPUs that are promised from before now + d on. With the promises sorted by their
start, those that block a job are the first ones of the list, and the longer the job the more of them: so which
durations of a shape may start now is one number.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from scheduling.core.room import NO_PINS, Pins

NEVER = 1 << 62
_by_start = attrgetter("start_ms")


class Booking:
    """GPUs that are promised from ``start_ms`` to ``end_ms``; in a window, which has a ``name``, ``project`` may have
    them."""

    __slots__ = ("_pins", "cells", "end_ms", "gpus", "name", "project", "start_ms", "window")

    def __init__(
        self, gpus: list[int], cells: dict[int, int], start_ms: int, *, end_ms: int, window: bool = False,
        project: str | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self.gpus, self.cells, self.start_ms, self.end_ms = gpus, cells, start_ms, end_ms
        self.window, self.project, self.name = window, project, name
        self._pins: Pins | None = None

    def pins(self, node_of: list[int]) -> Pins:
        """What is left out because of this alone; made once, as most bookings outlast a cycle."""
        if self._pins is None:
            self._pins = Pins(self.cells, node_of)
        return self._pins


class Bookings:
    """All promises of one cycle, for jobs of one project or of all projects alike."""

    def __init__(self, node_of: list[int], windows: list[Booking], *, now_ms: int) -> None:
        """``node_of``: the node of each cell."""
        self._node_of, self.now_ms = node_of, now_ms
        self._windows = [window for window in windows if window.end_ms > now_ms] if windows else windows
        self.reservations: list[Booking] = []
        self.by_project = bool(windows) and any(window.project is not None for window in self._windows)
        self._lists: dict[str, list[Booking]] = {}
        self._pins: dict[tuple[str, int], Pins] = {}  # by how many of the promises
        self._pins_until: dict[tuple[str, int], Pins] = {}  # by duration

    @property
    def are_none(self) -> bool:
        """Whether nothing is promised to anybody."""
        return not self.reservations and not self._windows

    @property
    def are_windows(self) -> bool:
        """Whether operators close any GPUs to anybody."""
        return bool(self._windows)

    def add(self, booking: Booking) -> None:
        """One reservation more."""
        self.reservations.append(booking)
        for listed in self._lists.values():
            insort(listed, booking, key=_by_start)
        self._changed()

    def remove(self, booking: Booking) -> None:
        """The reservation is no more: its job has started."""
        self.reservations.remove(booking)
        for listed in self._lists.values():
            listed.remove(booking)
        self._changed()

    def _changed(self) -> None:
        if self._pins:
            self._pins.clear()
        if self._pins_until:
            self._pins_until.clear()

    def windows_for(self, project: str) -> list[Booking]:
        """The windows that close GPUs to this project's jobs, by their start."""
        if not self._windows:
            return []
        return [window for window in self.blocking(project) if window.window]

    def blocking(self, project: str) -> list[Booking]:
        """Every promise that may block a job of the project, the earliest first."""
        if not self._windows and not self.reservations:
            return []
        key = project if self.by_project else ""
        found = self._lists.get(key)
        if found is None:
            windows = [each for each in self._windows if each.project is None or each.project != project]
            found = self._lists[key] = sorted([*windows, *self.reservations], key=_by_start)
        return found

    def pins(self, project: str, duration_ms: int) -> Pins:
        """What a job of this project and duration must leave out if it starts now."""
        if not self.reservations and not self._windows:
            return NO_PINS
        key = (project if self.by_project else "", duration_ms)
        pins = self._pins_until.get(key)
        if pins is None:
            listed, end = self.blocking(project), self.now_ms + duration_ms
            count = len(listed)
            if duration_ms < NEVER:
                while count and listed[count - 1].start_ms >= end:
                    count -= 1
            pins = self._pins_until[key] = self.first_pins(project, count)
        return pins

    def first_pins(self, project: str, count: int) -> Pins:
        """What the first ``count`` promises leave out."""
        if count == 0:
            return NO_PINS
        if count == 1:
            return self.blocking(project)[0].pins(self._node_of)
        key = (project if self.by_project else "", count)
        pins = self._pins.get(key)
        if pins is None:
            cells: dict[int, int] = {}
            for booking in self.blocking(project)[:count]:
                for cell, mask in booking.cells.items():
                    cells[cell] = cells.get(cell, 0) | mask
            pins = self._pins[key] = Pins(cells, self._node_of)
        return pins
