"""Who used what? GPU time by piece of the period, project, user, kind and queue, to the millisecond."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from scheduling.core.ledger import MICRO
from scheduling.services.reports.asked import Asked
from scheduling.services.reports.period import Period
from scheduling.store.clock import to_ms
from scheduling.store.queries import gpu_spans
from scheduling.store.queries.access import Actor
from scheduling.store.queries.gpu_spans import Span

HOUR_MS = 3_600_000
DIMENSIONS = ("piece", "project", "user", "kind", "queue")


class Key(NamedTuple):
    """What an amount is of: the number of the piece, and whose. "" is a person whom the reader may not know of."""

    piece: int
    project: str
    user: str
    kind: str
    queue: str


@dataclass
class Amount:
    """GPU time in ms: ``held`` in all, ``lost`` of it for no fault of the jobs and given back (D6), and ``charged``:
    what was used, times the billing weights of the GPU models, in millionths."""

    held: int = 0
    lost: int = 0
    charged_micro: int = 0

    @property
    def used(self) -> int:
        """What was held and not lost, in GPU-ms."""
        return self.held - self.lost

    def hours(self) -> dict[str, float]:
        """All of it in GPU-hours."""
        return {
            "held_gpu_h": self.held / HOUR_MS, "lost_gpu_h": self.lost / HOUR_MS, "used_gpu_h": self.used / HOUR_MS,
            "charged_gpu_h": self.charged_micro / MICRO / HOUR_MS,
        }  # fmt: skip

    def add(self, other: Amount) -> None:
        """This is the sum of both."""
        self.held += other.held
        self.lost += other.lost
        self.charged_micro += other.charged_micro


@dataclass(frozen=True, slots=True)
class Usage:
    """All amounts of a report, by their keys; ``losses`` are the GPU-ms that were lost by project and cause."""

    period: Period
    amounts: Mapping[Key, Amount]
    losses: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def total(self) -> Amount:
        """The sum of all."""
        return next(iter(self.by(()).values()), Amount())

    def by(self, dimensions: Sequence[str]) -> dict[tuple[str | int, ...], Amount]:
        """The sums over all but these of :data:`DIMENSIONS`, in the order of their values. A user is told with the
        project, since names of another project's people may not be known."""
        places = [DIMENSIONS.index(name) for name in dimensions]
        sums: dict[tuple[str | int, ...], Amount] = defaultdict(Amount)
        for key, amount in self.amounts.items():
            sums[tuple(key[place] for place in places)].add(amount)
        return dict(sorted(sums.items()))


def usage(actor: Actor, asked: Asked, now: datetime) -> Usage:
    """What was held, lost and charged in the period; what still runs counts up to ``now``."""
    period = asked.period
    amounts: dict[Key, Amount] = defaultdict(Amount)
    edges, seen = edges_of(period), dict[str, bool]()
    losses: dict[tuple[str, str], int] = defaultdict(int)
    for span in _spans(asked, now):
        known = seen.get(span.project)
        if known is None:
            known = seen[span.project] = actor.sees(span.project)
        user = span.user if known else ""
        for piece, ms in pieces_of(span.start, span.end, edges):
            amount = amounts[Key(piece, span.project, user, span.kind, span.queue)]
            if span.cause:
                amount.lost += ms * span.gpus
                losses[(span.project, span.cause)] += ms * span.gpus
                amount.charged_micro -= ms * span.micro
            else:
                amount.held += ms * span.gpus
                amount.charged_micro += ms * span.micro
    return Usage(period, dict(amounts), dict(losses))


def _spans(asked: Asked, now: datetime) -> Iterator[Span]:
    start, end = asked.period.start, asked.period.end
    yield from gpu_spans.held(asked.jobs, start, end, now)
    yield from gpu_spans.lost(asked.jobs, start, end)


def edges_of(period: Period) -> list[int]:
    """Where the pieces begin, and where the last one ends, in ms since 1970."""
    return [*(to_ms(piece.start) for piece in period.pieces), to_ms(period.end)]


def pieces_of(start: int, end: int, edges: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The parts of the time from ``start`` to ``end`` in each piece that it touches: ``(piece, ms)``.

    ``edges``: n + 1 rising instants of n pieces. What lies before the first or after the last is in none.
    """
    start, end = max(start, edges[0]), min(end, edges[-1])
    piece = bisect_right(edges, start) - 1
    while start < end:
        until = min(end, edges[piece + 1])
        yield piece, until - start
        start, piece = until, piece + 1
