"""What the server enforces when a node does not: the end of a grace, and the end of ``max_duration`` (D25)."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from scheduling.models import Attempt
from scheduling.store import journal
from scheduling.store.commit.evictions import runs_on

# The node enforces the limit on its own clock; the server speaks when kill time and a heartbeat have passed too.
LATE_S = 20.0


@transaction.atomic
def enforce(now: datetime) -> list[str]:
    """Attempts past their grace or their time limit are told to be killed; returns the nodes to ring.

    But of a queue whose jobs never make way unsaved, one that was to leave for another job and has not saved is not:
    unless a node of it has ended its part, so that it can't run on.
    """
    late = timedelta(seconds=LATE_S * settings.TIME_SCALE)
    # Of a preemption only the server ends the grace, so it needn't wait for the node to have done so.
    stopping = Attempt.objects.filter(ended_at__isnull=True, action="stop")
    overdue = stopping.filter(Q(stop_by__lt=now - late) | Q(stop_by__lte=now, why="preempt"))
    running = Attempt.objects.filter(ended_at__isnull=True, action="run", started_at__isnull=False)
    timed_out = [a for a in running if a.started_at and a.started_at + timedelta(seconds=a.remaining_s) < now - late]
    nodes: list[str] = []
    ending = [(a, a.why) for a in overdue.select_related("job__queue") if not _may_run_on(a)]
    for attempt, why in ending + [(a, "time_limit") for a in timed_out]:
        if Attempt.objects.filter(pk=attempt.pk, ended_at__isnull=True).update(action="kill", why=why, stop_by=now):
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
