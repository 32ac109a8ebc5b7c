"""What a job made is its output under a name, or that name is given up: the artifact stays under its others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction

from scheduling.models import Artifact, ArtifactParent, Attempt, AttemptNode, Job, JobOutput, Upload
from scheduling.store import journal
from scheduling.store.output_names import output_name
from scheduling.store.queries.called import Called, others

AT_ONCE = 500


def publish(job: Job, attempt: Attempt, made: Sequence[tuple[str, UUID]]) -> None:
    """The artifacts are the outputs of the job that has succeeded, each with what the attempt told of it; what the job
    worked on is among what they were made from."""
    told = {
        (row.artifact_id, row.name): row.meta
        for row in Upload.objects.filter(attempt=attempt, artifact__in=[each for _, each in made]).order_by(
            "created_at"
        )
    }
    first = AttemptNode.objects.filter(attempt=attempt).order_by("rank").values_list("node__agent_version", flat=True)
    made_with = {"attempt": attempt.number, "agent_version": first.first() or ""}
    for name, artifact in made:
        about = {"meta": told.get((artifact, name), {}), "made_with": made_with, "given_up_at": None}
        JobOutput.objects.update_or_create(
            job=job, name=output_name(job, name, alone=len(made) == 1),
            defaults={"artifact_id": artifact, "attempt_id": attempt.pk, **about},
        )  # fmt: skip
    artifacts = Artifact.objects.filter(pk__in=[each for _, each in made])
    artifacts.update(published=True)
    for row in artifacts.exclude(job=job):
        keep_parents(job, row)


def keep_parents(job: Job, artifact: Artifact) -> None:
    """What the job worked on is what the artifact was made from, but for what was made from the artifact itself: bytes
    that come out again later are no ancestor of themselves."""
    inputs = job.spec.get("inputs", [])
    parents = Artifact.objects.in_bulk([UUID(each["artifact"]) for each in inputs])
    later = _made_from(artifact.pk) if artifact.job_id != job.pk else {artifact.pk}
    ArtifactParent.objects.bulk_create(
        [
            ArtifactParent(child=artifact, parent=parents[key], role=each["as"])
            for each in inputs
            if (key := UUID(each["artifact"])) in parents and key not in later
        ],
        ignore_conflicts=True,
    )


def _made_from(artifact: UUID) -> set[UUID]:
    """The artifact and everything that was made from it."""
    found, frontier = {artifact}, [artifact]
    while frontier:
        near: set[UUID] = set()
        for start in range(0, len(frontier), AT_ONCE):
            rows = ArtifactParent.objects.filter(parent__in=frontier[start : start + AT_ONCE])
            near |= set(rows.values_list("child_id", flat=True))
        frontier = sorted(near - found)
        found |= near
    return found


@transaction.atomic
def give_up(artifact_id: UUID, names: Collection[Called], *, now: datetime, actor: str) -> bool:
    """The artifact is not known by these names any more; if the first is among them, the oldest of the others is now.

    False, and nothing is changed, where no other would be left.
    """
    artifact = Artifact.objects.select_for_update(of=("self",)).select_related("project", "user").get(pk=artifact_id)
    gone = {each.key for each in names}
    own = (artifact.name, artifact.job_id, artifact.user_id if artifact.job_id is None else None) in gone
    left = [each for each in others(artifact) if each.key not in gone]
    if own and not left:
        return False
    for each in names:
        if each.output is not None:
            JobOutput.objects.filter(pk=each.output).update(given_up_at=now)
        elif each.job is None:
            rows = Upload.objects.filter(artifact=artifact, attempt__isnull=True, user=each.user_id, name=each.name)
            rows.update(given_up_at=now)
    if own:
        next_ = left[0]
        Artifact.objects.filter(pk=artifact_id).update(
            name=next_.name, job=next_.job, user=next_.user_id, meta=next_.meta, made_with=next_.made_with
        )
    words = f"{artifact.kind} {artifact.name!r} is not called {names_in_words(names)} any more"
    journal.write(
        [
            journal.Note("artifact_name_given_up", "artifact", str(artifact_id), actor=actor,
                         project=artifact.project.name, message=words, data={"digest": artifact.digest})
        ],
        now,
    )  # fmt: skip
    return True


def names_in_words(names: Collection[Called]) -> str:
    """Each name once, in quotes."""
    return " and ".join(repr(name) for name in dict.fromkeys(each.name for each in names))
