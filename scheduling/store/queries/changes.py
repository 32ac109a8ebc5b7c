"""What has changed, for those who wait: rows as they are committed, and whether a node has news."""

from __future__ import annotations

import threading
from uuid import UUID

from django.db import connection
from django.db.models import Q

from scheduling.models import AttemptNode, Event
from scheduling.store.journal import TICKS
from scheduling.store.queries.live import Reader
from scheduling.store.wake import Waiter, newest_event

CHATTER = (*TICKS, "metric")


class Tail:
    """The objects changed since the last call, as events are committed. For one thread, whose connection it uses."""

    def __init__(self) -> None:
        self._waiter = Waiter()
        self._reader = Reader()

    def next(self, timeout_s: float, stop: threading.Event) -> list[tuple[str, str]]:
        """``(object, id)`` of what changed; empty after ``timeout_s``. A row that committed late is not missed."""
        if not self._waiter.wait(timeout_s, stop):
            return []
        return [(c.object, c.object_id) for c in self._reader.take()]


def news(node: str, since: int) -> tuple[int, bool]:
    """(the newest event, whether one after ``since`` concerns the node's work and was not caused by the node)."""
    newest = newest_event()
    if since > newest:
        return newest, True  # a number of another database: look once and go on from here
    jobs = [
        str(j)
        for j in AttemptNode.objects.filter(node__name=node, attempt__ended_at__isnull=True).values_list(
            "attempt__job_id", flat=True
        )
    ]
    told = (
        Event.objects.filter(Q(node=node) | Q(object="job", object_id__in=jobs), id__gt=since, id__lte=newest)
        .exclude(type__in=CHATTER)
        .exclude(actor=f"node {node}")
        .exists()
    )
    return newest, told


def rank_of(job_id: UUID, attempt: int | None, node: str) -> int | None:
    """The node's rank in that attempt of the job (the newest by default), None when it had no part in it."""
    parts = AttemptNode.objects.filter(attempt__job_id=job_id, node__name=node)
    if attempt is not None:
        parts = parts.filter(attempt__number=attempt)
    return parts.order_by("-attempt__number").values_list("rank", flat=True).first()


def let_go() -> None:
    """This thread's database connection is closed: whoever waits long needs none meanwhile."""
    connection.close()
