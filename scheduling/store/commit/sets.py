"""Jobs that are stored together, all or none; and which of a sweep may run now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F, Q

from scheduling.core.lifecycle import JobState
from scheduling.models import Job, JobSet
from scheduling.models.jobs import LIVE
from scheduling.store import journal
from scheduling.store.commit import jobs
from scheduling.store.commit.after import After
from scheduling.store.fixed import FixedValues


class Member(NamedTuple):
    """A job of a set: the columns as :func:`jobs.create` takes them, and what it waits for."""

    columns: dict[str, Any]
    after: After | None


class _Undone(Exception):
    """Nothing is stored after all; ``earlier`` is what the idempotency key had made before."""

    def __init__(self, earlier: jobs.Created | None) -> None:
        super().__init__()
        self.earlier = earlier


def create(
    kind: str,
    members: Sequence[Member],
    *,
    user_id: int,
    key: jobs.Key | None,
    now: datetime,
    actor: str,
    max_running: int | None = None,
) -> tuple[UUID | None, jobs.Created | None]:
    """(the set of these jobs, in their order; its first job). The key is of the first job, and when that had been made
    before, it is told and nothing is written; nothing either when a job that one is to wait for has ended meanwhile:
    (None, None)."""
    try:
        with transaction.atomic():
            made = JobSet.objects.create(kind=kind, user_id=user_id, created_at=now, max_running=max_running)
            first: jobs.Created | None = None
            for member in members:
                columns = {**member.columns, "member_of": made, "kept_back": max_running is not None}
                of_first = key if first is None else None
                created = jobs.create(columns, user_id=user_id, key=of_first, now=now, actor=actor, after=member.after)
                if created is None or not created.fresh:
                    raise _Undone(created)
                first = first or created
            if max_running is not None:
                _admit(made, now)
            return made.pk, first
    except _Undone as undone:
        return None, undone.earlier


_KEPT_BACK = FixedValues(
    lambda: Job.objects.filter(kept_back=True, awaits=0, state=JobState.QUEUED)
    .order_by("member_of").values_list("member_of").distinct()
)  # fmt: skip


def admit(now: datetime) -> int:
    """Of each sweep as many jobs may run as its limit says: the first of those that were kept back are in the queue.
    Returns how many are. Only the scheduler's tick calls it, so that no two count at once."""
    found = [key for (key,) in _KEPT_BACK()]
    admitted = 0
    for key in found:
        with transaction.atomic():
            made = JobSet.objects.select_for_update().filter(pk=key).first()
            admitted += _admit(made, now) if made is not None else 0
    return admitted


def _admit(made: JobSet, now: datetime) -> int:
    members = Job.objects.filter(member_of=made)
    waiting = members.filter(kept_back=True, awaits=0, state=JobState.QUEUED).order_by("place_in_set", "pk")
    at_work = Q(state__in=LIVE) | Q(state=JobState.QUEUED, kept_back=False, awaits=0)
    busy = members.aggregate(busy=Count("pk", filter=at_work))["busy"]
    room = None if made.max_running is None else max(0, made.max_running - busy)
    # One that somebody else is changing just now is looked at with the next pass.
    found = list(waiting.select_for_update(of=("self",), skip_locked=True).select_related("project")[:room])
    Job.objects.filter(pk__in=[job.pk for job in found]).update(kept_back=False, version=F("version") + 1)
    journal.write(
        [
            journal.Note("eligible", "job", str(job.pk), actor="scheduler", version=job.version + 1,
                         project=job.project.name if job.project else "",
                         message=f"one of the {made.max_running} of its sweep that may run at a time")
            for job in found
        ],
        now,
    )  # fmt: skip
    return len(found)
