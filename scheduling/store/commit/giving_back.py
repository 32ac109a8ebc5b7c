"""Who has left his GPUs for a job that does not take them then? They are his again before anybody else's (D8, D10).

That happens when the job needs several victims and one of them may not be stopped unsaved, and when the job starts
elsewhere or waits no more.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, OuterRef, Subquery

from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.plan import Plan
from scheduling.models import Allocation, Attempt, Gpu, LostWork, Nomination
from scheduling.store import journal
from scheduling.store.commit.transitions import lock_job

# The event of it: a nomination that no plan has made.
GIVEN_BACK = "given_back"


@transaction.atomic
def give_back(settled: Collection[UUID], plan: Plan, *, slack_s: float, now: datetime, actor: str) -> None:
    """Who left in vain for the settled jobs has his old GPUs kept for him for ``slack_s`` seconds, if all are free.

    In vain: nothing of what was left goes to whom it was left for. The ledger of lost work tells of all of them; GPUs
    are only given back to who still waits and does not start by this plan.
    """
    taken = {gpu for start in plan.starts if UUID(start.job) in settled for gpu in start.gpus}
    taken |= {gpu for wants in plan.nominations for gpu in wants.gpus}
    started = {UUID(start.job) for start in plan.starts}
    for attempt in _left(settled):
        if not taken & {each.gpu.uuid for each in attempt.allocations.all()}:
            _mark(attempt)
            if attempt.job_id not in started:
                _keep(attempt, now + timedelta(seconds=slack_s), now, actor=actor)


def give_back_to_spared(attempt: Attempt, *, slack_s: float, now: datetime, actor: str) -> None:
    """As :func:`give_back` for an attempt that was told to run on too late, and has just left as it was asked to.

    One that ran on and ended in any other way has none of it: it is not to stop for another job any more (``why``).
    """
    if attempt.why == "preempt" and attempt.action == "run":
        _mark(attempt)
        _keep(attempt, now + timedelta(seconds=slack_s), now, actor=actor)


def _left(settled: Collection[UUID]) -> list[Attempt]:
    """The attempts that have ended since they were asked to leave for these jobs, which have not started since.

    What might have run on is not among them: it had its GPUs back as it left."""
    newest = Attempt.objects.filter(job=OuterRef("evicted_for")).order_by("-number").values("granted_at")[:1]
    ended = Attempt.objects.filter(evicted_for_id__in=settled, why="preempt", outcome="PREEMPTED").exclude(action="run")
    fresh = ended.annotate(since=Subquery(newest)).exclude(since__isnull=False, since__gte=F("asked_at"))
    return list(fresh.prefetch_related("allocations__gpu").order_by("job__submitted_at", "job_id", "number"))


def _mark(attempt: Attempt) -> None:
    LostWork.objects.filter(attempt=attempt).update(in_vain=True)


def _keep(attempt: Attempt, until: datetime, now: datetime, *, actor: str) -> None:
    """The GPUs that the attempt had are kept for its job, if it waits since and all of them can be used."""
    job = lock_job(attempt.job_id)
    if job is None or job.state != JobState.QUEUED or job.attempt_number != attempt.number:
        return
    gpus = list(Gpu.objects.filter(allocations__attempt=attempt).select_related("node").order_by("node__name", "index"))
    uuids = {gpu.uuid for gpu in gpus}
    usable = all(gpu.state == GpuState.HEALTHY and gpu.node.state == NodeState.READY for gpu in gpus)
    kept = {uuid for others in Nomination.objects.exclude(job=job).values_list("gpus", flat=True) for uuid in others}
    if not usable or uuids & kept or Allocation.objects.filter(gpu__in=gpus, released_at__isnull=True).exists():
        return
    facts = {"gpus": sorted(uuids), "deadline": until, "again": False}
    Nomination.objects.update_or_create(job=job, defaults=facts)
    names = ", ".join(f"{gpu.node.name}/{gpu.index}" for gpu in gpus)
    note = journal.Note(
        GIVEN_BACK, "job", str(job.pk), actor=actor, version=job.version, data={"gpus": facts["gpus"]},
        project=job.project.name if job.project else "",
        message=f"it made room in vain: the job that {names} were for does not take them now, "
        "so they are its own again",
    )  # fmt: skip
    journal.write([note], now)
