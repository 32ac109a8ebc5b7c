"""A job is asked to leave its GPUs because of the ground it stands on: with a grace where that can still be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy
from scheduling.models import Attempt, Job
from scheduling.store import journal
from scheduling.store.commit.attempts import End, ask_to_stop, end
from scheduling.store.commit.parts import release_unclaimed
from scheduling.store.commit.transitions import lock_job, step


@dataclass(frozen=True, slots=True)
class Leave:
    """Why a job is to leave: ``why`` as nodes are told it, ``words`` and ``data`` for its timeline.

    ``answers``: it could still save what it has; ``avoid_gpus`` are not given to it again.
    """

    why: str
    words: str
    data: Mapping[str, Any]
    grace_s: float
    answers: bool = True
    avoid_gpus: tuple[str, ...] = ()


def leave(attempt_id: UUID, asked: Leave, *, now: datetime, actor: str, policy: Policy) -> list[str]:
    """The attempt is to stop on all its nodes, and its job goes back to the queue when it has.

    Returns the nodes to ring; none when it was asked before, unless it can't save any more since. A grant that no
    node has claimed ends at once. A job that is being cancelled stays so.
    """
    attempt = Attempt.objects.get(pk=attempt_id)
    job = lock_job(attempt.job_id)
    attempt.refresh_from_db()  # what was read before the lock may be old
    hurry = not asked.answers and attempt.action != "kill"
    if job is None or attempt.ended_at is not None or not (attempt.action == "run" or hurry):
        return []
    grace = 0.0 if not asked.answers else min(asked.grace_s, job.queue.grace_s if job.queue else asked.grace_s)
    why = attempt.why if attempt.why == "cancel" else asked.why
    ask_to_stop(attempt, why, now, grace_s=grace, force=not asked.answers)
    parts = list(attempt.nodes.select_related("node"))
    if not any(part.claimed_at for part in parts):
        how = End("PREEMPTED", error=asked.words, why=why, avoid_gpus=asked.avoid_gpus, data=dict(asked.data))
        end(attempt.pk, attempt.epoch, how, now=now, actor=actor, policy=policy)
    else:
        _tell(job, attempt, _message(asked, grace), asked.data, now=now, actor=actor)
        release_unclaimed(job, attempt, now=now, actor=actor, policy=policy)
    return [part.node.name for part in parts]


def _message(asked: Leave, grace_s: float) -> str:
    if asked.answers:
        return f"{asked.words}; it has {grace_s:g} s to save a checkpoint and then moves to other GPUs"
    return f"{asked.words} and does not answer; it is stopped at once and moves to other GPUs"


def _tell(job: Job, attempt: Attempt, message: str, data: Mapping[str, Any], *, now: datetime, actor: str) -> None:
    """The job is PREEMPTING, or where that is no step of its state its timeline says that it was asked to stop."""
    if job.state == JobState.RUNNING:
        step(job, JobEvent.PREEMPT, now, actor=actor, message=message, attempt=attempt.pk, data=dict(data))
        return
    journal.write(
        [
            journal.Note(
                "stop_requested", "job", str(job.pk), actor=actor, version=job.version,
                project=job.project.name if job.project else "", attempt=attempt.pk, epoch=attempt.epoch,
                message=message, data=dict(data),
            )
        ],
        now,
    )  # fmt: skip
