"""An attempt's life after the grant: claimed, started, asked to stop, ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, F, Value
from django.db.models.functions import Coalesce

from scheduling.core.aftermath import Aftermath, Ended, aftermath
from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy
from scheduling.models import Allocation, Artifact, Attempt, AttemptNode, Job, JobOutput
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit import lost_work
from scheduling.store.commit.balances import charge
from scheduling.store.commit.transitions import lock_job, step

# Why a node was to stop an attempt, in words for the timeline.
WHY = {
    "drain": "its node was shutting down",
    "cancel": "somebody cancelled it",
    "preempt": "its GPUs were needed",
    "time_limit": "its time limit was reached",
    "health": "its GPU was failing",
    "lost": "its node was lost",
}


Part = AttemptNode
"""One node's part of an attempt, for those who only hand it on."""


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended, as the node or the server says it. ``lost_at`` names what to avoid next time."""

    outcome: str
    exit_code: int | None = None
    error: str = ""
    why: str = ""
    outputs: Sequence[tuple[str, UUID]] = ()
    checkpoint: UUID | None = None
    checkpoint_step: int = 0
    avoid_node: str = ""
    avoid_gpus: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)


def live_part(attempt_id: UUID, epoch: int, node: str, *, lock: bool = False) -> AttemptNode | None:
    """The node's part of the attempt if it is live at this epoch, else None: the fence for every node message.

    With ``lock`` it stays so until the transaction ends: whoever ends an attempt locks its job first.
    """
    if lock:
        list(Job.objects.select_for_update(of=("self",)).filter(attempts=attempt_id).values_list("pk"))
    return (
        AttemptNode.objects.select_related("attempt", "node")
        .filter(attempt_id=attempt_id, attempt__epoch=epoch, attempt__ended_at__isnull=True, node__name=node)
        .first()
    )


@transaction.atomic
def claim(attempt_id: UUID, epoch: int, node: str, *, now: datetime) -> bool:
    """The node holds its part of the attempt (again, when asked again); False when it is not to be had."""
    part = live_part(attempt_id, epoch, node)
    if part is None or part.attempt.action != "run":
        return False
    if AttemptNode.objects.filter(pk=part.pk, claimed_at__isnull=True).update(claimed_at=now):
        journal.write([_note(part, "claimed", f"{node} has claimed it")], now)
    return True


@transaction.atomic
def started(attempt_id: UUID, epoch: int, node: str, *, now: datetime) -> bool:
    """The node's processes run; the job is RUNNING once all its nodes have said so. False when stale."""
    part = live_part(attempt_id, epoch, node)
    if part is None:
        return False
    if not AttemptNode.objects.filter(pk=part.pk, started_at__isnull=True).update(
        started_at=now, claimed_at=part.claimed_at or now
    ):
        return True
    if part.attempt.nodes.filter(started_at__isnull=True).exists():
        return True
    Attempt.objects.filter(pk=attempt_id).update(started_at=now)
    job = lock_job(part.attempt.job_id)
    if job is not None:
        step(job, JobEvent.START, now, actor=f"node {node}", attempt=attempt_id,
             message=f"attempt {part.attempt.number} runs on {node}",
             fields={"started_at": job.started_at or now})  # fmt: skip
    return True


def ask_to_stop(attempt: Attempt, why: str, now: datetime, *, grace_s: float, force: bool = False) -> None:
    """The attempt's nodes are told to stop it: with a grace for a checkpoint, or at once by force."""
    Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True).update(
        action="kill" if force else "stop",
        why=why,
        stop_by=now + timedelta(seconds=0 if force else grace_s),
        asked_at=Coalesce(F("asked_at"), Value(now, DateTimeField())),
    )


@transaction.atomic
def end(attempt_id: UUID, epoch: int, how: End, *, now: datetime, actor: str, policy: Policy) -> JobState | None:
    """The attempt has ended, its GPUs are free and charged, and its job has moved on: one transaction (D11, D12).

    None when the attempt is not live at this epoch: nothing changes, so a message delivered twice has one effect.
    """
    attempt = Attempt.objects.filter(pk=attempt_id).first()
    if attempt is None:
        return None
    job = lock_job(attempt.job_id)
    ended = Attempt.objects.filter(pk=attempt_id, epoch=epoch, ended_at__isnull=True).update(
        ended_at=now, outcome=how.outcome, exit_code=how.exit_code, error=how.error[:4000]
    )
    if not ended or job is None:
        return None
    if job.state == JobState.DISPATCHING and how.outcome in ("SUCCEEDED", "TIMED_OUT"):  # "started" was lost
        step(job, JobEvent.START, now, actor=actor, attempt=attempt_id, fields={"started_at": job.started_at or now})
    held = list(Allocation.objects.filter(attempt_id=attempt_id, released_at__isnull=True))
    Allocation.objects.filter(pk__in=[a.pk for a in held]).update(released_at=now)
    lost = lost_work.note(job, attempt, how, len(held), now)
    charged = charge(job, held, now, lost=lost)
    verdict = aftermath(
        Ended(
            state=JobState(job.state),
            outcome=how.outcome,
            infra_failures=job.infra_failures,
            app_failures=job.app_failures,
            retries=job.retries,
            yields=job.yields,
            asked_to_stop=bool(attempt.why) or how.why == "drain",
            progressed=how.checkpoint_step > job.resume_step,
        ),
        policy,
    )
    number, words = attempt.number, how.error or WHY.get(how.why or attempt.why, "")
    journal.write(
        [
            journal.Note(
                "attempt_ended", "job", str(job.pk), actor=actor, project=job.project.name if job.project else "",
                version=job.version, attempt=attempt_id, epoch=epoch,
                message=f"attempt {number} ended: {how.outcome}" + (f" ({words})" if words else ""),
                data={"outcome": how.outcome, "exit_code": how.exit_code, "gpus": len(held), "gpu_ms": charged,
                      "why": how.why, "lost_ms": [[to_ms(since), to_ms(until)] for since, until in lost], **how.data},
            )
        ],
        now,
    )  # fmt: skip
    return _move_job(job, attempt, how, verdict, now=now, actor=actor)


