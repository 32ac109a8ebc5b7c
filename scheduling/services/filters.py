"""What may a list be narrowed by? Every wrong value of a filter at once, with those that may be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.core.fields import nearest, shown
from scheduling.core.lifecycle import JobState
from scheduling.core.naming import is_job_id
from scheduling.services.artifacts import KINDS as ARTIFACT_KINDS
from scheduling.store import load
from scheduling.store.queries import jobs, pages, share
from scheduling.store.queries.access import Actor
from workers.catalog import KINDS

STATE_WORDS = (*(state.value for state in JobState), "waiting", "live", "ended")
MAX_TOLD = 100  # names that one error lists


def wrong_of_jobs(actor: Actor, given: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """The errors of a filter of jobs by ``state``, ``kind``, ``queue``, ``project``, ``user``, ``pipeline`` and
    ``sweep``; "" asks for all."""
    return tuple(_of_jobs(actor, {name: value for name, value in given.items() if value}))


def _of_jobs(actor: Actor, given: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    known = {word.casefold() for word in STATE_WORDS}
    for word in given["state"].split(",") if "state" in given else ():
        if word.casefold() not in known:
            yield _wrong("state", word, STATE_WORDS)
    yield from _one_of("kind", given, sorted(KINDS))
    if "queue" in given:
        yield from _one_of("queue", given, pages.queue_names())
    yield from _project(actor, given)
    for name in ("pipeline", "sweep"):
        if name in given and not is_job_id(given[name]):
            message = f"{name} must be the id of a {name}, not {shown(given[name])}; or leave it out"
            yield {"field": name, "code": f"no_{name}_id", "message": message, "limit": None}
    if "user" in given and given["user"] not in ("me", actor.username):
        people = ("me", *_people(actor))
        if given["user"] not in people and not jobs.filtered(actor, {"user": given["user"]}).exists():
            yield _wrong("user", given["user"], people)


def wrong_of_artifacts(actor: Actor, given: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """The errors of a filter of artifacts by ``kind``, ``project``, ``deleted`` and ``corrupt``; "" asks for all, and
    for those that are there."""
    filled = {name: value for name, value in given.items() if value}
    kind = _one_of("kind", filled, ARTIFACT_KINDS)
    flags = (wrong for name in ("deleted", "corrupt") for wrong in _one_of(name, filled, ("true", "false")))
    return (*kind, *_project(actor, filled), *flags)


def wrong_of_shares(actor: Actor, given: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """The errors of a filter of shares, which are told to everybody, by ``project`` and ``queue``; "" asks for all."""
    filled = {name: value for name, value in given.items() if value}
    projects = _one_of("project", filled, share.project_names())
    return (*projects, *wrong_of_jobs(actor, {"queue": given.get("queue", "")}))


def _people(actor: Actor) -> list[str]:
    """Who belongs to the projects that the actor may know of."""
    members = load.policy_of().user_weights
    return sorted({user for project, user in members if actor.sees(project)})


def _project(actor: Actor, given: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if "project" in given:
        yield from _one_of("project", given, pages.project_names(actor))


def _one_of(field: str, given: Mapping[str, str], known: Sequence[str]) -> Iterator[dict[str, Any]]:
    if field in given and given[field] not in known:
        yield _wrong(field, given[field], known)


def _wrong(field: str, value: str, known: Sequence[str]) -> dict[str, Any]:
    # Of what the actor may not know of it says the same as of what there is not.
    told = list(known[:MAX_TOLD])
    yours = "that you may know of" if field in ("project", "user") else ""
    message = (
        f"there is no {field} {shown(value)} {yours}".rstrip()
        + f"{nearest(value, known)}; give one of {', '.join(told) or 'none'}, or leave {field} out"
    )
    return {"field": field, "code": f"unknown_{field}", "message": message, "limit": told}
