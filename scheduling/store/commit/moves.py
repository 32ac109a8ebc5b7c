"""The guarded step of one job, and nothing else: what its end means for others is told in ``transitions``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from django.db.models import F

from scheduling.core.lifecycle import TERMINAL, JobEvent, JobState, advance
from scheduling.models import Job
from scheduling.store import journal
from scheduling.store.fixed import FixedObjects

_LOCKED = FixedObjects(
    lambda job: Job.objects.select_for_update(of=("self",)).select_related("project", "queue", "user").filter(pk=job)
)


class Told(TypedDict, total=False):
    """What a step may say beyond its event: words and facts for the event row, other columns of the job that change
    with it, and the attempt it is about."""

    message: str
    data: dict[str, Any] | None
    fields: dict[str, Any] | None
    attempt: UUID | None


def lock_job(job_id: UUID) -> Job | None:
    """The job's row, locked until the transaction ends (SQLite locks the whole file anyway)."""
    return _LOCKED.first(job_id)


def move(job: Job, event: JobEvent, now: datetime, *, actor: str, **told: Unpack[Told]) -> JobState | None:
    """The job is in the state that ``event`` leads to, with its event row; None and unchanged where that is illegal.

    ``job`` may be stale: the update only matches while the row still has ``job.state``.
    """
    fields = told.get("fields") or {}
    source = JobState(job.state)
    target = advance(source, event)
    if target is None:
        return None
    changes: dict[str, Any] = {"state": target, "version": F("version") + 1, **fields}
    if target in TERMINAL:
        changes["ended_at"] = now
    if not Job.objects.filter(pk=job.pk, state=source).update(**changes):
        return None
    job.refresh_from_db(fields=["state", "version", "ended_at", *fields])
    journal.write(
        [
            journal.Note(
                type=target.value.lower() if target is not JobState.QUEUED else "requeued",
                object="job",
                object_id=str(job.pk),
                actor=actor,
                version=job.version,
                project=job.project.name if job.project else "",
                attempt=told.get("attempt"),
                epoch=job.epoch,
                message=told.get("message", ""),
                data={"from": source.value, "to": target.value, **(told.get("data") or {})},
            )
        ],
        now,
    )
    return target
