"""An attempt as a whole: asked to stop, ended, and what becomes of its job then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, DateTimeField, F, Value, When
from django.db.models.functions import Coalesce, Least

from scheduling.core.aftermath import LEFT, Aftermath, Ended, aftermath
from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy
from scheduling.models import Allocation, Artifact, Attempt, AttemptNode, Job
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit import cancelled, how_it_left, lost_work, naming, resuming
from scheduling.store.commit.balances import charge
from scheduling.store.commit.giving_back import give_back_to_spared
from scheduling.store.commit.transitions import lock_job, step

# Why a node was to stop an attempt, in words for the timeline.
WHY = {
    "drain": "its node was being emptied",
    "preempt": "its GPUs were needed",
    "time_limit": "its time limit was reached",
    "health": "its GPU was failing",
    "lost": "its node had failed",
    "peer": "another of its nodes had left it",
}
DONE_FIRST = "it was done before it had to leave"
# These are no stop that was asked for: what the job did before decides.
NOT_ASKED = ("", "peer")
# The manner of an end that nobody had asked for, and after which it is run again.
YIELDED = "yielded"


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt or a node's part of it ended, as node or server say it; ``avoid_*`` is for next time.
    ``errors``: what is wrong with the job one by one, each ``field``, ``code`` and ``message``."""

    outcome: str
    exit_code: int | None = None
    error: str = ""
    why: str = ""
    outputs: Sequence[tuple[str, UUID]] = ()
    checkpoint: UUID | None = None
    checkpoint_step: int = 0
    avoid_nodes: Sequence[str] = ()
    avoid_gpus: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)
    errors: Sequence[dict[str, str]] = ()


