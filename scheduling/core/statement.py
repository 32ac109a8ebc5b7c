"""How did an account get from one balance to the next? What was charged, what was given back, what faded (D5, D6).

An account falls all the time at the rate ``ln 2 / H`` of what is on it. So opening + charged - given back - faded =
closing, whatever the period, and the closing of one period is the opening of the next.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduling.core.decay import decay, interval
from scheduling.core.ledger import MICRO


class Charge(NamedTuple):
    """``whose`` held ``gpus`` GPUs from ``start_ms`` up to ``end_ms``; ``micro``: millionths of their billing weights
    together."""

    whose: str
    start_ms: int
    end_ms: int
    gpus: int
    micro: int


class Credit(NamedTuple):
    """What ``whose`` held from ``since_ms`` up to ``until_ms`` was in vain; it was given back at ``at_ms``."""

    whose: str
    since_ms: int
    until_ms: int
    at_ms: int
    micro: int


@dataclass
class Line:
    """What one job did to the account in the period. Whole numbers are exact; the rest are GPU-ms times weight.

    ``held_ms``: GPU-ms; ``charged_micro``: millionths of GPU-ms times weight; ``credited``: what was given back, as it
    counted at that moment; ``kept``: what of both still counts at the end of the period.
    """

    held_ms: int = 0
    charged_micro: int = 0
    credited: float = 0.0
    kept: float = 0.0

    @property
    def charged(self) -> float:
        """What was charged, in GPU-ms times weight."""
        return self.charged_micro / MICRO

    @property
    def faded(self) -> float:
        """What of it has faded by the end of the period."""
        return self.charged - self.credited - self.kept

    def add(self, other: Line) -> None:
        """This is the sum of both."""
        self.held_ms += other.held_ms
        self.charged_micro += other.charged_micro
        self.credited += other.credited
        self.kept += other.kept


@dataclass(frozen=True, slots=True)
class Statement:
    """An account over a period, in GPU-ms times weight: its ``opening`` balance, what of that has faded by the end
    (``faded_of_opening``), and the ``lines`` of the jobs that moved it."""

    opening: float
    faded_of_opening: float
    lines: dict[str, Line] = field(default_factory=dict)

    @property
    def total(self) -> Line:
        """The sum of the lines."""
        whole = Line()
        for line in self.lines.values():
            whole.add(line)
        return whole

    @property
    def faded(self) -> float:
        """All that has faded in the period: of the opening balance, and of what came since."""
        return self.faded_of_opening + self.total.faded

    @property
    def closing(self) -> float:
        """The balance at the end of the period."""
        return self.opening - self.faded_of_opening + self.total.kept


def statement(
    charges: Iterable[Charge], credits: Iterable[Credit], *, start_ms: int, end_ms: int, half_life_ms: int
) -> Statement:
    """The account from ``start_ms`` up to ``end_ms``; what happened at ``start_ms`` is in the opening balance.

    What runs is charged as it runs, and a credit counts from the moment at which it was given. To be told of all that
    was ever held; a half-life of 0 never fades anything.
    """
    before: list[float] = []
    lines: dict[str, Line] = defaultdict(Line)
    for whose, start, end, gpus, micro in charges:
        if start < start_ms:
            before.append(_left(micro, start, min(end, start_ms), start_ms, half_life_ms))
        since, until = max(start, start_ms), min(end, end_ms)
        if since < until:
            line = lines[whose]
            line.held_ms += gpus * (until - since)
            line.charged_micro += micro * (until - since)
            line.kept += _left(micro, since, until, end_ms, half_life_ms)
    for whose, since, until, at, micro in credits:
        if at <= start_ms:
            before.append(-_left(micro, since, until, start_ms, half_life_ms))
        elif at <= end_ms:
            line = lines[whose]
            line.credited += _left(micro, since, until, at, half_life_ms)
            line.kept -= _left(micro, since, until, end_ms, half_life_ms)
    opening = math.fsum(before)
    return Statement(opening, opening - decay(opening, end_ms - start_ms, half_life_ms), dict(lines))


def balances(
    charges: Iterable[Charge], credits: Iterable[Credit], edges: Sequence[int], *, half_life_ms: int
) -> list[float]:
    """What the account held at each of the rising instants ``edges``, in GPU-ms times weight."""
    if not edges:
        return []
    added: list[list[float]] = [[] for _ in edges]
    for _, start, end, _, micro in charges:
        begin, place = start, bisect_right(edges, start)
        while begin < end and place < len(edges):
            edge = edges[place]
            until = min(end, edge)
            added[place].append(_left(micro, begin, until, edge, half_life_ms))
            begin, place = until, place + 1
    for _, since, until, at, micro in credits:
        place = bisect_left(edges, at)
        if place < len(edges):
            added[place].append(-_left(micro, since, until, edges[place], half_life_ms))
    found = [math.fsum(added[0])]
    for place in range(1, len(edges)):
        faded = decay(found[-1], edges[place] - edges[place - 1], half_life_ms)
        found.append(math.fsum([faded, *added[place]]))
    return found


def _left(micro: int, start_ms: int, end_ms: int, at_ms: int, half_life_ms: int) -> float:
    """What GPUs of that weight, held in this time, still count at ``at_ms``."""
    return interval(micro / MICRO, start_ms, end_ms, at_ms, half_life_ms=half_life_ms)
