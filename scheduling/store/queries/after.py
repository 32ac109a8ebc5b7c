"""What a job waits for, and what waits for it."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, Q

from scheduling.core.lifecycle import JobState
from scheduling.models import Artifact, Job, JobOutput, Predecessor
from scheduling.store.queries.outputs import LARGE
from scheduling.store.queries.sets import CODE as SWEEP_LIMIT

CODE = "AFTER"
MAX_TOLD = 5
_OTHERS = Predecessor.objects.select_related("before").defer(
    *(f"before__{name}" for name in ("params", "spec", "raw", "errors", "avoid", "affinity"))
)
PREDECESSORS = Prefetch("predecessors", _OTHERS)


def after(job: Job) -> dict[str, Any]:
    """What the job is to wait for as REST tells it: the ids as they were named, and whether any end of theirs will
    do."""
    return {"after": [str(row.named) for row in job.predecessors.all()], "after_any": job.after_any}


def awaits(job: Job) -> dict[str, Any] | None:
    """The reason of a job that waits for others; None for any other."""
    if not job.awaits or job.state != JobState.QUEUED:
        return None
    rows = list(job.predecessors.all())
    there = [row.before for row in rows if not row.before.is_terminal]
    known = [f"{each.name} ({each.state.lower()})" for each in there if each.project_id == job.project_id]
    told, others = known[:MAX_TOLD], len(there) - len(known[:MAX_TOLD])
    if others:
        more = "more" if told else "of another project" if others == 1 else "of other projects"
        told = [*told, f"{others} {more}"]
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told)
    many = f"{len(there)} of {len(rows)} jobs" if len(rows) > 1 else "one job"
    how = "end" if job.after_any else "succeed"
    message = f"Waits for {many} to {how} first: {listed}."
    return {"code": CODE, "message": message, "numbers": {"after": len(rows), "open": len(there)}}


def listed(job: Job) -> list[Job | None]:
    """The jobs that it is or was to wait for, in their order; None in the place of one of another project."""
    rows = job.predecessors.all()
    return [row.before if row.before.project_id == job.project_id else None for row in rows]


def is_said(reasons: Collection[dict[str, Any]]) -> bool:
    """Whether these are the reasons of a job that is in no queue, since it waits for others of which nothing tells when
    they end: nothing can be foretold of it."""
    return any(reason["code"] in (CODE, SWEEP_LIMIT) for reason in reasons)


def followers(job: Job) -> list[Job]:
    """The jobs of the same project that wait for this one, the first submitted first."""
    waiting = Q(awaits__gt=0, state__in=(JobState.QUEUED, JobState.HELD))
    rows = Job.objects.filter(waiting, predecessors__before=job, project=job.project)
    return list(rows.only("id", "name", "state", "project", "after_any").order_by("submitted_at", "id"))


def cancelled_with(job: Job) -> int:
    """How many jobs would be cancelled with this one, since they wait for it to succeed, be it over others."""
    found: set[UUID] = set()
    frontier = {job.pk}
    while frontier:
        rows = Job.objects.filter(
            awaits__gt=0, after_any=False, state__in=(JobState.QUEUED, JobState.HELD), predecessors__before__in=frontier
        )
        frontier = set(rows.values_list("pk", flat=True)) - found
        found |= frontier
    return len(found)


def newest_try(job: Job) -> Job:
    """The job itself, or the last of its retries and of those in turn, as long as they did not succeed."""
    newest = job
    while newest.is_terminal and newest.state != JobState.SUCCEEDED:
        following = newest.retried_as.order_by("-submitted_at", "id").first()
        if following is None:
            return newest
        newest = following
    return newest


def outputs_of(job: Job) -> dict[str, Artifact]:
    """The artifacts that the job has published, called and by the names under which they are its outputs."""
    aside = [f"artifact__{name}" for name in LARGE if name not in ("files", "tensors")]
    rows = JobOutput.objects.filter(job=job, given_up_at__isnull=True).select_related("artifact").defer(*aside)
    return {row.name: _called(row.artifact, row.name) for row in rows.order_by("name")}


def artifacts_of(inputs: Collection[dict[str, Any]]) -> dict[str, Artifact]:
    """The artifacts that were found for a job, called as they were then, by the names under which it reads them."""
    found = Artifact.objects.in_bulk([UUID(row["artifact"]) for row in inputs])
    return {
        row["as"]: _called(copy(found[UUID(row["artifact"])]), row["name"])
        for row in inputs
        if UUID(row["artifact"]) in found
    }


def _called(artifact: Artifact, name: str) -> Artifact:
    artifact.name = name
    return artifact
