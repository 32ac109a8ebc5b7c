"""Which jobs is a new one to wait for, may it, and what are the outputs that it names?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from scheduling.core.after import MAX_AFTER, output_meant
from scheduling.core.fields import shown
from scheduling.core.lifecycle import JobState
from scheduling.core.naming import is_job_id
from scheduling.core.unusable import BrokenText
from scheduling.services import models_fit
from scheduling.services.same_work import Work, key_of
from scheduling.store.commit.after import After, Fit, waits_for
from scheduling.store.queries import after as queries
from scheduling.store.queries import jobs as known
from scheduling.store.queries.access import Actor
from workers.catalog import KINDS

FIELD = "after"
MAX_DEPTH = 1000
NO_REFERENCES = ("argv", "shell", "env")

Errors = list[dict[str, Any]]


def find(
    body: Mapping[str, Any], actor: Actor, *, original: Any, beside: Mapping[str, Any]
) -> tuple[dict[str, Any], Errors]:
    """(the rows of the jobs that ``after`` names, by their ids; errors). ``original``: the row of the job whose place
    the new one takes, or None; ``beside``: jobs that are stored together with it, by their ids. What is no list of ids
    has been refused as that."""
    value = body.get(FIELD)
    ids = value if isinstance(value, list) and len(value) <= MAX_AFTER else []
    rows: dict[str, Any] = {}
    errors: Errors = []
    for i, each in enumerate(ids):
        if not is_job_id(each) or str(UUID(each)) in rows:
            continue
        row = beside.get(each) or known.one(actor, each)
        wrong = _fault(row, each, any_end=body.get("after_any") is True, original=original)
        if wrong is not None:
            errors.append({"field": f"{FIELD}.{i}", "code": wrong[0], "message": wrong[1], "limit": None})
        if row is not None:
            rows[str(row.pk)] = row
    if max((row.depth for row in rows.values()), default=-1) + 1 >= MAX_DEPTH:
        message = (
            f"jobs may wait for each other in a chain of at most {MAX_DEPTH}; let this one wait for an earlier one"
        )
        errors.append({"field": FIELD, "code": "too_long_a_chain", "message": message, "limit": MAX_DEPTH})
    return rows, errors


def _fault(row: Any, named: str, *, any_end: bool, original: Any) -> tuple[str, str] | None:
    """Why a new job can't wait for this one, and what to do; of which the actor may not know it says the same as of
    which there is none."""
    if row is None:
        return "unknown_job", f"there is no job {shown(named)} in your projects that this one could wait for; remove it"
    if row.state == JobState.REJECTED:
        return "never_accepted", f"job {row.pk} was refused, so that it will never succeed; remove it"
    newest = known.newest_in_place_of(row)
    if newest is not None:
        return "replaced", f"job {row.pk} was replaced, now by {newest.name} (job {newest.pk}): name that one"
    if original is not None and row.pk == original.pk:
        return "replaced", f"job {row.pk} is the one whose place this one takes: remove it here, or in replaces"
    if original is not None and waits_for([row.pk], original.pk):
        message = (
            f"job {row.pk} waits for job {original.pk}, whose place this one takes, so that both would wait for ever"
        )
        return "circle", f"{message}; remove it"
    if row.is_terminal and row.state != JobState.SUCCEEDED and not any_end:
        to_do = "remove it, retry it and name the new job, or set after_any if any end will do"
        return "did_not_succeed", f"job {row.pk} has ended {row.state}, so that this one would never start: {to_do}"
    return None


def stored_as(rows: Mapping[str, Any], *, any_end: bool) -> After | None:
    """What the store is to keep of the predecessors; None for none."""
    if not rows:
        return None
    ended = frozenset(row.pk for row in rows.values() if row.is_terminal)
    return After({UUID(named): row.pk for named, row in rows.items()}, ended, any_end)


def refit(job: Any, before: Mapping[str, Any]) -> Fit | None:
    """The inputs of the stored job with its predecessors as they are now; None when it names no output of theirs.

    What was found when it was submitted stays what it was. The words of an error are those of a submission.
    """
    references = KINDS[job.kind].references(job.params)
    if not any(output_meant(reference) for _, reference, _ in references):
        return None
    pinned = queries.artifacts_of(job.spec.get("inputs", []))
    sources = models_fit.Sources(job.project.name, None, before, pinned)
    fit = models_fit.check(job.kind, job.params, sources, right=True)
    key = "" if fit.errors else key_of(Work(job.kind, job.params, fit.inputs))
    return Fit(fit.inputs, [each["message"] for each in fit.errors], key)


def as_they_stand(job: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body that made the job, naming what has taken the place of its predecessors since."""
    return _instead(body, {str(row.named): str(row.before_id) for row in job.predecessors.all()})


def again(job: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a retry: it waits for, and reads the outputs of, the newest retries of those of its predecessors that
    did not succeed. ``body`` names them as they stand."""
    newest = {str(row.before_id): str(queries.newest_try(row.before).pk) for row in job.predecessors.all()}
    return _instead(body, newest)


def _instead(body: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    changed = {old: new for old, new in ids.items() if old != new}
    return renamed(body, changed) if changed else dict(body)


def renamed(body: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """The body with other jobs in ``after`` and in the references to outputs: ``ids`` tells which for which."""
    after = [ids.get(str(UUID(each)), each) for each in body.get(FIELD) or ()]
    return {**body, FIELD: after, "params": _renamed(body.get("params"), ids)}


def _renamed(params: Any, ids: Mapping[str, str]) -> Any:
    def other(reference: str) -> str:
        meant = output_meant(reference)
        if meant is None or meant[0] not in ids:
            return reference
        return f"@{ids[meant[0]]}{'/' + meant[1] if meant[1] else ''}"

    return with_references(params, other)


def with_references(params: Any, other: Callable[[str], str]) -> Any:
    """The parameters with ``other`` texts where an artifact may be named, which is not in a command line or its
    variables."""
    if not isinstance(params, Mapping):
        return params
    return {name: each if name in NO_REFERENCES else _each(each, other) for name, each in params.items()}


def _each(value: Any, other: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _each(each, other) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | BrokenText):
        return [_each(each, other) for each in value]
    return other(value) if isinstance(value, str) else value


def reason(rows: Mapping[str, Any], *, any_end: bool) -> dict[str, Any] | None:
    """What a plan says of jobs that have yet to end first; None where all have."""
    there = [row for row in rows.values() if not row.is_terminal]
    if not there:
        return None
    names = ", ".join(f"{row.name} ({row.state.lower()})" for row in there[: queries.MAX_TOLD])
    more = f" and {len(there) - queries.MAX_TOLD} more" if len(there) > queries.MAX_TOLD else ""
    how = "end" if any_end else "succeed"
    many = "one job" if len(rows) == 1 else f"{len(there)} of {len(rows)} jobs"
    message = f"It would wait for {many} to {how} first: {names}{more}."
    return {"code": queries.CODE, "message": message, "numbers": {"after": len(rows), "open": len(there)}}
