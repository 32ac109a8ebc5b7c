"""The job on a GPU that fails is asked to leave it: with a short grace where the device answers, at once where not."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy
from scheduling.models import Attempt, Gpu, Job
from scheduling.store import journal
from scheduling.store.commit.attempts import End, ask_to_stop, end
from scheduling.store.commit.parts import release_unclaimed
from scheduling.store.commit.transitions import lock_job, step

ACTOR = "health"


def leave(
    gpu: Gpu, attempt_id: UUID, reason: str, *, answers: bool, now: datetime, grace_s: float, policy: Policy
) -> list[str]:
    """The attempt that holds the GPU is to stop on all its nodes, and its job goes back to the queue when it has.

    Returns the nodes to ring; none when it was asked before, unless the device has stopped to answer since. A grant
    that no node has claimed ends at once. A job that is being cancelled stays so.
    """
    attempt = Attempt.objects.get(pk=attempt_id)
    job = lock_job(attempt.job_id)
    attempt.refresh_from_db()  # what was read before the lock may be old
    hurry = not answers and attempt.action != "kill"
    if job is None or attempt.ended_at is not None or not (attempt.action == "run" or hurry):
        return []
    grace = 0.0 if not answers else min(grace_s, job.queue.grace_s if job.queue else grace_s)
    why = attempt.why if attempt.why == "cancel" else "health"
    ask_to_stop(attempt, why, now, grace_s=grace, force=not answers)
    words = f"GPU {gpu.node.name}/{gpu.index} is failing ({reason})"
    parts = list(attempt.nodes.select_related("node"))
    if not any(part.claimed_at for part in parts):
        how = End("PREEMPTED", error=words, why=why, avoid_gpus=[gpu.uuid], data={"cause": "gpu", "gpu": gpu.uuid})
        end(attempt.pk, attempt.epoch, how, now=now, actor=ACTOR, policy=policy)
    else:
        _tell(job, attempt, gpu, _message(words, answers=answers, grace_s=grace), now=now)
        release_unclaimed(job, attempt, now=now, actor=ACTOR, policy=policy)
    return [part.node.name for part in parts]


def _message(words: str, *, answers: bool, grace_s: float) -> str:
    if answers:
        return f"{words}; it has {grace_s:g} s to save a checkpoint and then moves to other GPUs"
    return f"{words} and does not answer; it is stopped at once and moves to other GPUs"


def _tell(job: Job, attempt: Attempt, gpu: Gpu, message: str, *, now: datetime) -> None:
    """The job is PREEMPTING, or where that is no step of its state its timeline says that it was asked to stop."""
    data = {"cause": "gpu", "gpu": gpu.uuid, "gpu_why": gpu.why}
    if job.state == JobState.RUNNING:
        step(job, JobEvent.PREEMPT, now, actor=ACTOR, message=message, attempt=attempt.pk, data=data)
        return
    journal.write(
        [
            journal.Note(
                "stop_requested", "job", str(job.pk), actor=ACTOR, version=job.version,
                project=job.project.name if job.project else "", attempt=attempt.pk, epoch=attempt.epoch,
                message=message, data=data,
            )
        ],
        now,
    )  # fmt: skip
