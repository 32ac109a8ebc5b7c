"""The step of the job state machine, used by everything that changes a job's state, and what follows from an end."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import TERMINAL, JobEvent, JobState
from scheduling.models import Job
from scheduling.store.commit import after
from scheduling.store.commit.moves import lock_job as lock_job
from scheduling.store.commit.moves import move


def step(
    job: Job,
    event: JobEvent,
    now: datetime,
    *,
    actor: str,
    message: str = "",
    data: dict[str, Any] | None = None,
    fields: dict[str, Any] | None = None,
    attempt: UUID | None = None,
) -> JobState | None:
    """The job is in the state that ``event`` leads to, with its event row; None and unchanged where that is illegal.

    ``job`` may be stale: the update only matches while the row still has ``job.state``. When it has ended, what waited
    for that has moved on too.
    """
    target = move(job, event, now, actor=actor, message=message, data=data, fields=fields, attempt=attempt)
    if target in TERMINAL:
        after.follow(job.pk, now)
    return target
