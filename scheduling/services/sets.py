"""Jobs that are submitted together, as a pipeline or as a sweep: stored all or none, and cancelled together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.services import jobs
from scheduling.services.jobs import KeyConflict
from scheduling.store.commit import jobs as commit
from scheduling.store.commit import sets
from scheduling.store.queries import credentials
from scheduling.store.queries import jobs as known
from scheduling.store.queries import sets as queries
from scheduling.store.queries.access import Actor

TRIES = 5
Refusal = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """The set is stored (``fresh``), or had been stored by the same idempotency key."""

    set_id: UUID
    fresh: bool


@dataclass(frozen=True, slots=True)
class SetRefused:
    """Every reason at once, each with its field and, where it is one job's, its key. Nothing is stored."""

    errors: tuple[Refusal, ...]


def store(
    kind: str,
    ready: Callable[[], tuple[list[tuple[jobs.Ready, str]], list[Refusal]]],
    body: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    *,
    key: str | None,
    max_running: int | None = None,
) -> Made | SetRefused | KeyConflict:
    """The jobs that ``ready`` gives, with their keys, are a set; it is asked again when one that they are to wait for
    has ended meanwhile."""
    body_key = commit.Key(key, hashlib.sha256(jobs.canonical({kind: body}).encode()).hexdigest()) if key else None
    if body_key is not None and (before := credentials.made_by(actor.user_id, body_key.value)) is not None:
        return _earlier(before[0], same=before[1] == body_key.body_sha256)
    for _ in range(TRIES):
        found, errors = ready()
        if errors:
            return SetRefused(tuple(errors))
        members = [_member(each, called, place) for place, (each, called) in enumerate(found)]
        made, first = sets.create(
            kind, members, user_id=actor.user_id, key=body_key, now=now, actor=actor.label, max_running=max_running
        )
        if made is not None:
            return Made(made, fresh=True)
        if first is not None:
            return _earlier(first.job_id, same=first.same_body)
    message = "the jobs that these wait for are changing just now; submit them again"
    return SetRefused(({"field": "", "code": "changing", "message": message, "limit": None},))


def _earlier(job: UUID, *, same: bool) -> Made | KeyConflict:
    made = queries.set_of(job)
    return Made(made, fresh=False) if same and made is not None else KeyConflict(job)


def _member(ready: jobs.Ready, key: str, place: int) -> sets.Member:
    columns = {**jobs.columns_of(ready), "key": key, "place_in_set": place}
    return sets.Member(columns, jobs.after_of(ready))


def cancel(set_id: str, kind: str, actor: Actor, now: datetime, *, force: bool = False) -> int | None:
    """Every job of the set that has not ended will stop, those that wait first; returns how many it were. None when
    there is none that the actor may know of."""
    rows = known.filtered(actor, {kind: set_id})
    if not rows.exists():
        return None
    going = [job for job in rows.order_by("-place_in_set") if not job.is_terminal]
    for job in sorted(going, key=lambda each: each.state not in known.WAITING):
        jobs.cancel(str(job.pk), actor, now, force=force)
    return len(going)
