"""What evaluations and searches found, as their jobs stored it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from scheduling.models import Artifact, JobOutput
from scheduling.store.queries.access import Actor
from scheduling.store.queries.artifacts import visible

COLUMNS = (
    "artifact_id", "artifact__meta", "meta", "job_id", "job__kind", "job__spec", "job__params", "job__submitted_at",
    "job__ended_at",
)  # fmt: skip


def newest(actor: Actor, project: str, limit: int) -> list[dict[str, Any]]:
    """What the newest evaluations and searches of the actor's projects gave, as far as it is not deleted:
    :data:`COLUMNS` of each.

    Only what jobs of these kinds made: whatever is uploaded may say anything. Two of them may share one artifact, whose
    record is that of the first; what was evaluated is the job's to say.
    """
    rows = JobOutput.objects.filter(
        job__kind__in=("evaluate", "evolve"),
        artifact__kind="eval",
        artifact__published=True,
        artifact__deleted_at__isnull=True,
        given_up_at__isnull=True,
    )
    if not actor.is_admin:
        rows = rows.filter(job__project__name__in=actor.projects)
    if project:
        rows = rows.filter(job__project__name=project)
    return [dict(row) for row in rows.order_by("-job__submitted_at", "-job_id").values(*COLUMNS)[:limit]]


def found_by_searches(jobs: Iterable[UUID]) -> dict[UUID, tuple[str, str]]:
    """The best model of each search that has stored one: its digest, and the name that the search gave it."""
    rows = JobOutput.objects.filter(job__in=set(jobs), job__kind="evolve", artifact__kind="model")
    return {job: (digest, name) for job, digest, name in rows.values_list("job_id", "artifact__digest", "name")}


def by_digest(actor: Actor, digests: Iterable[str]) -> dict[str, Artifact]:
    """The artifact of each digest that the actor may know of, of several the newest that is not deleted."""
    rows = visible(actor).filter(digest__in=set(digests)).order_by("deleted_at", "created_at")
    found: dict[str, Artifact] = {}
    for row in rows:
        if row.deleted_at is None or row.digest not in found:
            found[row.digest] = row
    return found


def told_by_name(models: Iterable[tuple[Artifact, str]]) -> dict[UUID, dict[str, Any]]:
    """What each model was made by under that name of it: equal bytes may have come out in several ways."""
    wanted = dict(models)
    rows = JobOutput.objects.filter(artifact__in=wanted, name__in=set(wanted.values())).order_by("-pk")
    under = {(row.artifact_id, row.name): row.meta for row in rows}
    return {
        each.pk: each.meta if name == each.name else under.get((each.pk, name), each.meta)
        for each, name in wanted.items()
    }