def _move_job(
    job: Job, attempt: Attempt, how: End, verdict: Aftermath, *, now: datetime, actor: str
) -> JobState | None:
    """The job's step after the attempt, with its outputs published when it succeeded."""
    ran = to_ms(now) - to_ms(attempt.started_at) if attempt.started_at else 0
    fields: dict[str, Any] = {
        "ran_ms": job.ran_ms + max(0, ran),
        "infra_failures": verdict.infra_failures,
        "app_failures": verdict.app_failures,
        "yields": verdict.yields,
        "exit_code": how.exit_code,
        "outcome": "" if verdict.event is JobEvent.REQUEUE else verdict.outcome,
        "error": (verdict.error or how.error)[:4000],
        "epoch": job.epoch + (1 if how.outcome == "LOST" else 0),
    }
    message = how.error or verdict.error or WHY.get(how.why or attempt.why, "")
    if how.checkpoint is not None:
        fields |= {"resume_id": how.checkpoint, "resume_step": how.checkpoint_step}
        Artifact.objects.filter(pk=how.checkpoint).update(published=True)
    if verdict.event is JobEvent.REQUEUE:
        fields |= {
            "eligible_at": now + timedelta(seconds=verdict.backoff_s) if verdict.backoff_s else None,
            "preempted": job.preempted or verdict.preempted,
            "preempt_count": job.preempt_count + verdict.preempted,
            "avoid": {
                "nodes": sorted({*job.avoid.get("nodes", []), *([how.avoid_node] if how.avoid_node else [])})[-8:],
                "gpus": sorted({*job.avoid.get("gpus", []), *how.avoid_gpus})[-32:],
            },
        }
        if how.checkpoint is not None:
            recovered = f"will resume from the checkpoint at step {how.checkpoint_step}"
        elif job.resume_id:
            recovered = f"will resume from the earlier checkpoint at step {job.resume_step}"
        else:
            recovered = "starts again from the beginning: there is no checkpoint"
        message = f"{message + '; ' if message else ''}{recovered}"
    elif verdict.event is JobEvent.SUCCEED:
        for name, artifact in how.outputs:
            # The one output is called what the job is called: equal bytes of two jobs share an artifact, not a name.
            shown = job.name if len(how.outputs) == 1 else f"{job.name[:60]} {name}"[:100]
            JobOutput.objects.update_or_create(
                job=job, name=shown, defaults={"artifact_id": artifact, "attempt_id": attempt.pk}
            )
        Artifact.objects.filter(pk__in=[a for _, a in how.outputs]).update(published=True)
        fields["progress_step"] = F("progress_total")
        message = ""
    return step(job, verdict.event, now, actor=actor, message=message, attempt=attempt.pk, fields=fields,
                data={"outcome": verdict.outcome, "backoff_s": verdict.backoff_s})  # fmt: skip


def _note(part: AttemptNode, kind: str, message: str) -> journal.Note:
    job = Job.objects.select_related("project").get(pk=part.attempt.job_id)
    return journal.Note(
        kind, "job", str(job.pk), actor=f"node {part.node.name}", version=job.version, attempt=part.attempt_id,
        project=job.project.name if job.project else "", epoch=part.attempt.epoch, node=part.node.name, message=message,
    )  # fmt: skip


def got_on(attempt: Attempt, step_reached: int, now: datetime) -> None:
    """An attempt that began with a checkpoint has got further than that: resuming took until now."""
    if attempt.resume_id is not None and attempt.resumed_at is None and step_reached > attempt.resume_step:
        Attempt.objects.filter(pk=attempt.pk, resumed_at__isnull=True).update(resumed_at=now)


@transaction.atomic
def checkpointed(part: AttemptNode, artifact: UUID, saved_step: int, *, now: datetime) -> None:
    """The job will resume from this checkpoint, which the attempt has committed, if it has to."""
    Artifact.objects.filter(pk=artifact).update(published=True)
    got_on(part.attempt, saved_step, now)
    Job.objects.filter(pk=part.attempt.job_id).update(
        resume_id=artifact, resume_step=saved_step, version=F("version") + 1
    )
    journal.write([_note(part, "checkpoint_committed", f"checkpoint at step {saved_step} is in the store")], now)
