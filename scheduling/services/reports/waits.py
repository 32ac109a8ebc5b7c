"""How long did jobs wait? Of those that first ran in the period, by queue and priority, project, or kind."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.services.reports.asked import Asked
from scheduling.store.queries.first_waits import FirstWait, first_waits

BY = ("priority", "project", "kind")


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of so many jobs in seconds: the ``median``, what 95 of 100 waited at most (``p95``), the ``longest``
    and the ``mean``."""

    jobs: int
    median: float
    p95: float
    longest: float
    mean: float


@dataclass(frozen=True, slots=True)
class WaitReport:
    """Of ``all`` jobs (None: none ran), and by each of :data:`BY`. A priority is ``(queue, level, its number)``, and
    the highest of a queue comes first."""

    all: Waits | None
    priorities: dict[tuple[str, str, int], Waits]
    projects: dict[str, Waits]
    kinds: dict[str, Waits]


def waits(asked: Asked) -> WaitReport:
    """The waits of the jobs that first ran in the period."""
    return told(first_waits(asked.jobs, asked.period.start, asked.period.end))


def told(rows: Iterable[FirstWait]) -> WaitReport:
    """The report over these waits."""
    every: list[float] = []
    priorities: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    projects: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        every.append(row.seconds)
        priorities[(row.queue, row.level, row.value)].append(row.seconds)
        projects[row.project].append(row.seconds)
        kinds[row.kind].append(row.seconds)
    highest_first = sorted(priorities.items(), key=lambda each: (each[0][0], -each[0][2], each[0][1]))
    return WaitReport(
        all=of(every) if every else None,
        priorities={key: of(seconds) for key, seconds in highest_first},
        projects={name: of(seconds) for name, seconds in sorted(projects.items())},
        kinds={name: of(seconds) for name, seconds in sorted(kinds.items())},
    )


def of(seconds: list[float]) -> Waits:
    """The waits of at least one job. A quantile is the wait of a job, the first that so many waited at most."""
    ordered = sorted(seconds)
    return Waits(
        jobs=len(ordered), median=_at(ordered, 0.5), p95=_at(ordered, 0.95), longest=ordered[-1],
        mean=math.fsum(ordered) / len(ordered),
    )  # fmt: skip


def _at(ordered: list[float], part: float) -> float:
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
