"""Who held how many GPUs from when to when, and what of it was lost? One query each, of the jobs that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.db.models import Count, Q, Sum

from scheduling.core.ledger import MICRO
from scheduling.models import Allocation, LostWork, Project, Queue
from scheduling.store.clock import to_ms

_KEYS = ("project_id", "user_id", "kind", "queue_id")
OF_JOB = ("project__name", "user__username", "kind", "queue__name")


class Span(NamedTuple):
    """So many GPUs from ``start`` to ``end`` (ms since 1970), for a job of that project, user, kind and
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

    ``wanted``: the ``project``, ``user``, ``kind`` and ``queue`` of the jobs, as far as they are asked for. Equal spans
    are one, with all their GPUs.
    """
    rows = (
        Allocation.objects.filter(Q(released_at__isnull=True) | Q(released_at__gt=start), granted_at__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(*(f"attempt__job__{name}" for name in _KEYS), "granted_at", "released_at")
        .annotate(gpus=Count("pk"), weight=Sum("billing"))
    )
    names = _Names()
    for project, user, kind, queue, granted, released, gpus, weight in rows.iterator(chunk_size=5000):
        until = max(now, granted) if released is None else released
        yield Span(
            names.projects[project], names.users[user], kind, names.queues[queue], to_ms(granted), to_ms(until), gpus,
            round(weight * MICRO),
        )  # fmt: skip


def lost(wanted: Mapping[str, str], start: datetime, end: datetime) -> Iterator[Span]:
    """What of that was lost for no fault of the jobs (D6): the stretches between ``start`` and ``end``, as whole ones.

    An attempt has one or two: going on from a checkpoint once more, and what has to be done again.
    """
    rows = (
        LostWork.objects.filter(at__gt=start, attempt__granted_at__lt=end)
        .filter(**of_jobs("attempt__job__", wanted))
        .order_by()
        .values_list(
            *(f"attempt__job__{name}" for name in _KEYS),
            "cause", "attempt__granted_at", "resume_until", "redo_since", "at",
        )
        .annotate(gpus=Count("attempt__allocations"), weight=Sum("attempt__allocations__billing"))
    )  # fmt: skip
    names = _Names()
    for row in rows.iterator(chunk_size=5000):
        project, user, kind, queue, cause, granted, resumed, redo, at, gpus, weight = row
        whose = names.projects[project], names.users[user], kind, names.queues[queue]
        micro = round((weight or 0.0) * MICRO)
        for begin, until in ((granted, resumed), (redo, at)):
            if begin is not None and until is not None:
                yield Span(*whose, to_ms(begin), to_ms(until), gpus, micro, cause)


class _Names:
    """What projects, users and queues are called, by their keys: a sort by keys costs half of one by names."""

    def __init__(self) -> None:
        self.projects = dict(Project.objects.values_list("pk", "name"))
        self.queues = dict(Queue.objects.values_list("pk", "name"))
        self.users = dict(get_user_model().objects.values_list("pk", "username"))


def of_jobs(prefix: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """The filter, from a model that reaches jobs by ``prefix``, for what is ``wanted`` of them."""
    columns = dict(zip(("project", "user", "kind", "queue"), OF_JOB, strict=True))
    return {f"{prefix}{columns[name]}": value for name, value in wanted.items() if name in columns and value}
