"""Who held how many GPUs from when to when, and what of it was lost? One query each, of the jobs that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Q, Sum

from scheduling.core.ledger import MICRO
from scheduling.models import Allocation, LostWork
from scheduling.store.clock import to_ms
from scheduling.store.queries.access import Actor

OF_JOB = ("project__name", "user__username", "kind", "queue__name")


class Span(NamedTuple):
    """So many GPUs of one attempt from ``start`` to ``end`` (ms since 1970), for a job of that project, user, kind and
    queue. ``micro``: millionths of their billing weights together. ``cause``: why it was lost, "" for what was held."""

    project: str
    user: str
    kind: str
    queue: str
    start: int
    end: int
    gpus: int
    micro: int
    cause: str = ""


def held(wanted: Mapping[str, str], start: datetime, end: datetime, now: datetime) -> Iterator[Span]:
    """What was held of any GPU between ``start`` and ``end``, as whole spans; what is still held up to ``now``.

    ``wanted``: the ``project``, ``user``, ``kind`` and ``queue`` of the jobs, as far as they are asked for.
    """
    rows = (
        Allocation.objects.filter(Q(released_at__isnull=True) | Q(released_at__gt=start), granted_at__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(*(f"attempt__job__{name}" for name in OF_JOB), "attempt_id", "granted_at", "released_at")
        .annotate(gpus=Count("pk"), weight=Sum("billing"))
    )
    for project, user, kind, queue, _, granted, released, gpus, weight in rows.iterator(chunk_size=5000):
        until = max(now, granted) if released is None else released
        yield Span(project, user, kind, queue, to_ms(granted), to_ms(until), gpus, round(weight * MICRO))


def lost(wanted: Mapping[str, str], start: datetime, end: datetime) -> Iterator[Span]:
    """What of that was lost for no fault of the jobs (D6): the stretches between ``start`` and ``end``, as whole ones.

    An attempt has one or two: going on from a checkpoint once more, and what has to be done again.
    """
    rows = (
        LostWork.objects.filter(at__gt=start, attempt__granted_at__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(
            *(f"attempt__job__{name}" for name in OF_JOB),
            "cause", "attempt__granted_at", "resume_until", "redo_since", "at",
        )
        .annotate(gpus=Count("attempt__allocations"), weight=Sum("attempt__allocations__billing"))
    )  # fmt: skip
    for row in rows.iterator(chunk_size=5000):
        project, user, kind, queue, cause, granted, resumed, redo, at, gpus, weight = row
        micro = round((weight or 0.0) * MICRO)
        for begin, until in ((granted, resumed), (redo, at)):
            if begin is not None and until is not None:
                yield Span(project, user, kind, queue, to_ms(begin), to_ms(until), gpus, micro, cause)


def of_jobs(prefix: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """The filter, from a model that reaches jobs by ``prefix``, for what is ``wanted`` of them."""
    columns = dict(zip(("project", "user", "kind", "queue"), OF_JOB, strict=True))
    return {f"{prefix}{columns[name]}": value for name, value in wanted.items() if name in columns and value}


def named(actor: Actor, project: str, user: str) -> str:
    """The user's name to whom may know who works in the project; "" to others."""
    return user if actor.sees(project) else ""
