"""For which waiting jobs are GPUs kept, and until when? And whose time to leave its GPUs is running?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.models import Allocation, Job, Nomination
from scheduling.store.queries.access import Actor

KEPT = "kept for another job"


def nominations() -> dict[str, Nomination]:
    """The nomination of each GPU that is kept for a job which waits for it, by UUID."""
    rows = Nomination.objects.filter(job__state=JobState.QUEUED).select_related("job__project", "job__user")
    return {uuid: row for row in rows for uuid in row.gpus}


def told_of_job(job: Job | None, actor: Actor | None) -> dict[str, Any] | None:
    """The job as a GPU that it holds, or that is kept for it, tells it; None for one of which the actor may not know.
    ``actor`` None: whoever it is."""
    if job is None or not (actor is None or actor.sees(job.project.name if job.project else None)):
        return None
    return {
        "id": str(job.pk), "name": job.name, "project": job.project.name if job.project else None,
        "user": job.user.get_username() if job.user else None, "state": job.state,
    }  # fmt: skip


def who_next(kept: Nomination | None, held: Allocation | None, actor: Actor | None) -> Mapping[str, Any]:
    """By when its job leaves the GPU, for whom it is kept, and until when."""
    leaves = held.attempt.stop_by if held is not None and held.attempt.action == "stop" else None
    return {
        "leaves_by": leaves,
        "kept_for": told_of_job(kept.job, actor) if kept is not None else None,
        "kept_until": kept.deadline if kept is not None else None,
    }
