"""The step of the job state machine, used by everything that changes a job's state, and what follows from an end."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from scheduling.core.lifecycle import TERMINAL, JobEvent, JobState
from scheduling.models import Job
from scheduling.store.commit import after
from scheduling.store.commit.moves import Told, move
from scheduling.store.commit.moves import lock_job as lock_job


def step(job: Job, event: JobEvent, now: datetime, *, actor: str, **told: Unpack[Told]) -> JobState | None:
    """The job is in the state that ``event`` leads to, with its event row; None and unchanged where that is illegal.

    ``job`` may be stale: the update only matches while the row still has ``job.state``. When it has ended, what waited
    for that has moved on too.
    """
    target = move(job, event, now, actor=actor, **told)
    if target in TERMINAL:
        after.follow(job.pk, now)
    return target
