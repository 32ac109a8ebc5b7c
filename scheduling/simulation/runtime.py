"""How long does a simulated job run? Recorded run times, a share of the limit, or given ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduling.core.snapshot import WaitingJob


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job as it enters the queue at ``waiting.submitted_ms``.

    ``runs_ms``: the work it has to do, None when nobody knows; for one that runs already, the work it has left.
    ``checkpoint_s``: after how much work it saves by itself, 0 for never.
    """

    waiting: WaitingJob
    runs_ms: int | None = None
    checkpoint_s: int = 0


Runtime = Callable[[SimJob, int], int]
"""The work of a job in ms, from the job and what is left of its ``max_duration`` in ms."""


def recorded(job: SimJob, limit_ms: int) -> int:
    """What was recorded, even beyond the limit (it ran on); the whole limit when nothing was."""
    return limit_ms if job.runs_ms is None else job.runs_ms


def share_of_limit(share: float) -> Runtime:
    """Every job runs for this share of its limit; ValueError unless 0 < share <= 1."""
    if not 0 < share <= 1:
        raise ValueError(f"the share of max_duration must be above 0 and at most 1, not {share}")
    return lambda job, limit_ms: max(1, math.ceil(limit_ms * share))


def given(runs_ms: Mapping[str, int], otherwise: Runtime = recorded) -> Runtime:
    """The run times by job id; ``otherwise`` answers for a job that is not listed."""

    def look_up(job: SimJob, limit_ms: int) -> int:
        known = runs_ms.get(job.waiting.id)
        return otherwise(job, limit_ms) if known is None else known

    return look_up
