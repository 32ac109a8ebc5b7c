"""What of a job's work was lost, and where does it go on? In the words of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.web.share_words import CAUSES
from scheduling.web.wording import amount, duration, gpu_hours

# In these it is to begin again, by itself or when it is retried.
BEGINS_AGAIN = (JobState.QUEUED, JobState.HELD, JobState.DISPATCHING, JobState.FAILED, JobState.TIMED_OUT,
                JobState.CANCELLED)  # fmt: skip


def lost_line(lost: Mapping[str, Any] | None, gpus: int) -> str:
    """What an attempt on so many GPUs lost, and by what; "" when it lost nothing."""
    if lost is None:
        return ""
    parts = [f"{duration(lost['work_s'])} of work"] if lost["work_s"] >= 1 or not lost["resume_s"] else []
    parts += [f"{duration(lost['resume_s'])} of resuming"] if lost["resume_s"] >= 1 else []
    vain = ", in vain: the GPUs were not taken then" if lost["in_vain"] else ""
    what = f"{' and '.join(parts)} on {amount(gpus, 'GPU')} ({gpu_hours(lost['gpu_hours'])})"
    return f"Lost {what}, {CAUSES[lost['cause']]}{vain}; it does not count as used."


def lost_in_all(rows: Sequence[Mapping[str, Any]]) -> str:
    """The sum over all attempts; "" when nothing was lost."""
    if not rows:
        return ""
    seconds = sum(row["work_s"] + row["resume_s"] for row in rows)
    return f"{duration(seconds)}, {gpu_hours(sum(row['gpu_hours'] for row in rows))}, given back"


def goes_on(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """The checkpoint that it begins with next (``step`` in words, ``at``); None while it runs or has none."""
    found = job["resumes_from"]
    if found is None or JobState(job["state"]) not in BEGINS_AGAIN:
        return None
    return {"at": found["saved_at"], "step": f"step {found['step']}" if found["step"] else "its checkpoint"}
