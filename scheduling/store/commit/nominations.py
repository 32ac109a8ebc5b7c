"""What was kept for a job is kept no more: it starts, or others may have it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction

from scheduling.core.lifecycle import JobState
from scheduling.core.plan import Plan
from scheduling.models import Job, Nomination
from scheduling.store import journal

# The event of a job that waits anew.
ENDED = "nomination_ended"


@transaction.atomic
def drop(settled: Collection[UUID], plan: Plan, *, now: datetime, actor: str) -> bool:
    """The nominations of the settled jobs are gone; those of them that neither start by this plan nor are nominated
    anew are told why. Returns whether there was one."""
    goes_on = {UUID(start.job) for start in plan.starts} | {UUID(wants.job) for wants in plan.nominations}
    ended = Nomination.objects.filter(job_id__in=settled).exclude(job_id__in=goes_on)
    over = {row.job_id: row.deadline <= now for row in ended} if plan.unnominations else {}
    dropped, _ = Nomination.objects.filter(job_id__in=settled).delete()
    if over:
        journal.write([_note(job, over=over[job.pk], actor=actor) for job in _waiting(over)], now)
    return bool(dropped)


def _waiting(ids: Collection[UUID]) -> list[Job]:
    return list(Job.objects.select_related("project").filter(pk__in=ids).order_by("pk"))


def _note(job: Job, *, over: bool, actor: str) -> journal.Note:
    why = "its time is over" if over else "a GPU or a node of it takes no work now, or who has it does not leave"
    then = f"{why}; it waits anew at its place" if job.state == JobState.QUEUED else f"it is {job.state.lower()}"
    return journal.Note(
        ENDED,
        "job",
        str(job.pk),
        actor=actor,
        version=job.version,
        project=job.project.name if job.project else "",
        message=f"what was kept for it is kept no more: {then}",
    )
