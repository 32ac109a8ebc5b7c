"""An artifact's owner gives it up, all of it or one of its names, or takes that back while its bytes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from scheduling.core.words import agree, jobs_in_words
from scheduling.core.words import names_in_words as of_a_few
from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services.artifacts import Refusal
from scheduling.store.commit import deleting, naming
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import called, known
from scheduling.store.queries.access import Actor
from scheduling.store.queries.called import Called


def may_delete(actor: Actor, artifact: Any) -> bool:
    """Whether the actor made or uploaded the artifact, or is an admin."""
    return actor.is_admin or artifact.user_id == actor.user_id


def is_restorable(artifact: Any) -> bool:
    """Whether all its bytes are still there."""
    here = bytes_on_disk.blob_sizes({each["sha256"] for each in artifact.files})
    return all(here.get(each["sha256"]) == each["size"] for each in artifact.files)


def kept_hours() -> int:
    """For how many hours at least the bytes of what was deleted are kept."""
    return int(settings.COLLECTION_GRACE_HOURS)


def delete(
    artifact_id: str, actor: Actor, now: datetime, *, everywhere: bool = False, name: str = ""
) -> dict[str, Any] | Refusal | None:  # fmt: skip
    """The artifact counts as deleted: it is listed and merged no more, its record and lineage stay, and its bytes are
    removed after the grace unless something else has them too. None when the actor may not know of it.

    One that has other names is deleted only where that is asked for (``everywhere``) and all of them are the actor's;
    with ``name`` only this name goes, and the artifact with its last one. Refused with 403 for who did not make it,
    with 409 while jobs need it or others have it. Deleted twice is deleted.
    """
    row = queries.one(actor, artifact_id)
    if row is None:
        return None
    others = called.others(row) if row.deleted_at is None else []
    if name and (others or name != row.name):
        return _give_up(row, name, actor, now)
    if (refused := _not_to_delete(row, others, actor, everywhere=everywhere)) is not None:
        return refused
    needed = deleting.delete(row.pk, why=f"{actor.username} asked for it", now=now, actor=actor.label, told=others)
    if needed is None:  # another job has come to the same since
        return delete(artifact_id, actor, now, everywhere=everywhere, name=name)
    if needed:
        return _in_use(row, [str(job) for job in needed], actor)
    return queries.as_dict(queries.visible(actor).get(pk=row.pk))


def is_own(actor: Actor, name: Called) -> bool:
    """Whether the actor made or uploaded the artifact under that name, or is an admin."""
    return actor.is_admin or name.user_id == actor.user_id


def _not_to_delete(row: Any, others: list[Called], actor: Actor, *, everywhere: bool) -> Refusal | None:
    """Why the artifact is not deleted for this actor, with all its names; None where nothing speaks against it."""
    own = [each for each in others if is_own(actor, each)]
    only = f"; name={own[0].name} removes only that name of it, which is yours" if own else ""
    if not may_delete(actor, row):
        maker = row.user.get_username() if row.user else "nobody"
        words = f"{row.name!r} was made by {maker}: only {maker} or an admin may delete it"
        return Refusal(403, "not_yours", f"{words}{only}")
    theirs = [each for each in others if not is_own(actor, each)]
    outputs = {"outputs": [called.told(each) for each in others]}
    mine = f"name={row.name} removes only your name of it"
    if theirs and everywhere:
        words = f"{row.name!r} is also {names_in_words(theirs)}, which only they or an admin may delete: {mine}"
        return Refusal(403, "not_yours", words, facts=outputs)
    if others and not everywhere:
        words = f"{row.name!r} has the same bytes as {names_in_words(others)}, and is stored once"
        rest = "ask an admin to delete it for all" if theirs else "all=true deletes it under all of them"
        return Refusal(409, "also_output_of", f"{words}: {rest}, {mine}", facts=outputs)
    return None


def names_in_words(names: Sequence[Called]) -> str:
    """Each name with whose it is: ``'m-slerp' of alice``."""
    said = dict.fromkeys(f"{each.name!r} of {each.user or 'nobody'}" for each in names)
    return of_a_few(list(said))


def _give_up(row: Any, name: str, actor: Actor, now: datetime) -> dict[str, Any] | Refusal:
    """The artifact is not known by the name any more, as far as that is the actor's, and stays under its others."""
    names = [called.first(row), *called.others(row)]
    meant = [each for each in names if each.name == name]
    if row.deleted_at is not None:
        words = f"{row.name!r} was deleted ({row.deleted_why}), with all its names: restore it first"
        return Refusal(410, "deleted_artifact", words)
    if not meant:
        known = of_a_few(list(dict.fromkeys(repr(each.name) for each in names)))
        return Refusal(404, "no_such_name", f"the artifact is not called {name[:100]!r}: it is called {known}", "name")
    mine = [each for each in meant if is_own(actor, each)]
    if not mine:
        whose = meant[0].user or "nobody"
        return Refusal(
            403, "not_yours", f"{name!r} is {whose}'s: only {whose} or an admin may remove that name", "name"
        )
    if len(mine) == len(names):
        return delete(str(row.pk), actor, now, everywhere=True) or _gone(row)
    if not naming.give_up(row.pk, mine, now=now, actor=actor.label):  # its others were given up meanwhile
        return delete(str(row.pk), actor, now, name=name) or _gone(row)
    return queries.as_dict(queries.visible(actor).get(pk=row.pk))


def _gone(row: Any) -> Refusal:
    return Refusal(404, "not_found", f"there is no artifact {row.pk} any more")


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
    told = of_a_few([names[job] for job in jobs if job in names])
    which = f" ({told})" if told else ""
    count = len(jobs)
    has, needs, them = (agree(count, *words) for words in (("has", "have"), ("needs", "need"), ("it", "them")))
    words = (
        f"{jobs_in_words(count)} that {has} not ended {needs} {row.name!r}{which}: wait for {them}, or cancel {them}"
    )
    return Refusal(409, "in_use", words, facts={"jobs": [job for job in jobs if job in names]})
