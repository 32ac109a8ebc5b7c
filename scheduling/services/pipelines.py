"""Jobs that are submitted together and wait for each other by their keys: all of them are stored, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from scheduling.core.after import SIGN
from scheduling.core.chains import in_order
from scheduling.core.fields import nearest, shown
from scheduling.core.lifecycle import JobState
from scheduling.core.naming import is_job_id
from scheduling.services import after, jobs, recipes
from scheduling.services.jobs import KeyConflict
from scheduling.services.sets import Made, Refusal, SetRefused, store
from scheduling.store.queries.access import Actor

FIELDS = ("jobs",)
MAX_JOBS = 100
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
WORDS_OF_A_KEY = "1 to 64 letters, digits, dots, dashes and underscores, of which the first is a letter or a digit"
NOT_HERE = ("replaces",)


@dataclass(frozen=True, slots=True)
class Asked:
    """A job of a pipeline as it was asked for: its place in the list, its key, the id that it will have, its body."""

    place: int
    key: str
    job_id: UUID
    body: Mapping[str, Any]


def submit(
    body: Mapping[str, Any], actor: Actor, now: datetime, *, key: str | None = None
) -> Made | SetRefused | KeyConflict:
    """Every job is QUEUED, each after those whose keys it names; or none is, with everything that is wrong."""

    def ready() -> tuple[list[tuple[jobs.Ready, str]], list[Refusal]]:
        asked, errors = read(body)
        order, circle = in_order(_waits(asked)) if not errors else ([], [])
        if circle:
            errors.append(_circle(circle, asked))
        return _checked(asked, order, actor, now) if not errors else ([], errors)

    return store("pipeline", ready, body, actor, now, key=key)


def read(body: Mapping[str, Any]) -> tuple[dict[str, Asked], list[Refusal]]:
    """(the jobs by their keys, everything that is wrong with the list and the keys)."""
    errors = [_wrong(name, "unknown_field", f"there is no field {shown(name)}{nearest(name, FIELDS)}; remove it")
              for name in body if name not in FIELDS]  # fmt: skip
    rows = body.get("jobs")
    if not isinstance(rows, list) or not rows:
        return {}, [*errors, _wrong("jobs", "required", f"jobs must be a list of 1 to {MAX_JOBS} jobs", MAX_JOBS)]
    if len(rows) > MAX_JOBS:
        message = f"a pipeline has at most {MAX_JOBS} jobs, not {len(rows)}; submit parts that wait for each other"
        return {}, [*errors, _wrong("jobs", "too_many", message, MAX_JOBS)]
    asked: dict[str, Asked] = {}
    for i, row in enumerate(rows):
        wrong = _key_fault(i, row, asked)
        if wrong is not None:
            errors.append(wrong)
            continue
        asked[row["key"]] = Asked(i, row["key"], uuid4(), {k: v for k, v in row.items() if k != "key"})
    if not errors:
        errors = [wrong for each in asked.values() for wrong in _after_faults(each, asked)]
    return asked, errors


def _key_fault(place: int, row: Any, known: Mapping[str, Asked]) -> Refusal | None:
    field = f"jobs.{place}"
    if not isinstance(row, Mapping):
        return _wrong(field, "not_an_object", f"{field} must be an object, the body of a job with a key")
    key = row.get("key")
    if not isinstance(key, str) or not KEY.fullmatch(key) or is_job_id(key):
        what = "must be given" if key is None else f"may not be {shown(key)}"
        return _wrong(f"{field}.key", "bad_key", f"the key of a job {what}: it has {WORDS_OF_A_KEY}, and is no id", 64)
    if key in known:
        message = f"{key} is the key of jobs.{known[key].place} too; give each job one of its own"
        return _wrong(f"{field}.key", "duplicate_key", message, key=key)
    return None


def _after_faults(asked: Asked, known: Mapping[str, Asked]) -> Iterator[Refusal]:
    """What ``after`` names and is neither a key nor an id. What is no list is refused with the rest of the job."""
    for i, each in enumerate(_listed(asked.body)):
        if isinstance(each, str) and each not in known and not is_job_id(each):
            message = f"no job of this pipeline has the key {shown(each)}{nearest(each, list(known))}, and it is no id"
            yield _wrong(f"jobs.{asked.place}.after.{i}", "unknown_key", f"{message}; remove it", key=asked.key)


def _listed(body: Mapping[str, Any]) -> Sequence[Any]:
    value = body.get(after.FIELD)
    return value if isinstance(value, list) else []


def _waits(asked: Mapping[str, Asked]) -> dict[str, list[str]]:
    return {key: [each for each in _listed(one.body) if isinstance(each, str) and each in asked]
            for key, one in asked.items()}  # fmt: skip


def _circle(circle: Sequence[str], asked: Mapping[str, Asked]) -> Refusal:
    path = " -> ".join(circle)
    message = f"these jobs wait for each other in a circle, so that none would start: {path}; remove one of the waits"
    return _wrong(f"jobs.{asked[circle[0]].place}.after", "circle", message, list(circle), key=circle[0])


def _checked(
    asked: Mapping[str, Asked], order: Sequence[str], actor: Actor, now: datetime
) -> tuple[list[tuple[jobs.Ready, str]], list[Refusal]]:
    """Each job as it can be stored, in the order; or everything that is wrong with any of them."""
    waits, beside = _waits(asked), dict[str, Any]()
    common = jobs.together(beside)
    ids = {key: str(one.job_id) for key, one in asked.items()}
    found: list[tuple[jobs.Ready, str]] = []
    wrong: dict[int, list[Refusal]] = {}
    for key in order:
        one = asked[key]
        body = _by_id(one.body, ids)
        depth = 1 + max((beside[ids[each]].depth for each in waits[key]), default=-1)
        beside[ids[key]] = _to_come(one, body, depth)
        submission, resolved, errors = jobs.check(body, actor, now, common)
        here = [{**each, "field": f"jobs.{one.place}.{each['field']}", "key": key,
                 "message": _by_key(each["message"], ids)} for each in errors]  # fmt: skip
        here += [_wrong(f"jobs.{one.place}.{name}", "not_here", f"{name} is for a job by itself; submit it beside the "
                        "pipeline", key=key) for name in NOT_HERE if body.get(name) is not None]  # fmt: skip
        wrong[one.place] = here
        if submission is not None:
            found.append((jobs.Ready(submission, resolved, body, one.job_id), key))
    return found, [each for place in sorted(wrong) for each in wrong[place]]


def _by_id(body: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """The body with ids in the place of keys."""

    def other(reference: str) -> str:
        key, _, name = reference.removeprefix(SIGN).partition("/")
        if not reference.startswith(SIGN) or key not in ids:
            return reference
        return f"{SIGN}{ids[key]}{'/' + name if name else ''}"

    changed = dict(body)
    if isinstance(body.get(after.FIELD), list):
        changed[after.FIELD] = [ids.get(each, each) if isinstance(each, str) else each for each in body[after.FIELD]]
    params = body.get("params")
    if isinstance(params, Mapping):
        changed["params"] = after.with_references(_read(params), other)
    return changed


def _by_key(message: str, ids: Mapping[str, str]) -> str:
    """The message with keys in the place of ids, which nobody has seen yet."""
    for key, job in ids.items():
        message = message.replace(job, key)
    return message


def _read(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recipe that came as a text is an object, as far as it can be read; what can't is refused with the rest."""
    if not isinstance(params.get("recipe"), str):
        return params
    try:
        return {**params, "recipe": recipes.read(params["recipe"])}
    except recipes.Unread:
        return params


def _to_come(one: Asked, body: Mapping[str, Any], depth: int) -> Any:
    """What the others may know of a job that is stored with them."""
    kind = body.get("kind")
    name = body.get("name")
    return SimpleNamespace(
        pk=one.job_id, kind=kind, name=name if isinstance(name, str) else str(kind), state=JobState.QUEUED,
        is_terminal=False, depth=depth, project_id=None, replaced_by=None,
    )  # fmt: skip


def _wrong(field: str, code: str, message: str, limit: Any = None, *, key: str | None = None) -> Refusal:
    found: Refusal = {"field": field, "code": code, "message": message, "limit": limit}
    return found if key is None else {**found, "key": key}
