"""What was lost for no fault of the jobs, and by what? By project and cause, to the millisecond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduling.services.reports.asked import Asked
from scheduling.services.reports.usage import Usage
from scheduling.store.clock import to_ms
from scheduling.store.queries import gpu_spans, lost_counts


class Loss(NamedTuple):
    """What a project lost by a cause of :class:`LostWork`: so many GPU-ms of the period; the ``attempts`` that ended in
    it, and of those the ones that were evicted ``in_vain``, for a job that then did not take the GPUs."""

    project: str
    cause: str
    gpu_ms: int
    attempts: int
    in_vain: int


def lost(asked: Asked, found: Usage | None = None) -> list[Loss]:
    """The losses of the period, by project, then cause. The sum of their time is what ``found``, the usage of the same,
    tells as lost; with it nothing is added up again."""
    start, end = asked.period.start, asked.period.end
    sums = _sums(asked) if found is None else found.losses
    counts = lost_counts.ended(asked.jobs, start, end)
    return [
        Loss(*whose, sums.get(whose, 0), *counts.get(whose, (0, 0))) for whose in sorted(sums.keys() | counts.keys())
    ]


def _sums(asked: Asked) -> Mapping[tuple[str, str], int]:
    start, end = to_ms(asked.period.start), to_ms(asked.period.end)
    sums: dict[tuple[str, str], int] = {}
    for span in gpu_spans.lost(asked.jobs, asked.period.start, asked.period.end):
        inside = max(0, min(span.end, end) - max(span.start, start))
        if inside:
            whose = (span.project, span.cause)
            sums[whose] = sums.get(whose, 0) + inside * span.gpus
    return sums


def by_cause(losses: Iterable[Loss]) -> list[Loss]:
    """The sums over all projects, the largest first."""
    sums: dict[str, Loss] = {}
    for each in losses:
        before = sums.get(each.cause, Loss("", each.cause, 0, 0, 0))
        sums[each.cause] = Loss(
            "", each.cause, before.gpu_ms + each.gpu_ms, before.attempts + each.attempts, before.in_vain + each.in_vain
        )
    return sorted(sums.values(), key=lambda loss: (-loss.gpu_ms, loss.cause))
