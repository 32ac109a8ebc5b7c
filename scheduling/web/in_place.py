"""In whose place? The box of the forms: the job that is cancelled for this one, unless its reader unticks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling.core.naming import is_job_id
from scheduling.services.replacing import FIELD
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor

BOX = "in_place"


@dataclass(frozen=True, slots=True)
class InPlace:
    """The job that the form was opened to change, "" for none, and whether this one is to take its place."""

    job: str = ""
    wanted: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The field of the body."""
        return {FIELD: self.job} if self.wanted else {}


def _as_id(value: Any) -> str:
    """The id as everybody writes it, "" for what is none."""
    return str(UUID(value)) if is_job_id(value) else ""


def of_address(query: Mapping[str, str], body: Mapping[str, Any]) -> InPlace:
    """As a link opens the form, or a refused body had it; the box is ticked."""
    job = _as_id(query.get(FIELD) or body.get(FIELD))
    return InPlace(job, wanted=bool(job))


def posted(form: Mapping[str, str]) -> InPlace:
    """As the form was sent."""
    job = _as_id(form.get(FIELD))
    return InPlace(job, wanted=bool(job) and form.get(BOX) == "on")


def shown(found: InPlace, actor: Actor) -> dict[str, Any] | None:
    """The box with the name of the job; None where the actor knows of no such job and it is not asked for."""
    name = known.names(actor, [found.job]).get(found.job) if found.job else None
    if name is None and not found.wanted:
        return None
    return {"id": found.job, "name": name or found.job, "ticked": found.wanted}
