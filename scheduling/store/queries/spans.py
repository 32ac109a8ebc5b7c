"""How long has a job run, how much of its time limit is left, and since when does it wait?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.models import Attempt, Job

WAITING = (JobState.QUEUED, JobState.HELD)


def spans(job: Job, attempts: Sequence[Attempt], now: datetime | None) -> dict[str, Any]:
    """``run_s``: how long the runs took in all, without the waits between; the one under way until ``now``, if given.
    ``left_s``: what is left of the time limit, to which all of them count (D25); None for a job that is over.
    ``waits_since``: the submission, or the end of the newest attempt; None unless it waits."""
    runs = [(a.ended_at or now or a.started_at) - a.started_at for a in attempts if a.started_at]
    run_s = round(sum(span.total_seconds() for span in runs), 3)
    since = None
    if job.state in WAITING:
        since = max([job.submitted_at, *(a.ended_at for a in attempts if a.ended_at)])
    return {
        "run_s": run_s,
        "left_s": None if job.is_terminal else round(max(0.0, job.max_duration_s - run_s), 3),
        "waits_since": since,
    }
