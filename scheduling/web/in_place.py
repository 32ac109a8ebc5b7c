"""In whose place, or beside whom? The box of the forms: the job that is cancelled for this one, unless its reader
unticks it; and a word on the job that a copy leaves as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import LIVE, JobState
from scheduling.core.naming import is_job_id
from scheduling.services import replacing
from scheduling.services.replacing import FIELD
from scheduling.store.queries import jobs
from scheduling.store.queries.access import Actor

BOX = "in_place"
COPIED = "copy_of"


@dataclass(frozen=True, slots=True)
class InPlace:
    """The job that the form was opened to change, "" for none, and whether this one is to take its place. ``copied``:
    the job that this one is a copy of, "" for none. ``unknown``: the address names a job that the actor knows not."""

    job: str = ""
    wanted: bool = False
    copied: str = ""
    unknown: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The field of the body."""
        return {FIELD: self.job} if self.wanted else {}


def _as_id(value: Any) -> str:
    """The id as everybody writes it, "" for what is none."""
    return str(UUID(value)) if is_job_id(value) else ""


def of_address(query: Mapping[str, str], body: Mapping[str, Any], actor: Actor) -> InPlace:
    """As a link opens the form, or a refused body had it; the box is ticked. A job that has started, or been replaced,
    since its page was read has no box any more, and one that the actor knows not never had."""
    job, copied = _as_id(query.get(FIELD) or body.get(FIELD)), _as_id(query.get("from"))
    _, wrong = replacing.find(job, actor)
    if wrong and wrong[0]["code"] == replacing.UNKNOWN:
        return InPlace(copied=copied, unknown=True)
    if wrong:
        return InPlace(copied=job)
    return InPlace(job, wanted=bool(job), copied=copied)


def posted(form: Mapping[str, str]) -> InPlace:
    """As the form was sent."""
    job = _as_id(form.get(FIELD))
    return InPlace(job, wanted=bool(job) and form.get(BOX) == "on", copied=_as_id(form.get(COPIED)))


def shown(found: InPlace, actor: Actor) -> dict[str, Any] | None:
    """The box with the name of the job; None where the actor knows of no such job and it is not asked for."""
    row = jobs.one(actor, found.job) if found.job else None
    if row is None and not found.wanted:
        return None
    name, held = (found.job, False) if row is None else (row.name, replacing.is_held(row))
    return {"id": found.job, "name": name, "ticked": found.wanted, "held": held}


def left_as_it_is(found: InPlace, actor: Actor) -> dict[str, Any] | None:
    """The job that goes on beside this copy of it, which nothing else on the form would tell: its name, what becomes
    of it, and what to do to have this one alone. None for a job that is over, and while the box speaks of it."""
    row = jobs.one(actor, found.copied) if found.copied and not found.job else None
    if row is None or row.state == JobState.CANCELLING:
        return None
    known_as = {"id": str(row.pk), "name": row.name, "by": None}
    if (by := jobs.newest_in_place_of(row)) is not None:
        return {**known_as, "by": {"id": str(by.pk), "name": by.name}}
    if row.state in LIVE:
        return {**known_as, "words": "has started and goes on", "instead": "cancel it"}
    if row.is_terminal:
        return None
    if row.attempt_number:
        words = "has run before, so nothing can take its place: it keeps waiting"
        return {**known_as, "words": words, "instead": "cancel it"}
    return {**known_as, "words": "keeps waiting", "instead": "choose Change"}
