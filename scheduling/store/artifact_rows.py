"""Rows of uploads and artifacts: opened, committed with their lineage, verified, given up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from scheduling.models import Artifact, AttemptNode, Node, Project, ProjectBlob, Upload
from scheduling.store import journal
from scheduling.store.commit import deleting
from scheduling.store.commit.naming import keep_parents
from scheduling.store.commit.parts import live_part
from scheduling.store.output_names import artifact_name


def open_upload(
    *,
    name: str,
    kind: str,
    meta: dict[str, Any],
    files: Sequence[Any],
    now: datetime,
    project: str = "",
    user_id: int | None = None,
    attempt: AttemptNode | None = None,
) -> UUID:
    """An open upload of a user in a project, or of a live attempt in its job's project."""  # fmt: skip
    if attempt is not None:
        job = attempt.attempt.job
        upload = Upload(project=job.project, attempt=attempt.attempt, epoch=attempt.attempt.epoch)
    else:
        upload = Upload(project=Project.objects.get(name=project), user_id=user_id)
    upload.name, upload.kind, upload.meta, upload.files, upload.created_at = name, kind, meta, list(files), now
    Upload.objects.bulk_create([upload])
    return upload.pk


def begun(part: AttemptNode, *, name: str, kind: str, meta: dict[str, Any], files: Sequence[Any]) -> UUID | None:
    """The upload of just this that the attempt has begun at its epoch and not committed; None for none.

    Of several nodes each has its own: only checkpoints are known to come from one of them.
    """
    if kind != "checkpoint" and part.attempt.nodes.count() > 1:
        return None
    rows = Upload.objects.filter(attempt=part.attempt_id, epoch=part.attempt.epoch, artifact__isnull=True)
    same = rows.filter(name=name, kind=kind).order_by("-created_at")
    return next((each.pk for each in same if each.meta == meta and each.files == list(files)), None)


def begun_by_user(
    user_id: int, project: str, *, name: str, kind: str, meta: dict[str, Any], files: Sequence[Any]
) -> UUID | None:
    """The upload of just this that the user has begun in the project and not committed; None for none."""
    rows = Upload.objects.filter(user_id=user_id, project__name=project, artifact__isnull=True, attempt__isnull=True)
    same = rows.filter(name=name, kind=kind).order_by("-created_at")
    return next((each.pk for each in same if each.meta == meta and each.files == list(files)), None)


def is_open(upload_id: UUID) -> bool:
    """Whether the upload is there and not committed."""
    return Upload.objects.filter(pk=upload_id, artifact__isnull=True).exists()


def still_coming(upload_id: UUID, now: datetime) -> None:
    """The upload does not count as given up for as long as one that was begun now."""
    Upload.objects.filter(pk=upload_id, artifact__isnull=True).update(created_at=now)


def give_up(upload_id: UUID) -> bool:
    """The upload is not there any more; False, and it stays, where it is committed."""
    Upload.objects.filter(pk=upload_id, artifact__isnull=True).delete()
    return not Upload.objects.filter(pk=upload_id).exists()


@transaction.atomic
def commit_upload(
    upload_id: UUID,
    *,
    digest: str,
    files: Sequence[Any],
    tensors: dict[str, Any] | None,
    unsafe: dict[str, str],
    published: bool,
    now: datetime,
    epoch: int | None,
    node: str,
    actor: str,
) -> tuple[UUID, str] | None:
    """The artifact row of this upload, new or the one that has these bytes in this project; its lineage and event.
    ``node`` is the one that has sent an attempt's.

    None when it was abandoned meanwhile, or when ``epoch`` is given and its attempt is no longer live: the store
    refuses a stale epoch at commit. The attempt stays live until the artifact is there.
    """
    sent_by = Upload.objects.filter(pk=upload_id).values_list("attempt", flat=True).first()
    live = live_part(sent_by, epoch, node, lock=True) if sent_by is not None and epoch is not None else None
    open_ones = Upload.objects.select_for_update(of=("self",)).select_related("project", "attempt__job")
    upload = open_ones.filter(pk=upload_id).first()
    if upload is None:
        return None
    if upload.artifact_id is not None:
        return upload.artifact_id, digest
    if epoch is not None and live is None:
        return None
    job = upload.attempt.job if upload.attempt else None
    artifact, fresh = Artifact.objects.get_or_create(
        project=upload.project, digest=digest,
        defaults={
            "name": artifact_name(job, upload.name, upload.kind),
            "kind": upload.kind, "size": sum(f["size"] for f in files), "files": list(files), "meta": upload.meta,
            "tensors": tensors, "unsafe": unsafe, "job": job, "created_at": now, "published": published,
            "user_id": upload.user_id or (job.user_id if job else None), "made_with": _made_with(upload, node),
        },
    )  # fmt: skip
    if published and not artifact.published:
        Artifact.objects.filter(pk=artifact.pk).update(published=True)
    if artifact.deleted_at is not None:
        deleting.restore(artifact.pk, now=now, actor=actor)
    if job is not None and fresh:
        keep_parents(job, artifact)
    ProjectBlob.objects.bulk_create(
        [ProjectBlob(project=upload.project, sha256=sha) for sha in {f["sha256"] for f in files}], ignore_conflicts=True
    )
    Upload.objects.filter(pk=upload_id).update(artifact=artifact, committed_at=now)
    journal.write(
        [
            journal.Note("artifact_committed", "artifact", str(artifact.pk), actor=actor, project=upload.project.name,
                         attempt=upload.attempt_id, epoch=upload.epoch,
                         message=f"{upload.kind} {artifact.name!r} of {artifact.size} bytes",
                         data={"digest": digest, "fresh": fresh, "kind": upload.kind})
        ],
        now,
    )  # fmt: skip
    return artifact.pk, digest


def _made_with(upload: Upload, node: str) -> dict[str, Any]:
    if upload.attempt is None:
        return {}
    version = Node.objects.filter(name=node).values_list("agent_version", flat=True).first()
    return {"attempt": upload.attempt.number, "agent_version": version or ""}


def project_has(project_id: int, digests: Sequence[str]) -> set[str]:
    """Those of the sha256 digests whose bytes the project has already."""
    rows = ProjectBlob.objects.filter(project_id=project_id, sha256__in=[d for d in digests if d])
    return set(rows.values_list("sha256", flat=True))


def committed_by(attempt: UUID) -> dict[str, list[str]]:
    """``{artifact id: names}`` of what the attempt committed, the names in the order in which they were announced."""
    found: dict[str, list[str]] = {}
    rows = Upload.objects.filter(attempt_id=attempt, artifact__isnull=False).order_by(
        "created_at", "committed_at", "pk"
    )
    for artifact, name in rows.values_list("artifact_id", "name"):
        names = found.setdefault(str(artifact), [])
        if name not in names:
            names.append(name)
    return found


def saved_at(job: UUID, artifact: UUID) -> datetime | None:
    """When an attempt of the job committed the artifact last; None when none did.

    Not when the artifact was made: bytes that somebody had stored before are that artifact too.
    """
    own = Upload.objects.filter(attempt__job=job, artifact=artifact)
    return own.aggregate(last=Max("committed_at"))["last"]


def abandon_uploads(now: datetime, *, older_than_s: float) -> list[UUID]:
    """Uploads opened long ago and never committed are deleted; returns their ids."""
    stale = Upload.objects.filter(artifact__isnull=True, created_at__lt=now - timedelta(seconds=older_than_s))
    ids = list(stale.values_list("pk", flat=True))
    Upload.objects.filter(pk__in=ids, artifact__isnull=True).delete()
    return ids
