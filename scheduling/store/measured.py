"""How long saving and resuming takes, measured per kind of job: what an eviction is expected to cost (D10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from django.db.models import F

from scheduling.models import Attempt, LostWork
from scheduling.store.fixed import FixedValues

LATELY = 200  # attempts of all kinds that are looked at
ENOUGH = 20  # of one kind
STEPS = (1, 2, 5)

_SAVED = FixedValues(
    lambda: (
        LostWork.objects.filter(cause="preempt", redo_since=F("attempt__asked_at"))
        .order_by("-at")
        .values_list("attempt__job__kind", "redo_since", "at")[:LATELY]
    )
)
_RESUMED = FixedValues(
    lambda: (
        Attempt.objects.filter(resumed_at__isnull=False, started_at__isnull=False)
        .order_by("-resumed_at")
        .values_list("job__kind", "started_at", "resumed_at")[:LATELY]
    )
)


class Costs(NamedTuple):
    """Seconds that saving when asked takes and that resuming takes; None where none of the kind has done it yet."""

    save_s: int | None = None
    restore_s: int | None = None


def costs() -> dict[str, Costs]:
    """By kind of job: the medians of its latest attempts, rounded up to 1, 2, 5, 10, 20, 50, ... seconds.

    Rounded, so that what is expected of running jobs does not change with every eviction.
    """
    saves, restores = _medians(_SAVED()), _medians(_RESUMED())
    return {kind: Costs(saves.get(kind), restores.get(kind)) for kind in sorted({*saves, *restores})}


def _medians(rows: Iterable[tuple[str, Any, Any]]) -> dict[str, int]:
    """``rows``: kind, since, until."""
    found: dict[str, list[float]] = defaultdict(list)
    for kind, since, until in rows:
        if len(found[kind]) < ENOUGH:
            found[kind].append((until - since).total_seconds())
    return {kind: rounded_up(median(seconds)) for kind, seconds in found.items()}


def rounded_up(seconds: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, ... seconds that is not below."""
    size = 1
    while True:
        for step in STEPS:
            if seconds <= step * size:
                return step * size
        size *= 10
