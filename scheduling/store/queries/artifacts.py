"""Artifacts as REST and pages see them, and what an attempt may read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from scheduling.models import Artifact, AttemptNode, JobOutput, Project, Upload
from scheduling.store.queries import called
from scheduling.store.queries.access import Actor


def visible(actor: Actor) -> QuerySet[Artifact]:
    """The published artifacts of the actor's projects, newest first."""
    rows = Artifact.objects.select_related("project", "user", "job").filter(published=True)
    if not actor.is_admin:
        rows = rows.filter(project__name__in=actor.projects)
    return rows.order_by("-created_at", "-id")


def filtered(
    actor: Actor, *, kind: str = "", project: str = "", q: str = "", deleted: bool = False, corrupt: bool | None = None
) -> QuerySet[Artifact]:
    """Visible artifacts by kind, project and part of one of their names: those that are there, or those that were
    deleted; with ``corrupt`` only those whose bytes are, or are not, known to be damaged."""
    rows = visible(actor).filter(deleted_at__isnull=not deleted)
    if corrupt is not None:
        rows = rows.filter(corrupt=corrupt)
    if kind:
        rows = rows.filter(kind=kind)
    if project:
        rows = rows.filter(project__name=project)
    if q:
        rows = rows.filter(Q(name__icontains=q) | Q(digest__icontains=q) | called.named("icontains", q))
    return rows


def one(actor: Actor, artifact_id: str) -> Artifact | None:
    """The artifact, if it exists and the actor may know of it."""
    try:
        key = UUID(str(artifact_id))
    except ValueError:
        return None
    return called.with_names(visible(actor)).filter(pk=key).first()


def as_dict(a: Artifact) -> dict[str, Any]:
    """The artifact in the shape of the REST contract."""
    return {
        "id": str(a.pk),
        "name": a.name,
        "also": called.also(a),
        "kind": a.kind,
        "project": a.project.name,
        "size": a.size,
        "sha256": a.digest.removeprefix("sha256:"),
        "digest": a.digest,
        "files": file_rows(a),
        "meta": a.meta,
        "created_at": a.created_at,
        "user": a.user.get_username() if a.user else None,
        "job": str(a.job_id) if a.job_id else None,
        "verified_at": a.verified_at,
        "corrupt": a.corrupt,
        "deleted": deletion_of(a),
    }


def file_rows(a: Artifact) -> list[dict[str, Any]]:
    """The artifact's files; ``unsafe`` is the format in which one can run code when it is loaded, else None."""
    return [{**{k: f[k] for k in ("path", "size", "sha256")}, "unsafe": a.unsafe.get(f["path"])} for f in a.files]


def is_there(project: str, digest: str) -> bool:
    """Whether the project has an artifact of that digest, published and not deleted."""
    rows = Artifact.objects.filter(project__name=project, digest=digest, published=True, deleted_at__isnull=True)
    return rows.exists()


def is_project(name: str) -> bool:
    """Whether there is a project of that name."""
    return Project.objects.filter(name=name).exists()


def stored_by(project: str) -> tuple[int, int | None]:
    """(bytes of the project's artifacts that are not deleted and of what its users are uploading, its quota in GB or
    None for none). Bytes that two of its artifacts share count twice, as either may be deleted."""
    there = Artifact.objects.filter(project__name=project, deleted_at__isnull=True).aggregate(sum=Sum("size"))["sum"]
    coming = Upload.objects.filter(project__name=project, user__isnull=False, artifact__isnull=True)
    sizes = (f["size"] for files in coming.values_list("files", flat=True) for f in files)
    quota = Project.objects.filter(name=project).values_list("artifact_quota_gb", flat=True).first()
    return (there or 0) + sum(sizes), quota


def deletion_of(a: Artifact) -> dict[str, Any] | None:
    """When the artifact was deleted, by whom and why; None while it is there."""
    return None if a.deleted_at is None else {"at": a.deleted_at, "by": a.deleted_by, "why": a.deleted_why}


def resolve(actor: Actor, project: str, reference: str) -> Artifact | None:
    """The artifact that ``reference`` means inside the actor's projects: an id, a digest, else the newest of that
    name, the job's own project first, which is then called as it was asked for. None is also the answer for one the
    actor may not know of."""
    return _meant(filtered(actor), project, reference)


def deleted(actor: Actor, project: str, reference: str) -> Artifact | None:
    """The artifact that ``reference`` would mean, had it not been deleted."""
    return _meant(filtered(actor, deleted=True), project, reference)


def _meant(rows: QuerySet[Artifact], project: str, reference: str) -> Artifact | None:
    try:
        return rows.filter(pk=UUID(reference)).first()
    except ValueError:
        pass
    if reference.startswith("sha256:"):
        rows = rows.filter(digest=reference)
    else:
        rows = rows.filter(Q(name=reference) | called.named("exact", reference))
    found = rows.filter(project__name=project).first() or rows.first()
    if found is not None and not reference.startswith("sha256:"):
        found.name = reference
    return found


def names(actor: Actor, project: str, kind: str = "model") -> list[str]:
    """Names of visible artifacts of a kind, to suggest the nearest one."""
    rows = filtered(actor, kind=kind, project=project)
    others = JobOutput.objects.filter(artifact__in=rows.order_by().values("pk"), given_up_at__isnull=True)
    return [*rows.values_list("name", flat=True)[:200], *others.order_by("-pk").values_list("name", flat=True)[:200]]


def upload(upload_id: str) -> Upload | None:
    """The upload with its project, or None."""
    try:
        key = UUID(str(upload_id))
    except ValueError:
        return None
    return Upload.objects.select_related("project", "attempt", "user", "artifact").filter(pk=key).first()


def readable_by(attempt_id: UUID, epoch: int, node: str, artifact_id: str) -> Artifact | None:
    """The artifact if a live attempt on that node has it as an input or resumes from it."""
    live = AttemptNode.objects.filter(attempt__epoch=epoch, attempt__ended_at__isnull=True, ended_at__isnull=True)
    part = live.select_related("attempt__job").filter(attempt_id=attempt_id, node__name=node).first()
    if part is None:
        return None
    attempt = part.attempt
    allowed = {i["artifact"] for i in attempt.job.spec.get("inputs", [])} | {str(attempt.resume_id)}
    return Artifact.objects.filter(pk=artifact_id).first() if artifact_id in allowed else None
