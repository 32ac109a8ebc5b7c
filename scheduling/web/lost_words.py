"""What of a job's work was lost, and where does it go on? In the words of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.core.lifecycle import JobState
from scheduling.core.words import duration_in_words
from scheduling.web.share_words import CAUSES
from scheduling.web.wording import amount

# In these it is to begin again, by itself or when it is retried.
BEGINS_AGAIN = (JobState.QUEUED, JobState.HELD, JobState.DISPATCHING, JobState.FAILED, JobState.TIMED_OUT,
                JobState.CANCELLED)  # fmt: skip


def lost_line(lost: Mapping[str, Any] | None, gpus: int) -> str:
    """What an attempt on so many GPUs lost, and by what; "" when it lost nothing that whole seconds can tell."""
    if lost is None or not (whole := _seconds(lost)):
        return ""
    work = int(lost["work_s"])
    told = ((work, "work" if lost["ran"] else "getting ready, without running,"), (whole - work, "resuming"))
    parts = [f"{duration_in_words(seconds)} of {what}" for seconds, what in told if seconds]
    vain = ", in vain: the GPUs were not taken then" if lost["in_vain"] else ""
    what = f"{' and '.join(parts)} on {amount(gpus, 'GPU')} ({gpu_time_in_words(_gpu_seconds(lost))})"
    return f"Lost {what}, {CAUSES[lost['cause']]}{vain}; it does not count as used."


def lost_in_all(rows: Sequence[Mapping[str, Any]]) -> str:
    """The sum over all attempts as each tells it; "" when nothing was lost."""
    seconds = sum(map(_seconds, rows))
    if not seconds:
        return ""
    return f"{duration_in_words(seconds)}, {gpu_time_in_words(sum(map(_gpu_seconds, rows)))}, given back"


def _seconds(lost: Mapping[str, Any]) -> int:
    """All that the attempt lost, in the full seconds that the timeline tells, too."""
    return int(lost["work_s"] + lost["resume_s"])


def used(job: Mapping[str, Any]) -> str:
    """The GPU time that counts as used: what it held, without what was lost."""
    lost = sum(map(_gpu_seconds, job["lost_work"]))
    return gpu_time_in_words(max(0.0, job["gpu_hours"] * 3600 - lost))


def _gpu_seconds(lost: Mapping[str, Any]) -> int:
    """Of those whole seconds, on all its GPUs: the numbers beside each other, and those of the timeline, agree."""
    seconds = lost["work_s"] + lost["resume_s"]
    return round(lost["gpu_hours"] * 3600 / seconds) * _seconds(lost) if seconds else 0


def goes_on(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """The checkpoint that it begins with next (``step`` in words, ``at``); None while it runs or has none."""
    found = job["resumes_from"]
    if found is None or JobState(job["state"]) not in BEGINS_AGAIN:
        return None
    return {"at": found["saved_at"], "step": f"step {found['step']}" if found["step"] else "its checkpoint"}
