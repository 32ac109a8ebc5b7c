"""How much of what was there was held, and how busy was it? As far as it was looked at."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from scheduling.services.reports.asked import Asked
from scheduling.services.reports.period import Period
from scheduling.services.reports.usage import HOUR_MS, Usage, edges_of, pieces_of
from scheduling.store.clock import from_ms, to_ms
from scheduling.store.queries import gpu_spans, pool_hours
from scheduling.store.queries.access import Actor

NOBODY: dict[str, str] = {}


@dataclass
class Capacity:
    """Of one piece, in GPU-ms: what was ``installed``, of it ``out`` of service, and of it ``held`` by anybody's jobs
    in the time that was looked at; of what was installed the utilization is ``known`` of so much, which times the
    utilization is ``busy``."""

    installed: int = 0
    out: int = 0
    held: int = 0
    known: int = 0
    busy: int = 0

    @property
    def held_part(self) -> float | None:
        """What was held of what was installed, 0 to 1; None where nothing is known of that."""
        return self.held / self.installed if self.installed else None

    @property
    def utilization(self) -> float | None:
        """How busy the GPUs were, in percent; None where it is not known of any."""
        return 100 * self.busy / self.known if self.known else None

    def numbers(self) -> dict[str, float | None]:
        """It in GPU-hours."""
        return {
            "installed_gpu_h": self.installed / HOUR_MS, "out_gpu_h": self.out / HOUR_MS,
            "held_gpu_h": self.held / HOUR_MS, "held_part": self.held_part, "utilization": self.utilization,
        }  # fmt: skip

    def add(self, other: Capacity) -> None:
        """This is the sum of both."""
        self.installed += other.installed
        self.out += other.out
        self.held += other.held
        self.known += other.known
        self.busy += other.busy


@dataclass(frozen=True, slots=True)
class Busyness:
    """How busy GPUs were that jobs held, in GPU-ms: ``known`` of so much, which times the utilization is ``busy``."""

    known: int
    busy: int

    @property
    def utilization(self) -> float:
        """How busy, in percent."""
        return 100 * self.busy / self.known if self.known else 0.0


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """By piece, for the whole period, and since when it was looked at (None: never). ``jobs``: how busy the GPUs were
    that were held by (project, user, kind, queue); the user is "" where the reader may not know of them."""

    pieces: list[Capacity]
    total: Capacity
    since: datetime | None
    jobs: dict[tuple[str, str, str, str], Busyness]


def capacity(actor: Actor, asked: Asked, now: datetime, found: Usage | None = None) -> CapacityReport:
    """The pool in the period. A filter narrows ``jobs`` alone: the pool is there for all. With ``found``, the usage of
    the same, what was held is not added up again where it tells it.

    An hour that lies in two pieces, as zones of half hours have them, counts to both by its length in each.
    """
    period = asked.period
    pieces = [Capacity() for _ in period.pieces]
    edges = edges_of(period)
    looked: list[tuple[int, int]] = []
    for hour in pool_hours.pool(period.start, period.end):
        start, end = to_ms(hour.since), to_ms(hour.until)
        inside = list(pieces_of(start, end, edges))
        whole = end - start
        for piece, ms in inside:
            pieces[piece].add(
                Capacity(
                    installed=_part(hour.installed, ms, whole), out=_part(hour.out, ms, whole),
                    known=_part(hour.known, ms, whole), busy=_part(hour.busy, ms, whole),
                )
            )  # fmt: skip
        if inside:
            looked.append((start, end))
    spans = _joined(looked)
    if found is None or asked.jobs:
        _held(pieces, period, spans, now)
    elif spans:
        for key, amount in found.amounts.items():
            pieces[key.piece].held += amount.held
        _held(pieces, period, _between(spans, edges[0], edges[-1]), now, sign=-1)
    total = Capacity()
    for each in pieces:
        total.add(each)
    return CapacityReport(pieces, total, pool_hours.looked_since(), _jobs(actor, asked))


def _held(
    pieces: list[Capacity], period: Period, spans: list[tuple[int, int]], now: datetime, *, sign: int = 1
) -> None:
    """What anybody held in these spans is added, or with ``sign`` -1 taken off."""
    edges = edges_of(period)
    for start, end in spans:
        for span in gpu_spans.held(NOBODY, from_ms(start), from_ms(end), now):
            for piece, ms in pieces_of(max(span.start, start), min(span.end, end), edges):
                pieces[piece].held += sign * ms * span.gpus


def _between(spans: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """What of the time from ``start`` to ``end`` lies in none of the spans, which come in order."""
    edges = [start, *(edge for span in spans for edge in span), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time in as few spans as it takes; they come in order."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _part(amount: int, ms: int, whole: int) -> int:
    return amount if ms == whole else round(amount * ms / whole)


def _jobs(actor: Actor, asked: Asked) -> dict[tuple[str, str, str, str], Busyness]:
    sums: dict[tuple[str, str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in pool_hours.jobs(asked.jobs, asked.period.start, asked.period.end):
        user = row.user if actor.sees(row.project) else ""
        found = sums[(row.project, user, row.kind, row.queue)]
        found[0] += row.known
        found[1] += row.busy
    return {whose: Busyness(*found) for whose, found in sums.items()}
