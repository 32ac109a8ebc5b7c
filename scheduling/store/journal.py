"""The event table: written in the transaction of the change it records, and never changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from scheduling.models import Event, Job
from scheduling.store.fixed import FixedInsert, FixedValues

CHANNEL = "emep"
# These tell how far something is, to pages that are open: they stand on no timeline, and are not kept for long.
TICKS = ("progress", "log", "transfer")

_INSERT = FixedInsert(Event)
_JOB = FixedValues(lambda job: Job.objects.filter(pk=job).values_list("version", "project__name"))


@dataclass(frozen=True, slots=True)
class Note:
    """One fact to be written: what kind, about which object (``job``, ``gpu``, ``node``, ``queue``, ``artifact``)."""

    type: str
    object: str
    object_id: str
    actor: str = "system"
    version: int = 0
    project: str = ""
    attempt: UUID | None = None
    epoch: int = 0
    node: str = ""
    message: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def write(notes: Iterable[Note], now: datetime) -> None:
    """The notes are event rows of the current transaction; on PostgreSQL its commit wakes whoever listens."""
    rows = [
        Event(
            at=now,
            type=n.type,
            actor=n.actor[:160],
            object=n.object,
            object_id=n.object_id[:80],
            version=n.version,
            project=n.project,
            attempt=n.attempt,
            epoch=n.epoch,
            node=n.node,
            message=n.message,
            data=n.data,
        )
        for n in notes
    ]
    if not rows:
        return
    _INSERT(rows)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


def of_job(job_id: UUID) -> tuple[int, str]:
    """The job's version as it is now and the name of its project, for a note about it; the job must exist."""
    ((version, project),) = _JOB(job_id)
    return version, project or ""
