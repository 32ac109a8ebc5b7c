"""What of a job's work was lost for no fault of its own, and where does it go on?"""

from __future__ import annotations

from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.models import Attempt, Job


def lost_in(attempt: Attempt) -> dict[str, Any] | None:
    """What the attempt did in vain, which is given back in fair share (D6); None where nothing was, or is known yet.

    ``work_s`` has to be done again, ``resume_s`` went into resuming; ``gpu_hours`` are both on all its GPUs.
    What never ``ran`` has lost no work, only time.
    """
    lost = getattr(attempt, "lost_work", None)
    if lost is None:
        return None
    redo = (lost.at - lost.redo_since).total_seconds() if lost.redo_since else 0.0
    resume = (lost.resume_until - attempt.granted_at).total_seconds() if lost.resume_until else 0.0
    return {
        "attempt": attempt.number, "cause": lost.cause, "at": lost.at, "work_s": round(redo, 3),
        "resume_s": round(resume, 3), "gpu_hours": round(lost.gpu_ms / 3_600_000, 6), "in_vain": lost.in_vain,
        "ran": attempt.started_at is not None,
    }  # fmt: skip


def resumes_from(job: Job) -> dict[str, Any] | None:
    """The checkpoint that the job's next attempt or a retry begins with; None for the very beginning, and where there
    is none any more. Step 0: it never said."""
    if job.resume is None or job.state == JobState.SUCCEEDED:
        return None
    return {"artifact": str(job.resume.pk), "step": job.resume_step, "saved_at": job.resume_saved_at}
