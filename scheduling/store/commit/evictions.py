"""Evictions: victims are asked to stop and their GPUs are kept for the job they stop for, or neither happens (D8, D10).

One transaction holds the victims' steps to PREEMPTING, what their nodes are told, and the nomination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.plan import Nominate, Preempt
from scheduling.models import Attempt, AttemptNode, Gpu, Job, Nomination
from scheduling.store import journal
from scheduling.store.clock import from_ms
from scheduling.store.commit.attempts import ask_to_stop
from scheduling.store.commit.transitions import lock_job, step
from scheduling.store.queries.evictions import LOOP_WITHIN, would_be_a_loop

LOOP = "it was to evict the same job from the same GPUs a third time within an hour: for an hour it evicts nobody"


class _Stale(Exception):
    """A victim is no longer what the plan took it for."""


def evict(nomination: Nominate, victims: Sequence[Preempt], *, now: datetime, actor: str) -> list[str] | None:
    """The victims are asked to save and stop, and the GPUs are kept for the job; returns the nodes to ring.

    None, and nothing written, when the job waits no more or a victim runs no more: then the plan has become stale.
    None too when it would be the third time in an hour for a pair on the same GPUs: then the job evicts nobody for
    an hour, and its timeline says so.
    """
    ordered = sorted(victims, key=lambda each: each.job)
    try:
        with transaction.atomic():
            jobs = {str(key): lock_job(key) for key in sorted({UUID(nomination.job), *(UUID(v.job) for v in victims)})}
            wants = jobs[nomination.job]
            if wants is None or wants.state != JobState.QUEUED:
                return None
            asked = [_asked(jobs[victim.job], victim) for victim in ordered]
            if any(would_be_a_loop(wants, UUID(victim.job), now) for victim in ordered):
                _stop_evicting(wants, now, actor=actor)
                return None
            nodes: list[str] = []
            for (job, attempt), victim in zip(asked, ordered, strict=True):
                nodes += _ask(job, attempt, victim, wants=wants, now=now, actor=actor)
            Nomination.objects.update_or_create(
                job=wants,
                defaults={
                    "gpus": list(nomination.gpus),
                    "deadline": from_ms(nomination.deadline_ms),
                    "again": nomination.again,
                },
            )
            _tell(wants, nomination, asked, now=now, actor=actor)
            return nodes
    except _Stale:
        return None


def _asked(job: Job | None, victim: Preempt) -> tuple[Job, Attempt]:
    attempt = Attempt.objects.filter(
        pk=UUID(victim.attempt), epoch=victim.epoch, ended_at__isnull=True, action="run"
    ).first()
    if job is None or attempt is None or job.state != JobState.RUNNING:
        raise _Stale
    return job, attempt


def _ask(job: Job, attempt: Attempt, victim: Preempt, *, wants: Job, now: datetime, actor: str) -> list[str]:
    """One victim is PREEMPTING and its nodes will be told."""
    level = f"{wants.level.name} job of queue {wants.queue.name}" if wants.level and wants.queue else "job"
    then = f"it has {victim.grace_s:g} s to save and goes back to the queue"
    if _is_careful(job):
        then = f"if it saves within {victim.grace_s:g} s, it goes back to the queue; otherwise it runs on"
    message = f"its GPUs are needed by a {level}; {then}"
    gpus = sorted(attempt.allocations.filter(released_at__isnull=True).values_list("gpu__uuid", flat=True))
    step(job, JobEvent.PREEMPT, now, actor=actor, attempt=attempt.pk, message=message,
         data={"cause": "preempt", "grace_s": victim.grace_s, "gpus": gpus})  # fmt: skip
    ask_to_stop(attempt, "preempt", now, grace_s=victim.grace_s)
    Attempt.objects.filter(pk=attempt.pk).update(evicted_for=wants)
    return list(attempt.nodes.values_list("node__name", flat=True))


def _tell(wants: Job, nomination: Nominate, asked: Sequence[tuple[Job, Attempt]], *, now: datetime, actor: str) -> None:
    """The timeline of the job that is to get the GPUs says which, and how many jobs leave them."""
    held = Gpu.objects.filter(uuid__in=nomination.gpus).select_related("node").order_by("node__name", "index")
    names = ", ".join(f"{gpu.node.name}/{gpu.index}" for gpu in held)
    count = len(asked)
    unsure = sum(_is_careful(job) for job, _ in asked)
    which = "it runs" if count == 1 else f"{unsure} of them run{'s' if unsure == 1 else ''}"
    if_not = f"; {which} on if not saved in time, and then this job waits anew" if unsure else ""
    journal.write(
        [
            journal.Note(
                "nominated", "job", str(wants.pk), actor=actor, version=wants.version,
                project=wants.project.name if wants.project else "",
                message=f"{names} will be its own: {count} running job{'s' if count != 1 else ''} of lower levels "
                        f"{'were' if count != 1 else 'was'} asked to save and leave{if_not}",
                data={"gpus": list(nomination.gpus), "deadline": from_ms(nomination.deadline_ms).isoformat(),
                      "victims": count},
            )
        ],
        now,
    )  # fmt: skip


def _stop_evicting(wants: Job, now: datetime, *, actor: str) -> None:
    until = now + LOOP_WITHIN
    Job.objects.filter(pk=wants.pk).update(no_evict_until=until, version=F("version") + 1)
    wants.refresh_from_db(fields=["version"])
    journal.write(
        [
            journal.Note(
                "eviction_loop", "job", str(wants.pk), actor=actor, version=wants.version, message=LOOP,
                project=wants.project.name if wants.project else "", data={"until": until.isoformat()},
            )
        ],
        now,
    )  # fmt: skip


@transaction.atomic
def spare(jobs: Collection[UUID], *, now: datetime, actor: str) -> list[str]:
    """What still runs of those that were asked to leave for these jobs may run on; returns the nodes to ring.

    The jobs do not need their GPUs any more, or may not have them. What has lost a node already is to stop
    nevertheless. One that stops all the same has been preempted, as it was asked to, by whom it was asked for. Of one
    that did not save within its grace the end of that grace stays: it was asked in vain.
    """
    nodes: list[str] = []
    asked = Attempt.objects.filter(evicted_for_id__in=jobs, ended_at__isnull=True, action="stop", why="preempt")
    broken = AttemptNode.objects.filter(ended_at__isnull=False).values("attempt_id")
    unsaved: Counter[UUID] = Counter()
    for attempt in asked.exclude(pk__in=broken).order_by("job_id"):
        job = lock_job(attempt.job_id)
        if job is None or job.state != JobState.PREEMPTING:
            continue
        wants, late = attempt.evicted_for_id, attempt.stop_by is not None and attempt.stop_by <= now
        Attempt.objects.filter(pk=attempt.pk).update(action="run", stop_by=attempt.stop_by if late else None)
        message = "its GPUs are not needed any more; it may run on if it still does"
        if late and wants is not None and runs_on(job, attempt):
            message = f"it did not save in time, and jobs of queue {job.queue} do not make way unsaved: it runs on"
            unsaved[wants] += 1
        step(job, JobEvent.SPARE, now, actor=actor, attempt=attempt.pk, message=message)
        nodes += attempt.nodes.values_list("node__name", flat=True)
    _tell_in_vain(unsaved, now, actor=actor)
    return nodes


def _is_careful(job: Job) -> bool:
    """Whether its queue says that its jobs are not stopped for others before they have saved."""
    return job.queue is not None and job.queue.never_without_checkpoint


def runs_on(job: Job, attempt: Attempt) -> bool:
    """Whether its queue says that the job, which has not saved since it was asked to, is not stopped for others."""
    if not _is_careful(job):
        return False
    made = Job.objects.filter(pk=job.pk, resume__corrupt=False, resume_saved_at__gt=attempt.asked_at)
    return not made.exists()


def _tell_in_vain(unsaved: Counter[UUID], now: datetime, *, actor: str) -> None:
    """The timelines of the jobs that wanted the GPUs say why they do not get them."""
    notes = []
    for wants in Job.objects.select_related("project").filter(pk__in=unsaved).order_by("pk"):
        count = unsaved[wants.pk]
        notes.append(
            journal.Note(
                "not_saved", "job", str(wants.pk), actor=actor, version=wants.version,
                project=wants.project.name if wants.project else "",
                message=f"{count} running job{'s' if count != 1 else ''} did not save in time and may not be stopped "
                        f"unsaved: {'they run' if count != 1 else 'it runs'} on, and will be asked again after saving",
                data={"unsaved": count},
            )
        )  # fmt: skip
    journal.write(notes, now)
