"""Pipelines and sweeps as REST and pages see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from scheduling.core.lifecycle import JobState
from scheduling.core.naming import is_job_id
from scheduling.models import Job, JobSet

KINDS = ("pipeline", "sweep")
CODE = "SWEEP_LIMIT"


def kept_back(job: Job) -> dict[str, Any] | None:
    """The reason of a job of a sweep of which as many run as may; None for any other."""
    if not job.kept_back or job.state != JobState.QUEUED or job.member_of is None:
        return None
    most = job.member_of.max_running
    message = f"Waits for jobs of its sweep, of which at most {most} may run at a time, to end first."
    return {"code": CODE, "message": message, "numbers": {"max_running": most}}


def membership(job: Job) -> dict[str, Any]:
    """The set that the job is of, and what it is called there, as REST tells it."""
    of = dict.fromkeys(KINDS)
    return {**of, **({job.member_of.kind: str(job.member_of_id)} if job.member_of else {}), "key": job.key or None}


def narrowed(jobs: QuerySet[Job], wanted: Mapping[str, str]) -> QuerySet[Job]:
    """Those of the jobs that are of the ``pipeline`` or the ``sweep`` of that id, where one is wanted."""
    for kind in KINDS:
        if value := wanted.get(kind):
            jobs = jobs.filter(member_of=UUID(value), member_of__kind=kind) if is_job_id(value) else jobs.none()
    return jobs


def one(set_id: str, kind: str) -> JobSet | None:
    """The pipeline or sweep of that id."""
    try:
        key = UUID(str(set_id))
    except ValueError:
        return None
    return JobSet.objects.filter(pk=key, kind=kind).first()


def states(set_id: UUID) -> dict[str, int]:
    """How many jobs of the set are in each state."""
    return dict(Counter(Job.objects.filter(member_of=set_id).values_list("state", flat=True)))


def set_of(job_id: UUID) -> UUID | None:
    """The set that the job belongs to."""
    return Job.objects.filter(pk=job_id).values_list("member_of", flat=True).first()
