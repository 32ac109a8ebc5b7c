"""What the server enforces when a node does not: the end of a grace, and the end of ``max_duration`` (D25)."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.models import Attempt, Job
from scheduling.store import journal
from scheduling.store.commit.evictions import runs_on
from scheduling.store.commit.grants import TOO_LATE
from scheduling.store.commit.transitions import lock_job, step
from scheduling.store.fixed import FixedValues

# The node enforces the limit on its own clock; the server speaks when kill time and a heartbeat have passed too.
LATE_S = 20.0

_TOO_LATE = FixedValues(
    lambda now: Job.objects.filter(Q(awaits__gt=0) | Q(kept_back=True), start_by__lte=now, state=JobState.QUEUED)
    .order_by("pk").values_list("pk")
)  # fmt: skip
_ASKED_OR_BEGUN = FixedValues(
    lambda: Attempt.objects.filter(Q(action="stop") | Q(action="run", started_at__isnull=False), ended_at__isnull=True)
    .values_list("pk", "action", "why", "stop_by", "started_at", "remaining_s")
)  # fmt: skip


def enforce(now: datetime) -> list[str]:
    """Attempts past their grace or their time limit are told to be killed; returns the nodes to ring.

    But of a queue whose jobs never make way unsaved, one that was to leave for another job and has not saved is not:
    unless a node of it has ended its part, so that it can't run on.
    """
    if not any(_overdue(now)):  # as it mostly is: no transaction for that
        return []
    with transaction.atomic():
        return _kill(now)


def expire_awaiting(now: datetime) -> int:
    """Jobs that still wait for others when they were to start are CANCELLED; returns how many. Of those that wait for
    GPUs the plan says so."""
    late = [job for (job,) in _TOO_LATE(now)]
    for key in late:
        with transaction.atomic():
            job = lock_job(key)
            if job is not None and job.state == JobState.QUEUED and (job.awaits or job.kept_back):
                told = f"{TOO_LATE}, and it still waited for others"
                step(job, JobEvent.CANCEL, now, actor="scheduler", message=told,
                     data={"cause": "start_by"}, fields={"outcome": "CANCELLED", "error": TOO_LATE})  # fmt: skip
    return len(late)


def _overdue(now: datetime) -> tuple[list[UUID], list[UUID]]:
    """The attempts past their grace, and those past their time limit."""
    late = now - timedelta(seconds=LATE_S * settings.TIME_SCALE)
    stopping, running = [], []
    for key, action, why, stop_by, started_at, remaining_s in _ASKED_OR_BEGUN():
        # Of a preemption only the server ends the grace, so it needn't wait for the node to have done so.
        if action == "stop" and stop_by is not None and (stop_by < late or (why == "preempt" and stop_by <= now)):
            stopping.append(key)
        elif action == "run" and started_at + timedelta(seconds=remaining_s) < late:
            running.append(key)
    return stopping, running


def _kill(now: datetime) -> list[str]:
    stopping, running = _overdue(now)
    overdue = Attempt.objects.filter(pk__in=stopping).select_related("job__queue")
    ending = [(attempt, attempt.why) for attempt in overdue if not _may_run_on(attempt)]
    nodes: list[str] = []
    for attempt, why in [*ending, *((attempt, "time_limit") for attempt in Attempt.objects.filter(pk__in=running))]:
        as_read = Attempt.objects.filter(
            pk=attempt.pk, ended_at__isnull=True, action=attempt.action, stop_by=attempt.stop_by
        )
        if as_read.update(action="kill", why=why, stop_by=now):
            nodes += attempt.nodes.values_list("node__name", flat=True)
            journal.write(
                [
                    journal.Note("kill_requested", "job", str(attempt.job_id), attempt=attempt.pk, epoch=attempt.epoch,
                                 message="the time limit has passed" if why == "time_limit" else "the grace is over")
                ],
                now,
            )  # fmt: skip
    return nodes


def _may_run_on(attempt: Attempt) -> bool:
    broken = attempt.nodes.filter(ended_at__isnull=False).exists()
    return attempt.why == "preempt" and not broken and runs_on(attempt.job, attempt)
