"""How far from fair are the GPUs shared, over the time anyone waits?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import add


def due(demands: Sequence[int], weights: Sequence[float], capacity: int) -> list[float]:
    """The weighted max-min share of ``capacity`` GPUs by demand.

    Nobody is due more than it demands; what one leaves goes to the others by weight. Those of weight 0 are due what
    all others leave, in equal parts.
    """
    pairs = list(zip(demands, weights, strict=True))
    level, left = _water_level(((demand, weight) for demand, weight in pairs if weight), float(capacity))
    rest, _ = _water_level(((demand, 1.0) for demand, weight in pairs if not weight), left)
    return [min(demand, weight * level if weight else rest) for demand, weight in pairs]


def _water_level(pairs: Iterable[tuple[int, float]], left: float) -> tuple[float, float]:
    """GPUs for each unit of weight, as if they were poured evenly into (demand, weight); and what none of them needs.

    Infinite when every demand is met.
    """
    needs = sorted([(demand / weight, weight) for demand, weight in pairs])
    heft = 0.0
    for _, weight in needs:
        heft += weight
    for need, weight in needs:
        if need * heft > left:
            return left / heft, 0.0
        left -= need * weight
        heft -= weight
        if left < 0.0:  # by rounding
            left = 0.0
    return math.inf, left


def _even_level(demands: Iterable[int], left: int) -> float:
    """The water level of equal weights, several times as fast: simulations ask for it at every instant."""
    ordered = sorted(demands)
    others = len(ordered)
    for demand in ordered:
        if demand * others > left:
            return left / others
        left -= demand
        others -= 1
    return math.inf


class ShareMeter:
    """Half the sum over projects of |GPUs held - GPUs due|, over the GPUs due in all, averaged over the time in which
    anyone waits. A project's demand is what it holds and what its waiting jobs ask for.

    ``held`` and ``wanted`` are GPUs by the place of the project in ``projects``; whoever drives the meter keeps them
    up to date and calls :meth:`advance` before each change.
    """

    __slots__ = ("_even", "_waited_ms", "_weighted_error", "_weights", "capacity", "held", "last_ms", "wanted")

    def __init__(self, projects: Sequence[str], weights: Mapping[str, float], capacity: int) -> None:
        self._weights = [weights.get(project, 1.0) for project in projects]
        self._even = len(set(self._weights)) == 1 and self._weights[0] > 0
        self.capacity = capacity
        self.held = [0] * len(projects)
        self.wanted = [0] * len(projects)
        self.last_ms = 0
        self._weighted_error = 0.0
        self._waited_ms = 0

    def advance(self, now_ms: int, waiting: int) -> None:
        """The time since the last call has passed with ``waiting`` jobs in the queue."""
        passed = now_ms - self.last_ms
        if waiting and passed:
            self._weighted_error += passed * self.error()
            self._waited_ms += passed
        self.last_ms = now_ms

    def error(self) -> float:
        """The distance from fair shares now: 0 is fair, 1 the farthest."""
        held, wanted = self.held, self.wanted
        whole = sum(held) + sum(wanted)
        if whole <= self.capacity:  # everyone is due all it demands
            return sum(wanted) / (2 * whole) if whole else 0.0
        if not self.capacity:
            return 0.0
        if len(held) == 1 and self._even:  # whoever is alone is due all there is
            return abs(held[0] - self.capacity) / (2 * self.capacity)
        demands = list(map(add, held, wanted))
        dues: Iterable[float] = demands
        level = math.inf
        if self._even:
            level = _even_level(demands, self.capacity)
        else:
            dues = due(demands, self._weights, self.capacity)
        off = 0.0
        for have, ought in zip(held, dues, strict=True):
            if ought > level:
                ought = level
            off += have - ought if have > ought else ought - have
        return off / (2 * self.capacity)

    def mean(self) -> float:
        """The error averaged over the time in which anyone waited; 0 when nobody ever did."""
        return self._weighted_error / self._waited_ms if self._waited_ms else 0.0
