"""Which jobs may a new one be told to wait for, and which of them is called so?"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet

from scheduling.core.lifecycle import JobState
from scheduling.models import Job
from scheduling.models.jobs import ENDED
from scheduling.store.queries.access import Actor
from scheduling.store.queries.jobs import visible

LISTED = 200
_ROW = ("id", "name", "kind", "state", "project__name")


def yet_to_end(actor: Actor, limit: int = LISTED) -> list[Job]:
    """The jobs that this person may know of and that have yet to end, the newest first."""
    return list(_newest_first(actor).exclude(state__in=ENDED)[:limit])


def by_name(actor: Actor, name: str, most: int) -> list[Job]:
    """At most so many jobs of exactly this name: those that have yet to end; where there is none, those that
    succeeded. The newest first."""
    called = _newest_first(actor).filter(name=name)
    return list(called.exclude(state__in=ENDED)[:most]) or list(called.filter(state=JobState.SUCCEEDED)[:most])


def by_id(actor: Actor, ids: Iterable[str]) -> dict[str, Job]:
    """Those of these jobs that the actor may know of."""
    return {str(row.pk): row for row in _newest_first(actor).filter(pk__in=[UUID(each) for each in ids])}


def _newest_first(actor: Actor) -> QuerySet[Job]:
    rows = visible(actor).select_related(None).select_related("project").only(*_ROW)
    return rows.order_by("-submitted_at", "-id")
