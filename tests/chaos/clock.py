"""Virtual time: what is to happen when. Nothing here waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count

from tests import builders as b

# Boot-time clocks began that long before the house, so that mixing them up with the wall's shows.
BOOTED_S = 5000.0


class Clock:
    """Seconds since noon, and the acts that are due, each at its time and in the order they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    @property
    def wall(self) -> datetime:
        """The server's time."""
        return b.NOON + timedelta(seconds=self.now)

    @property
    def boot(self) -> float:
        """Every node's boot-time clock."""
        return BOOTED_S + self.now

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """``act`` happens in so many seconds."""
        heapq.heappush(self._due, (self.now + max(0.0, seconds), next(self._numbers), act))

    def run(self, until: float) -> None:
        """Everything that is due until then has happened, and it is then."""
        while self._due and self._due[0][0] <= until:
            at, _, act = heapq.heappop(self._due)
            self.now = max(self.now, at)
            act()
        self.now = max(self.now, until)
