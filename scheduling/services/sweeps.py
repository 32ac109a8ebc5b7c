"""One job over many values: a job for each, of which so many run at a time as was asked."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any
from uuid import uuid4

from scheduling.core.fields import as_whole, nearest, shown
from scheduling.core.unusable import broken_texts, huge_numbers
from scheduling.services import jobs
from scheduling.services.jobs import KeyConflict
from scheduling.services.sets import Made, Refusal, SetRefused, store
from scheduling.store.queries.access import Actor

FIELDS = ("job", "over", "max_running")
MAX_JOBS = 1000
MAX_AXES = 8
MAX_TOLD = 50  # a fault of every job would be told as often as there are jobs
MAX_PATH = 200
NAME = 100
# One sweep is of one kind and one project, and of its jobs none takes the place of another.
FIXED = ("kind", "project", "name", "after", "after_any", "replaces", "plan_token", "params")

Axes = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Child:
    """A job of the sweep: its body, and the place of its value on each axis."""

    body: dict[str, Any]
    places: Mapping[str, int]


def submit(
    body: Mapping[str, Any], actor: Actor, now: datetime, *, key: str | None = None
) -> Made | SetRefused | KeyConflict:
    """A job for every combination of the values is stored, or none, with everything that is wrong. Of more than the
    limit nothing is built."""
    job, axes, most, errors = read(body)

    def ready() -> tuple[list[tuple[jobs.Ready, str]], list[Refusal]]:
        return _checked(job, axes, actor, now) if not errors else ([], errors)

    return store("sweep", ready, body, actor, now, key=key, max_running=most)


def read(body: Mapping[str, Any]) -> tuple[dict[str, Any], Axes, int | None, list[Refusal]]:
    """(the body that the jobs have in common, the values by path, how many may run at a time, what is wrong)."""
    errors = [_wrong(name, "unknown_field", f"there is no field {shown(name)}{nearest(name, FIELDS)}; remove it")
              for name in body if name not in FIELDS]  # fmt: skip
    job, over = body.get("job"), body.get("over")
    if not isinstance(job, Mapping):
        errors.append(_wrong("job", "required", "job must be an object, the body that all jobs have in common"))
    if not isinstance(over, Mapping) or not over:
        message = 'over must be an object with a list of values for each field that differs, like {"params.t": [0.1]}'
        errors.append(_wrong("over", "required", message))
    else:
        errors += _axes_faults(over)
    most = body.get("max_running")
    if most is not None:
        whole = None if isinstance(most, str) else as_whole(most)
        if not isinstance(whole, int) or not 1 <= whole <= MAX_JOBS:
            message = f"max_running must be a whole number from 1 to {MAX_JOBS}, not {shown(most)}; or leave it out"
            errors.append(_wrong("max_running", "out_of_range", message, MAX_JOBS))
    if errors:
        return {}, {}, None, errors
    return dict(job or {}), {path: list(values) for path, values in (over or {}).items()}, most, []


def _axes_faults(over: Mapping[str, Any]) -> Iterator[Refusal]:
    if len(over) > MAX_AXES:
        yield _wrong("over", "too_many", f"a sweep is over at most {MAX_AXES} fields, not {len(over)}", MAX_AXES)
        return
    sizes = []
    for path, values in over.items():
        field = f"over.{str(path)[:MAX_PATH]}"
        if not _is_path(path):
            message = f"{shown(path)} is no field that can differ: give a path like params.t or gpu_count; {_fixed()}"
            yield _wrong(field, "bad_path", message, list(FIXED))
        if not isinstance(values, list) or not values:
            yield _wrong(field, "not_a_list", f"{field} must be a list of at least one value, not {shown(values)}")
            continue
        sizes.append(len(values))
        if len(values) <= MAX_JOBS:
            yield from _value_faults(field, values)
    if math.prod(sizes) > MAX_JOBS:
        many = " x ".join(map(str, sizes))
        message = (
            f"a sweep has at most {MAX_JOBS} jobs, not {many if len(sizes) == 1 else f'{many} = {math.prod(sizes)}'}"
        )
        yield _wrong("over", "too_many", f"{message}; give fewer values, or several sweeps", MAX_JOBS)


def _fixed() -> str:
    return f"{', '.join(FIXED)} are the same for all"


def _is_path(path: Any) -> bool:
    if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH or path in FIXED:
        return False
    parts = path.split(".")
    return all(parts) and (len(parts) == 1) == (parts[0] != "params")


def _value_faults(field: str, values: Sequence[Any]) -> Iterator[Refusal]:
    seen: list[Any] = []
    for i, value in enumerate(values):
        where = f"{field}.{i}"
        unusable = [*huge_numbers(value, where), *broken_texts(value, where)]
        if unusable:
            yield _wrong(where, "unusable", f"{shown(unusable[0][1])} can't be used as a value; give another")
        elif any(value == other and type(value) is type(other) for other in seen):
            yield _wrong(where, "duplicate", f"{shown(value)} is there twice; give each value once")
        seen.append(value)


def _checked(
    job: Mapping[str, Any], axes: Axes, actor: Actor, now: datetime
) -> tuple[list[tuple[jobs.Ready, str]], list[Refusal]]:
    """Each job as it can be stored; or everything that is wrong, what is wrong with all of them once."""
    children, errors = _children(job, axes)
    common = jobs.together()
    found: list[tuple[jobs.Ready, str]] = []
    told: dict[tuple[str, str, str], Refusal] = {(e["field"], e["code"], e["message"]): e for e in errors}
    for place, child in enumerate(children):
        submission, resolved, wrong = jobs.check(child.body, actor, now, common)
        wrong = (*wrong, *(_not_here(name) for name in ("replaces",) if child.body.get(name) is not None))
        for each in wrong:
            field = _field(str(each["field"]), child)
            told.setdefault((field, each["code"], each["message"]), {**each, "field": field})
        if submission is not None:
            found.append((jobs.Ready(submission, resolved, child.body, uuid4()), str(place + 1)))
        if len(told) >= MAX_TOLD:
            break
    return (found, []) if not told else ([], list(told.values())[:MAX_TOLD])


def _not_here(name: str) -> Refusal:
    return _wrong(name, "not_here", f"{name} is for a job by itself; leave it out")


def _field(field: str, child: _Child) -> str:
    """The field of the sweep's body: the value that is wrong, or the field of the job that all have."""
    for path, place in child.places.items():
        if field == path or field.startswith(f"{path}."):
            return f"over.{path}.{place}"
    return f"job.{field}" if field else "job"


