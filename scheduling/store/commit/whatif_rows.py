"""Replays of recent history as rows: asked for, taken up once, told of while they go, ended, and gone after a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from scheduling.models import WhatIfRun
from scheduling.models.whatif import CANCELLED, DONE, FAILED, QUEUED, RUNNING
from scheduling.store.queries.access import Actor

GOING = (QUEUED, RUNNING)


def add(actor: Actor, days: int, change: Mapping[str, Any], now: datetime) -> UUID:
    """A replay is asked for; returns its id."""
    return WhatIfRun.objects.create(user_id=actor.user_id, created_at=now, days=days, change=dict(change)).pk


def going(user_id: int) -> int:
    """How many replays of this person wait or run."""
    return WhatIfRun.objects.filter(user_id=user_id, state__in=GOING).count()


def visible(actor: Actor) -> QuerySet[WhatIfRun]:
    """Those that the actor may know of: an admin all, everybody else their own."""
    rows = WhatIfRun.objects.select_related("user")
    return rows if actor.is_admin else rows.filter(user_id=actor.user_id)


def one(run: UUID) -> WhatIfRun | None:
    """The replay, whoever asked for it."""
    return WhatIfRun.objects.select_related("user").filter(pk=run).first()


def take_up(run: UUID, now: datetime) -> bool:
    """It is running; False when somebody else has taken it up, or it is over. A message that comes twice starts it
    once."""
    rows = WhatIfRun.objects.filter(pk=run, state=QUEUED)
    return bool(rows.update(state=RUNNING, started_at=now, heard_at=now))


def told(run: UUID, now: datetime, *, done: int, total: int, rate: float | None) -> bool:
    """It is so far; False when it is to stop: somebody has cancelled it, or it is thought dead."""
    rows = WhatIfRun.objects.filter(pk=run, state=RUNNING, cancel_asked=False)
    return bool(rows.update(heard_at=now, done=done, total=total, rate=rate))


def ended(run: UUID, now: datetime, *, result: Mapping[str, Any] | None = None, error: str = "") -> bool:
    """It is over: with its result, or broken with the error, or cancelled with neither. False when it was already."""
    state = DONE if result is not None else FAILED if error else CANCELLED
    rows = WhatIfRun.objects.filter(pk=run, state=RUNNING)
    kept = None if result is None else dict(result)
    return bool(rows.update(state=state, ended_at=now, result=kept, error=error))


def cancel(run: UUID, now: datetime) -> None:
    """One that waits is cancelled, one that runs is told to stop."""
    if not WhatIfRun.objects.filter(pk=run, state=QUEUED).update(state=CANCELLED, ended_at=now):
        WhatIfRun.objects.filter(pk=run, state=RUNNING).update(cancel_asked=True)


def give_up(now: datetime, *, silent_s: float, error: str) -> int:
    """Those that run and were not heard of for so long are broken, or cancelled if that was asked; returns how many."""
    rows = WhatIfRun.objects.filter(state=RUNNING, heard_at__lt=now - timedelta(seconds=silent_s))
    cancelled = rows.filter(cancel_asked=True).update(state=CANCELLED, ended_at=now)
    return cancelled + rows.update(state=FAILED, ended_at=now, error=error)


def waiting(now: datetime, *, longer_s: float) -> list[UUID]:
    """Those that wait for longer than that to be taken up, the oldest first: their message was lost, or others run."""
    rows = WhatIfRun.objects.filter(state=QUEUED, created_at__lt=now - timedelta(seconds=longer_s))
    return list(rows.order_by("created_at").values_list("pk", flat=True))


def remove(now: datetime, *, days: int) -> int:
    """Those that ended more than so many days ago are gone, but for those that a version of the policy came of; returns
    how many."""
    old = WhatIfRun.objects.filter(Q(ended_at__lt=now - timedelta(days=days)), versions__isnull=True)
    return old.delete()[0]
