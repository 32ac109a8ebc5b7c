"""By which names is an artifact known, and how was it made under each? Equal bytes are one artifact of a project,
whoever made or uploaded them (D35)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from scheduling.models import Artifact, JobOutput, Upload

OUTPUTS, UPLOADS = "outputs_there", "uploads_there"
ASIDE = tuple(f"job__{name}" for name in ("spec", "raw", "errors", "avoid", "affinity"))


@dataclass(frozen=True, slots=True)
class Called:
    """One name of an artifact: that of the output of a ``job``, or that under which ``user`` uploaded it.

    ``output`` is its row where there is one; ``meta`` and ``made_with`` are what was told of just this making of it.
    """

    name: str
    job: UUID | None
    user_id: int | None
    user: str | None
    at: datetime
    meta: dict[str, Any]
    made_with: dict[str, Any]
    output: int | None = None

    @property
    def key(self) -> tuple[str, UUID | None, int | None]:
        """What tells it from the artifact's other names."""
        return self.name, self.job, self.user_id if self.job is None else None


def with_names(rows: QuerySet[Artifact]) -> QuerySet[Artifact]:
    """The same artifacts, their names read for all of them at once."""
    return rows.prefetch_related(
        Prefetch("outputs", _outputs(), to_attr=OUTPUTS), Prefetch("uploads", _uploads(), to_attr=UPLOADS)
    )


def named(lookup: str, value: str) -> Exists:
    """For a filter of artifacts: the ``lookup`` of ``value`` holds for one of their names, but for their first."""
    there = {"artifact": OuterRef("pk"), f"name__{lookup}": value, "given_up_at__isnull": True}
    outputs = JobOutput.objects.filter(**there)
    uploads = Upload.objects.filter(**there, attempt__isnull=True)
    return Exists(outputs) | Exists(uploads)  # type: ignore[return-value]


def first(a: Artifact) -> Called:
    """The name that the artifact itself has, with the output it is of."""
    output = _own(a)
    user = a.user.get_username() if a.user else None
    return Called(a.name, a.job_id, a.user_id, user, a.created_at, a.meta, a.made_with, output.pk if output else None)


def others(a: Artifact) -> list[Called]:
    """Its other names, the oldest first; one under which a person uploaded it twice is told once."""
    found = {each.key: each for each in [*_made(a), *_uploaded(a)]}
    mine = first(a)
    found.pop(mine.key, None)
    return sorted(found.values(), key=lambda each: (each.at, each.name))


def also(a: Artifact) -> list[dict[str, Any]]:
    """Its other names as REST tells them."""
    return [told(each) for each in others(a)]


def told(called: Called) -> dict[str, Any]:
    """One name as REST tells it."""
    return {"name": called.name, "job": None if called.job is None else str(called.job), "user": called.user}


def _outputs() -> QuerySet[JobOutput]:
    rows = JobOutput.objects.filter(given_up_at__isnull=True).select_related("job__user", "attempt")
    return rows.defer(*ASIDE).order_by("pk")


def _uploads() -> QuerySet[Upload]:
    rows = Upload.objects.filter(given_up_at__isnull=True, attempt__isnull=True).select_related("user")
    return rows.defer("files").order_by("-committed_at", "pk")


def outputs_of(a: Artifact) -> list[JobOutput]:
    """The outputs of jobs that it is, as far as their names were not given up."""
    there = getattr(a, OUTPUTS, None)
    return list(_outputs().filter(artifact=a)) if there is None else list(there)


def _own(a: Artifact) -> JobOutput | None:
    """Which output of its job the artifact is called by: the one of its name, else the first."""
    rows = [row for row in outputs_of(a) if a.job_id is not None and row.job_id == a.job_id]
    return next((row for row in rows if row.name == a.name), rows[0] if rows else None)


def _made(a: Artifact) -> Iterator[Called]:
    own = _own(a)
    for row in outputs_of(a):
        if own is None or row.pk != own.pk:
            by = row.job.user
            user = by.get_username() if by else None
            at = row.job.ended_at or row.job.submitted_at
            yield Called(row.name, row.job_id, row.job.user_id, user, at, row.meta, row.made_with, row.pk)


def _uploaded(a: Artifact) -> Iterator[Called]:
    there = getattr(a, UPLOADS, None)
    for row in _uploads().filter(artifact=a) if there is None else there:
        by = row.user.get_username() if row.user else None
        yield Called(row.name, None, row.user_id, by, row.committed_at or row.created_at, row.meta, {})
