"""A new job takes the place of one that waits: the old one is cancelled with the same transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.words import instant_in_words
from scheduling.models import Job
from scheduling.store.clock import to_ms
from scheduling.store.commit import after
from scheduling.store.commit.transitions import lock_job, step

REPLACEABLE = (JobState.QUEUED, JobState.HELD)


@dataclass(frozen=True, slots=True)
class Replaces:
    """Which job gives way, why its place in the queue can't be kept, in words, and why the new one does not begin where
    that one would; "" when it is kept, and when it does."""

    job_id: UUID
    new_place: str = ""
    begins_anew: str = ""


class Told(NamedTuple):
    """What the first event of the new job says of the one that gave way, and whether that one was held."""

    words: str
    data: dict[str, Any]
    held: bool = False


def locked(wanted: Replaces) -> Job | None:
    """The job that is to give way, locked until the transaction ends; None when it is too late for that."""
    job = lock_job(wanted.job_id)
    return job if job is not None and is_replaceable(job) else None


def is_replaceable(job: Job) -> bool:
    """Whether the job waits, and never had any GPUs."""
    return job.state in REPLACEABLE and job.attempt_number == 0


def give_way(original: Job, wanted: Replaces, to: Job, now: datetime, *, actor: str) -> Told:
    """The locked original is CANCELLED, and ``to``, which was just stored, stands in its place or in one of its own.

    Both timelines tell of it, that of the new job by what is returned.
    """
    held = original.state == JobState.HELD
    near = to.project_id == original.project_id  # else nobody who reads of the one need know of the other
    by = actor.removeprefix("user ")
    name = f"{to.name} (job {to.pk})" if near else "a job of another project"
    after.hand_on(original, to, now, actor=actor)
    step(
        original, JobEvent.CANCEL, now, actor=actor, fields={"outcome": "CANCELLED"},
        message=f"replaced by {name}, as {by} asked; it had not started", data={"replaced_by": str(to.pk)},
    )  # fmt: skip
    to.replaces, to.no_evict_until = original, original.no_evict_until
    if not wanted.new_place:
        to.submitted_at = original.submitted_at
    to.save(update_fields=["replaces", "submitted_at", "no_evict_until"])
    name = f"{original.name} (job {original.pk})" if near else "a job of another project"
    words = f"; it takes the place of {name} in the queue"
    if wanted.new_place:
        words = f"; it replaces {name}, at a new place in the queue: {wanted.new_place}"
    if (until := original.no_evict_until) is not None and until > now:
        words += f"; like that one it may evict nobody until {instant_in_words(to_ms(until))}"
    if wanted.begins_anew:
        words += f"; it begins anew: {wanted.begins_anew}"
    since = None if wanted.new_place else original.submitted_at.isoformat()
    return Told(words, {"replaces": str(original.pk), "since": since}, held)


def keep_held(job: Job, now: datetime, *, actor: str) -> None:
    """The new job, in the place of one that was held, is HELD too: a change is no release."""
    message = "held, as the job was whose place it takes; release it to let it start"
    step(job, JobEvent.HOLD, now, actor=actor, message=message)
