"""How far what projects hold is from what they are due, averaged over the time in which anyone waits."""

from __future__ import annotations

from collections.abc import Mapping


def max_min(capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """The weighted max-min shares of ``capacity``: nobody gets more than he demands, the rest goes by weight (1)."""
    due: dict[str, float] = {}
    left, weight = capacity, sum(weights.get(name, 1.0) for name in demands)
    for name in sorted(demands, key=lambda name: (demands[name] / weights.get(name, 1.0), name)):
        own = weights.get(name, 1.0)
        due[name] = min(demands[name], left * own / weight)
        left -= due[name]
        weight -= own
    return due


class ShareError:
    """Half the sum over projects of |held - due| / all that is due, averaged over the seconds in which anyone waits.

    ``due`` is the max-min share of the cluster by what a project holds and waits for, weights equal.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._now = 0
        self._sum = 0.0
        self._seconds = 0
        self._error: float | None = None

    def holds(self, project: str, gpus: int) -> None:
        """The project holds ``gpus`` more from now on."""
        self._held[project] = self._held.get(project, 0) + gpus
        self._error = None

    def wants(self, project: str, gpus: int) -> None:
        """The project waits for ``gpus`` more from now on."""
        self._wanted[project] = self._wanted.get(project, 0) + gpus
        self._error = None

    def advance(self, now: int, waiting: int) -> None:
        """Time goes on to ``now`` (seconds) with nothing changed and ``waiting`` jobs in the queue."""
        if waiting and now > self._now:
            if self._error is None:
                self._error = self._measure()
            self._sum += self._error * (now - self._now)
            self._seconds += now - self._now
        self._now = now

    def value(self) -> float:
        """The average so far; 0 when nobody waited."""
        return self._sum / self._seconds if self._seconds else 0.0

    def _measure(self) -> float:
        demands = {p: float(h) for p in self._wanted if (h := self._held.get(p, 0) + self._wanted[p]) > 0}
        due = max_min(self._capacity, demands, {})
        total = sum(due.values())
        return sum(abs(self._held.get(p, 0) - share) for p, share in due.items()) / 2 / total if total else 0.0