def _children(job: Mapping[str, Any], axes: Axes) -> tuple[list[_Child], list[Refusal]]:
    children: list[_Child] = []
    for chosen in product(*(enumerate(values) for values in axes.values())):
        body = copy.deepcopy(dict(job))
        values = dict(zip(axes, (value for _, value in chosen), strict=True))
        for path, value in values.items():
            if not _put(body, path.split("."), value):
                message = f"{path} can't be set, since what holds it in job is no object and has no such place"
                return [], [_wrong(f"over.{path}", "no_place", message)]
        body["name"] = _named(job, values)
        children.append(_Child(body, dict(zip(axes, (place for place, _ in chosen), strict=True))))
    return children, []


def _put(holder: Any, path: Sequence[str], value: Any) -> bool:
    """Whether the value stands at the path now: in an object, made where there is none, or a list with such a place."""
    name, *rest = path
    if isinstance(holder, list):
        if not name.isdecimal() or int(name[:6]) >= len(holder):
            return False
        if not rest:
            holder[int(name)] = copy.deepcopy(value)
            return True
        return _put(holder[int(name)], rest, value)
    if not isinstance(holder, dict):
        return False
    if not rest:
        holder[name] = copy.deepcopy(value)
        return True
    if holder.get(name) is None:
        holder[name] = {}
    return _put(holder[name], rest, value)


def _named(job: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """What the job of these values is called: as the sweep, and what it differs in. A name that is none stays."""
    name = job.get("name")
    if name is not None and not isinstance(name, str):
        return name
    base = name or str(job.get("kind") or "job")
    differs = " ".join(f"{path.rpartition('.')[2]}={_short(value)}" for path, value in values.items())
    clean = differs.replace("/", "-").replace("\\", "-")
    room = NAME - len(base) - 1
    return f"{base} {clean[:room]}".strip() if room > 0 else base


def _short(value: Any) -> str:
    return value[:20] if isinstance(value, str) else shown(value)[:20]


def _wrong(field: str, code: str, message: str, limit: Any = None) -> Refusal:
    return {"field": field, "code": code, "message": message, "limit": limit}
