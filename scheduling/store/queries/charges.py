"""What was charged to an account and what was given back, run by run? Exactly as balances are settled (D5, D6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from scheduling.core.ledger import MICRO
from scheduling.core.statement import Charge, Credit
from scheduling.models import Allocation, Balance, Job, LostWork
from scheduling.store.clock import to_ms
from scheduling.store.queries.gpu_spans import OF_JOB, of_jobs

Owner = tuple[str, str, str]
"""Queue, project and user."""
_AT_ONCE = 5000  # ids in one query
_OWNER = (OF_JOB[3], OF_JOB[0], OF_JOB[1])


class JobName(NamedTuple):
    """What a statement says of a job."""

    name: str
    user: str
    kind: str
    queue: str
    state: str


def charged(
    wanted: Mapping[str, str], now: datetime, *, since: datetime | None = None
) -> Iterator[tuple[Owner, Charge]]:
    """Every run's GPUs, from the grant to the release or up to ``now``; what ended before ``since`` is left out.

    ``wanted``: the ``project``, ``user`` and ``queue`` of the jobs, as far as they are asked for. GPUs of one weight
    that a run held for the same time are one charge.
    """
    rows = Allocation.objects.all()
    if since is not None:
        rows = rows.filter(Q(released_at__isnull=True) | Q(released_at__gt=since))
    return _charges(rows, wanted, now)


def running(wanted: Mapping[str, str], now: datetime) -> Iterator[tuple[Owner, Charge]]:
    """Of those the ones that are still held, which no account has been settled for."""
    return _charges(Allocation.objects.filter(released_at__isnull=True), wanted, now)


def _charges(rows: QuerySet[Allocation], wanted: Mapping[str, str], now: datetime) -> Iterator[tuple[Owner, Charge]]:
    found = (
        rows.filter(granted_at__lt=now, **of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(
            "attempt__job_id", "granted_at", "released_at", "billing", *(f"attempt__job__{name}" for name in _OWNER)
        )
        .annotate(gpus=Count("pk"))
    )
    at = to_ms(now)
    for job, granted, released, billing, *owner, gpus in found.iterator(chunk_size=5000):
        until = at if released is None else min(at, to_ms(released))
        charge = Charge(str(job), to_ms(granted), max(until, to_ms(granted)), gpus, gpus * round(billing * MICRO))
        yield (owner[0], owner[1], owner[2]), charge


def given_back(
    wanted: Mapping[str, str], now: datetime, *, since: datetime | None = None
) -> Iterator[tuple[Owner, Credit]]:
    """What of it was lost for no fault of the jobs and given back up to ``now``, and not before ``since``."""
    rows = LostWork.objects.filter(at__lte=now, **of_jobs("attempt__job__", wanted))
    if since is not None:
        rows = rows.filter(at__gt=since)
    found = (
        rows.filter(attempt__allocations__isnull=False)
        .order_by()
        .values_list(
            "attempt__job_id", "attempt__granted_at", "resume_until", "redo_since", "at",
            "attempt__allocations__billing", *(f"attempt__job__{name}" for name in _OWNER),
        )
        .annotate(gpus=Count("attempt__allocations"))
    )  # fmt: skip
    for job, granted, resumed, redo, at, billing, *owner, gpus in found.iterator(chunk_size=5000):
        for begin, until in ((granted, resumed), (redo, at)):
            if begin is not None and until is not None:
                credit = Credit(str(job), to_ms(begin), to_ms(until), to_ms(at), gpus * round(billing * MICRO))
                yield (owner[0], owner[1], owner[2]), credit


def settled(ledger: str, key: str) -> tuple[float, int]:
    """GPU-ms that the ``project`` or ``user`` (PROJECT/USER) has on its account, and at which instant (ms) they count
    so; nothing where no run of it has ended yet."""
    row = Balance.objects.filter(ledger=ledger, key=key).values_list("gpu_ms", "settled_at").first()
    return (0.0, 0) if row is None else (row[0], to_ms(row[1]))


def had_jobs(project: str, user: str) -> bool:
    """Whether the person ever had a job in the project."""
    return Job.objects.filter(project__name=project, user__username=user).exists()


def names(jobs: Sequence[str]) -> dict[str, JobName]:
    """What these jobs are called, by their ids."""
    found: dict[str, JobName] = {}
    for first in range(0, len(jobs), _AT_ONCE):
        rows = Job.objects.filter(pk__in=[UUID(job) for job in jobs[first : first + _AT_ONCE]])
        for key, *rest in rows.values_list("pk", "name", "user__username", "kind", "queue__name", "state"):
            found[str(key)] = JobName(*rest)
    return found
