"""An artifact is deleted, or is there again. Its row and its lineage stay; its bytes go when the store is collected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduling.models import Artifact, Job
from scheduling.models.jobs import ENDED
from scheduling.store import journal
from scheduling.store.queries.called import Called, others

AT_ONCE = 500


@transaction.atomic
def delete(
    artifact_id: UUID, *, why: str, now: datetime, actor: str, told: Collection[Called] = ()
) -> list[UUID] | None:  # fmt: skip
    """The artifact counts as deleted from now on; nothing changes when it does already.

    Returns the ids of the jobs that wait or run with it or begin with it: then it is not deleted. Neither is it, and
    None is returned, where it has other names than those that were ``told`` to whoever asks.
    """
    artifact = Artifact.objects.select_for_update(of=("self",)).select_related("project").get(pk=artifact_id)
    if artifact.deleted_at is not None:
        return []
    if {each.key for each in others(artifact)} - {each.key for each in told}:
        return None
    needed = list(_that_need(artifact_id).values_list("pk", flat=True))
    if not needed:
        _mark([artifact], {artifact.pk: why}, now, actor=actor)
    return needed


@transaction.atomic
def delete_many(wanted: Mapping[UUID, str], *, now: datetime, actor: str) -> tuple[int, int]:
    """Those of the artifacts that no job needs count as deleted, each for its reason; (how many, their bytes)."""
    found = _unneeded(Artifact.objects.select_for_update(of=("self",)).select_related("project"), wanted)
    _mark(found, wanted, now, actor=actor)
    return len(found), sum(each.size for each in found)


def would_delete(wanted: Collection[UUID]) -> tuple[int, int]:
    """What :func:`delete_many` would return now."""
    found = _unneeded(Artifact.objects.only("size"), wanted)
    return len(found), sum(each.size for each in found)


def _unneeded(artifacts: QuerySet[Artifact], wanted: Collection[UUID]) -> list[Artifact]:
    """Those of the artifacts that are wanted, there, and needed by no job."""
    free = sorted(set(wanted) - needed_by_jobs())
    return [
        each
        for first in range(0, len(free), AT_ONCE)
        for each in artifacts.filter(pk__in=free[first : first + AT_ONCE], deleted_at__isnull=True).order_by("pk")
    ]


@transaction.atomic
def restore(artifact_id: UUID, *, now: datetime, actor: str) -> None:
    """The artifact is there as it was; whoever asks has made sure of its bytes."""
    artifact = Artifact.objects.select_for_update(of=("self",)).select_related("project").get(pk=artifact_id)
    if artifact.deleted_at is None:
        return
    Artifact.objects.filter(pk=artifact_id).update(deleted_at=None, deleted_by="", deleted_why="")
    journal.write(
        [_note("artifact_restored", artifact, f"{artifact.kind} {artifact.name!r} is there again", actor)], now
    )


def needed_by_jobs() -> set[UUID]:
    """The artifacts that a job which has not ended works on or begins with."""
    found: set[UUID] = set()
    going = Job.objects.exclude(state__in=ENDED)
    for inputs, resume in going.values_list("spec__inputs", "resume_id").iterator(chunk_size=2000):
        found.update(UUID(each["artifact"]) for each in inputs or ())
        found |= {resume} - {None}
    resumed = going.filter(attempts__ended_at__isnull=True, attempts__resume__isnull=False)
    return found | set(resumed.values_list("attempts__resume_id", flat=True))


def _that_need(artifact_id: UUID) -> QuerySet[Job]:
    begins = Q(resume_id=artifact_id) | Q(attempts__ended_at__isnull=True, attempts__resume_id=artifact_id)
    works_on = Q(spec__inputs__icontains=str(artifact_id))
    return Job.objects.exclude(state__in=ENDED).filter(begins | works_on).distinct().order_by("submitted_at", "pk")


def _mark(artifacts: Iterable[Artifact], why: Mapping[UUID, str], now: datetime, *, actor: str) -> None:
    notes = []
    for each in artifacts:
        words = why[each.pk]
        Artifact.objects.filter(pk=each.pk).update(deleted_at=now, deleted_by=actor[:160], deleted_why=words[:200])
        notes.append(_note("artifact_deleted", each, f"{each.kind} {each.name!r} of {each.size} bytes: {words}", actor))
    journal.write(notes, now)


def _note(kind: str, artifact: Artifact, message: str, actor: str) -> journal.Note:
    return journal.Note(kind, "artifact", str(artifact.pk), actor=actor, project=artifact.project.name, message=message,
                        data={"digest": artifact.digest, "size": artifact.size})  # fmt: skip
