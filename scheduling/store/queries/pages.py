"""Lists a page at a time: keyset pages of jobs and artifacts, and what a filter may be set to. Never counts history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from scheduling.models import Attempt, Project, Queue
from scheduling.models.access import SCOPES
from scheduling.models.jobs import LIVE
from scheduling.store.queries import artifacts, jobs
from scheduling.store.queries.access import Actor
from scheduling.store.queries.called import also, with_names
from scheduling.store.queries.silence import silences

PAGE = 50
EXPORT = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the shape of the REST contract, and the cursor of the next page ("" at the end)."""

    rows: tuple[dict[str, Any], ...]
    following: str


def job_page(actor: Actor, wanted: Mapping[str, str], *, after: str, now: datetime, size: int = PAGE) -> Page:
    """The jobs that match, newest first, from the cursor on; a cursor that can't be read is the first page."""
    found = list(_after(jobs.full(jobs.filtered(actor, wanted)), "submitted_at", after)[: size + 1])
    holds, silent = jobs.holds_now(), silences(now)
    rows = tuple(jobs.as_dict(job, holds=holds, silent=silent, now=now) for job in found[:size])
    return Page(rows, _cursor(found[size - 1], "submitted_at") if len(found) > size else "")


def job_export(actor: Actor, wanted: Mapping[str, str], *, now: datetime) -> Iterator[dict[str, Any]]:
    """The jobs that match, newest first, at most ``EXPORT``, read a page at a time."""
    after, told = "", 0
    while told < EXPORT:
        page = job_page(actor, wanted, after=after, now=now, size=500)
        yield from page.rows
        told, after = told + len(page.rows), page.following
        if not after:
            return


def artifact_page(
    actor: Actor, *, kind: str, project: str, q: str, after: str, deleted: bool = False, corrupt: bool | None = None,
    size: int = PAGE,
) -> Page:  # fmt: skip
    """The artifacts that match, newest first, from the cursor on: those that are there, or those that were deleted."""
    rows = artifacts.filtered(actor, kind=kind, project=project, q=q, deleted=deleted, corrupt=corrupt)
    found = list(with_names(_after(rows, "created_at", after))[: size + 1])
    shown = tuple(artifacts.as_dict(a) for a in found[:size])
    return Page(shown, _cursor(found[size - 1], "created_at") if len(found) > size else "")


def artifacts_to_work_on(actor: Actor, limit: int = 200) -> list[dict[str, Any]]:
    """What this person may give a program to work on, newest first; checkpoints are for the jobs that made them."""
    rows = with_names(artifacts.filtered(actor).exclude(kind="checkpoint"))[:limit]
    return [artifacts.as_dict(a) for a in rows]


def models_to_merge(actor: Actor, limit: int = 500) -> list[dict[str, Any]]:
    """The models this person may merge or evaluate, newest first."""
    return _to_choose(actor, "model", limit)


def datasets(actor: Actor, limit: int = 500) -> list[dict[str, Any]]:
    """The data sets this person may evaluate a model with, newest first."""
    return _to_choose(actor, "dataset", limit)


def _to_choose(actor: Actor, kind: str, limit: int) -> list[dict[str, Any]]:
    rows = with_names(artifacts.filtered(actor, kind=kind).filter(corrupt=False))[:limit]
    return [{"id": str(a.pk), "name": a.name, "also": also(a), "project": a.project.name, "size": a.size,
             "digest": a.digest, "created_at": a.created_at} for a in rows]  # fmt: skip


def standing(actor: Actor) -> dict[str, int]:
    """How many of the visible jobs wait and run: both are few, so counting them is cheap."""
    seen = jobs.visible(actor)
    return {
        "waiting": seen.filter(state__in=jobs.WAITING).count(),
        "running": seen.filter(state__in=LIVE).count(),
    }


def queue_names() -> list[str]:
    """The queues, in the order of the board."""
    return list(Queue.objects.values_list("name", flat=True))


def project_names(actor: Actor) -> list[str]:
    """The projects this person sees."""
    rows = Project.objects.all() if actor.is_admin else Project.objects.filter(name__in=actor.projects)
    return list(rows.values_list("name", flat=True))


def attempts_on(node: str, actor: Actor, limit: int = 20) -> list[dict[str, Any]]:
    """The newest attempts on a node, newest first, of the jobs this person may know of."""
    rows = (
        Attempt.objects.filter(nodes__node__name=node, job__in=jobs.visible(actor))
        .select_related("job")
        .order_by("-granted_at")[:limit]
    )
    return [
        {"job": str(a.job_id), "name": a.job.name, "number": a.number, "granted_at": a.granted_at,
         "ended_at": a.ended_at, "outcome": a.outcome, "state": a.job.state}
        for a in rows
    ]  # fmt: skip


def scopes_for(actor: Actor) -> list[str]:
    """The scopes that a token of this person may carry."""
    barred = {
        "jobs:submit:critical": not actor.may_critical,
        "pool:operate": not actor.may_operate,
        "admin": not actor.is_admin,
    }
    return [scope for scope in SCOPES if not barred.get(scope, False)]


def _after(rows: QuerySet[Any], moment: str, after: str) -> QuerySet[Any]:
    parts = after.rsplit("~", 1)
    try:
        at, key = datetime.fromisoformat(parts[0]), UUID(parts[-1])
    except ValueError:
        return rows
    if at.tzinfo is None:
        return rows
    return rows.filter(Q(**{f"{moment}__lt": at}) | Q(**{moment: at, "pk__lt": key}))


def _cursor(row: Any, moment: str) -> str:
    return f"{getattr(row, moment).isoformat()}~{row.pk}"