def ask_to_stop(attempt: Attempt, why: str, now: datetime, *, grace_s: float, force: bool = False) -> None:
    """The attempt's nodes are told to stop it: with a grace for a checkpoint, or at once by force.

    It was asked now, or when it was asked before if it has been stopping since: then it gets no more time than it had.
    """
    moment = DateTimeField()
    until = Value(now + timedelta(seconds=0 if force else grace_s), moment)
    Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True).update(
        action="kill" if force else "stop",
        why=why,
        stop_by=Case(When(action="run", then=until), default=Least(Coalesce("stop_by", until), until)),
        asked_at=Case(When(action="run", then=Value(now, moment)), default=Coalesce("asked_at", Value(now, moment))),
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
    now = max(now, attempt.granted_at)  # whoever waited for the lock may have read the clock before the grant
    _forget_a_stop_taken_back(attempt, how)
    ended = Attempt.objects.filter(pk=attempt_id, epoch=epoch, ended_at__isnull=True).update(
        ended_at=now, outcome=how.outcome, exit_code=how.exit_code, error=how.error[:4000], why=attempt.why
    )
    if not ended or job is None:
        return None
    if job.state == JobState.DISPATCHING and how.outcome in ("SUCCEEDED", "TIMED_OUT"):  # "started" was lost
        step(job, JobEvent.START, now, actor=actor, attempt=attempt_id, fields={"started_at": job.started_at or now})
    AttemptNode.objects.filter(attempt_id=attempt_id, ended_at__isnull=True).update(ended_at=now, outcome=how.outcome)
    held = list(Allocation.objects.filter(attempt_id=attempt_id, released_at__isnull=True))
    Allocation.objects.filter(pk__in=[a.pk for a in held]).update(released_at=now)
    lost = lost_work.note(job, attempt, how, len(held), now)
    charged = charge(job, held, now, lost=lost.stretches)
    verdict = aftermath(
        Ended(
            state=JobState(job.state),
            outcome=how.outcome,
            infra_failures=job.infra_failures,
            app_failures=job.app_failures,
            retries=job.retries,
            yields=job.yields,
            asked_to_stop=attempt.why not in NOT_ASKED or how.why == "drain",
            evicted=attempt.why == "preempt",
            progressed=max(how.checkpoint_step, job.resume_step) > attempt.resume_step,
        ),
        policy,
    )
    number = attempt.number
    itself = f"it {LEFT}" if how.data.get("manner") == YIELDED else ""
    why = _why_in_words(job, attempt, how)
    words = "; ".join(filter(None, [itself, why, how_it_left.in_words(how), _left_behind(how)]))
    journal.write(
        [
            journal.Note(
                "attempt_ended", "job", str(job.pk), actor=actor, project=job.project.name if job.project else "",
                version=job.version, attempt=attempt_id, epoch=epoch,
                message=f"attempt {number} ended: {how.outcome}{f' ({words})' if words else ''}"
                f"{lost.in_words(len(held), ran=attempt.started_at is not None)}",
                data={"outcome": how.outcome, "exit_code": how.exit_code, "gpus": len(held), "gpu_ms": charged,
                      "why": how.why, "lost_ms": [[*map(to_ms, each)] for each in lost.stretches], **how.data},
            )
        ],
        now,
    )  # fmt: skip
    moved = _move_job(job, attempt, how, verdict, now=now, actor=actor)
    if moved is JobState.QUEUED:
        give_back_to_spared(attempt, slack_s=policy.evict.nomination_slack_s, now=now, actor=actor)
    return moved


def _forget_a_stop_taken_back(attempt: Attempt, how: End) -> None:
    """An attempt that was let run on is one that nobody had asked, unless it has left for what it was asked for."""
    left = how.outcome == "PREEMPTED" and how.why == attempt.why
    if attempt.action == "run" and not left:
        attempt.why, attempt.asked_at = "", None


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
        "error": _error(verdict, how)[:4000],
        "errors": list(how.errors) if verdict.event is JobEvent.FAIL else [],
        "epoch": job.epoch + (1 if how.outcome == "LOST" else 0),
    }
    message = _why_in_words(job, attempt, how)
    if verdict.event is JobEvent.FAIL or not how.error:
        message = _error(verdict, how) or message
    newest = resuming.of(job)
    if how.checkpoint is not None:
        newest = resuming.saved(attempt, how.checkpoint, how.checkpoint_step)
        Artifact.objects.filter(pk=how.checkpoint).update(published=True)
    fields |= newest.columns()
    if verdict.event is JobEvent.REQUEUE:
        fields |= {
            "eligible_at": now + timedelta(seconds=verdict.backoff_s) if verdict.backoff_s else None,
            "preempted": job.preempted or verdict.preempted,
            "preempt_count": job.preempt_count + verdict.evicted,
            "avoid": {
                "nodes": sorted({*job.avoid.get("nodes", []), *how.avoid_nodes})[-8:],
                "gpus": sorted({*job.avoid.get("gpus", []), *how.avoid_gpus})[-32:],
            },
        }
        begins = resuming.chosen(job, newest, now, actor=actor)
        fields |= begins.columns()
        message = "; ".join(words for words in (message, verdict.told, resuming.in_words(begins, newest)) if words)
    elif verdict.event is JobEvent.SUCCEED:
        naming.publish(job, attempt, how.outputs)
        fields |= {"progress_step": F("progress_total"), "error": ""}
        message = ""
    elif verdict.outcome == "CANCELLED" and attempt.started_at is not None:
        message = "; ".join(words for words in (message, cancelled.where_a_retry_begins(newest)) if words)
    return step(job, verdict.event, now, actor=actor, message=message, attempt=attempt.pk, fields=fields,
                data={"outcome": verdict.outcome, "backoff_s": verdict.backoff_s})  # fmt: skip


def _why_in_words(job: Job, attempt: Attempt, how: End) -> str:
    """What its nodes say of its end, or why they were to stop it, with who cancelled it; "" when nobody had asked."""
    why = how.why or attempt.why
    if why == "cancel":
        done = cancelled.DONE if how.outcome == "SUCCEEDED" else ""
        return "; ".join(words for words in (cancelled.by_whom(job), done, how.error) if words)
    if how.outcome == "SUCCEEDED" and why in WHY and not how.error:
        return DONE_FIRST
    return how.error or WHY.get(why, "")


def _left_behind(how: End) -> str:
    """What still holds GPUs of it, as its node says; "" for nothing."""
    return f"its GPUs are out of service: {how.data['left']}" if how.data.get("left") else ""


def _error(verdict: Aftermath, how: End) -> str:
    """Why the job moved on as it did. What counts attempts is told with the last of them, everything else once."""
    if verdict.event is JobEvent.TIME_OUT:
        return how.error or verdict.error
    words = "; the last time: ".join(words for words in (verdict.error, how.error) if words)
    return "; ".join(each for each in (words, verdict.told) if each) if verdict.event is JobEvent.FAIL else words


def got_on(attempt: Attempt, step_reached: int, now: datetime) -> None:
    """An attempt that began with a checkpoint has got further than that: resuming took until now."""
    if attempt.resume_id is not None and attempt.resumed_at is None and step_reached > attempt.resume_step:
        Attempt.objects.filter(pk=attempt.pk, resumed_at__isnull=True).update(resumed_at=now)
