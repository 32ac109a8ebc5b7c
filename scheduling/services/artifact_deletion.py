"""An artifact's owner gives it up, or takes that back while its bytes are kept."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings

from scheduling.core.words import agree, jobs_in_words, names_in_words
from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services.artifacts import Refusal
from scheduling.store.commit import deleting
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor


def may_delete(actor: Actor, artifact: Any) -> bool:
    """Whether the actor made or uploaded the artifact, or is an admin."""
    return actor.is_admin or artifact.user_id == actor.user_id


def is_restorable(artifact: Any) -> bool:
    """Whether all its bytes are still there."""
    return all(bytes_on_disk.blob_size(each["sha256"]) == each["size"] for each in artifact.files)


def kept_hours() -> int:
    """For how many hours at least the bytes of what was deleted are kept."""
    return int(settings.COLLECTION_GRACE_HOURS)


def delete(artifact_id: str, actor: Actor, now: datetime) -> dict[str, Any] | Refusal | None:
    """The artifact counts as deleted: it is listed and merged no more, its record and lineage stay, and its bytes are
    removed after the grace unless something else has them too. None when the actor may not know of it.

    Refused with 403 for who did not make it, with 409 while jobs need it. Deleted twice is deleted.
    """
    row = queries.one(actor, artifact_id)
    if row is None:
        return None
    if not may_delete(actor, row):
        maker = row.user.get_username() if row.user else "nobody"
        return Refusal(403, "not_yours", f"{row.name!r} was made by {maker}: only {maker} or an admin may delete it")
    needed = deleting.delete(row.pk, why=f"{actor.username} asked for it", now=now, actor=actor.label)
    if needed:
        return _in_use(row, [str(job) for job in needed], actor)
    return queries.as_dict(queries.visible(actor).get(pk=row.pk))


def restore(artifact_id: str, actor: Actor, now: datetime) -> dict[str, Any] | Refusal | None:
    """The artifact is there as it was before it was deleted. None when the actor may not know of it.

    Refused with 403 for who did not make it, with 410 when its bytes are gone. One that is not deleted stays as it is.
    """
    row = queries.one(actor, artifact_id)
    if row is None:
        return None
    if not may_delete(actor, row):
        return Refusal(403, "not_yours", f"only who made {row.name!r} or an admin may restore it")
    with bytes_on_disk.nothing_collected():
        if row.deleted_at is not None and not is_restorable(row):
            again = "make it again by the job that made it" if row.job_id else "upload it again"
            return Refusal(410, "bytes_gone", f"the bytes of {row.name!r} were removed: {again}")
        deleting.restore(row.pk, now=now, actor=actor.label)
    return queries.as_dict(queries.visible(actor).get(pk=row.pk))


def _in_use(row: Any, jobs: list[str], actor: Actor) -> Refusal:
    names = known.names(actor, jobs)
    told = names_in_words([names[job] for job in jobs if job in names])
    which = f" ({told})" if told else ""
    count = len(jobs)
    has, needs, them = (agree(count, *words) for words in (("has", "have"), ("needs", "need"), ("it", "them")))
    words = (
        f"{jobs_in_words(count)} that {has} not ended {needs} {row.name!r}{which}: wait for {them}, or cancel {them}"
    )
    return Refusal(409, "in_use", words, facts={"jobs": [job for job in jobs if job in names]})
