"""How far is a job?"""

from __future__ import annotations

from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.models import Job


def progress_of(job: Job, *, heard: bool) -> dict[str, Any] | None:
    """How far it is, None for one that has not said; at what rate and for how long yet (seconds) is not known while a
    node of it is not ``heard`` of."""
    if not job.progress_total:
        return None
    left = max(0, job.progress_total - job.progress_step)
    rate = job.progress_rate if heard else None
    eta = round(left / rate, 1) if rate and job.state == JobState.RUNNING else None
    return {
        "step": job.progress_step,
        "total": job.progress_total,
        "unit": job.progress_unit,
        "rate": rate,
        "eta_s": eta,
    }
