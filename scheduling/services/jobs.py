"""The verbs of jobs: submit, replace, cancel, hold, release, clone, retry. Form and REST come here and refuse alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from scheduling.core.after import MAX_AFTER
from scheduling.core.capacity import rooms_at_door
from scheduling.core.lifecycle import JobState
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.request import ResourceRequest, Rights, Submission, validate
from scheduling.services import after, models_fit, notify, quota, recipes, replacing
from scheduling.services.same_work import Work, key_of
from scheduling.store import load, topology
from scheduling.store.clock import to_ms
from scheduling.store.commit import jobs as commit
from scheduling.store.commit.replacing import Replaces
from scheduling.store.queries import access, credentials, dispatch
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor
from scheduling.store.queries.shapes import shape_of
from workers.catalog import KINDS
from workers.secret_words import masked, unquoted

RETRIED = (JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED)
KIND_QUEUES = {kind.name: kind.queue for kind in KINDS.values()}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job is stored (``fresh``), or had been stored by the same idempotency key."""

    job_id: UUID
    fresh: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Every reason at once. ``job_id`` is the stored REJECTED job, if one was stored (D28)."""

    errors: tuple[dict[str, Any], ...]
    job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The idempotency key was used before with another body."""

    job_id: UUID


@dataclass(frozen=True, slots=True)
class Together:
    """What jobs that are submitted together have in common: the policy and the pool as they were read, the jobs that
    are stored ``beside`` one, by the ids that they will have, and the artifacts that were found (by project and
    reference)."""

    policy: Policy
    pool: Pool
    beside: Mapping[str, Any] = field(default_factory=dict)
    found: dict[tuple[str, str], Any] = field(default_factory=dict)


def together(beside: Mapping[str, Any] | None = None) -> Together:
    """What jobs submitted now have in common."""
    return Together(load.policy_of(), load.pool_of(), {} if beside is None else beside)


def check(
    body: Mapping[str, Any], actor: Actor, now: datetime, common: Together | None = None
) -> tuple[Submission | None, dict[str, Any], tuple[dict[str, Any], ...]]:
    """(submission, what was resolved, errors): what REST, the form and a dry run agree on.

    Resolved are the parameters, the ``inputs``, the ``rows`` of a merge whose tensors differ in how they are made,
    the row of the job that it ``replaces``, and those of the jobs that come ``before`` it by the ids that were named.
    """
    common = common or together()
    policy, pool = common.policy, common.pool
    project = _project(body, actor)
    rights = Rights(
        levels_cap=access.level_cap(actor, project) if project and actor.sees(project) else actor.level_cap,
        may_critical=actor.may_critical,
        may_unpreemptible=actor.may_unpreemptible,
        projects=actor.projects,
    )
    kind = body.get("kind")
    submission, found = validate(
        body, policy=policy, pool=pool, rights=rights, kinds=KIND_QUEUES, now_ms=to_ms(now),
        over_nodes=_over_nodes(kind),
    )  # fmt: skip
    errors = [e.as_row() for e in found]
    original, wrong_original = replacing.find(body.get(replacing.FIELD), actor)
    errors += wrong_original
    before, wrong_before = after.find(body, actor, original=original, beside=common.beside)
    errors += wrong_before
    resolved: dict[str, Any] = {
        "params": body.get("params") or {}, "inputs": [], "rows": (), "replaces": original, "before": before,
    }  # fmt: skip
    if isinstance(kind, str) and kind in KINDS:
        clean, wrong = recipes.check(kind, body.get("params"))
        errors += [asdict(e) for e in wrong]
        resolved["params"] = clean
        if project and actor.sees(project):  # else the project is the fault, and nothing else can be said
            sources = models_fit.Sources(project, actor, before, seen=common.found)
            fit = models_fit.check(kind, clean, sources, right=not wrong)
            resolved |= {"inputs": fit.inputs, "rows": fit.rows}
            errors += fit.errors
    if project and actor.sees(project) and (over := quota.over(project)) is not None:
        errors.append(over)
    return (submission if not errors else None), resolved, tuple(errors)


def _over_nodes(kind: Any) -> bool:
    """Whether such jobs may lie on several nodes; of a kind there is not, that is not the fault."""
    return not isinstance(kind, str) or kind not in KINDS or KINDS[kind].over_nodes


def largest(kind: str, *, nvlink: bool = False, spread: bool = False) -> int:
    """The most GPUs that a job of the kind may ask for now: with NVLink or without, or ``spread`` over nodes with any
    number on each; 0 when the pool has none."""
    policy, pool = load.policy_of(), load.pool_of()
    whole = nvlink and policy.nvlink_mode == "exclusive"
    request = ResourceRequest(1, nvlink_required=nvlink, nvlink_exclusive=whole, allow_span=spread)
    return rooms_at_door(pool, request, over_nodes=_over_nodes(kind)).most()


def _project(body: Mapping[str, Any], actor: Actor) -> str | None:
    """The project the body names; when it names none, the only one of somebody who has just one."""
    named = body.get("project")
    if isinstance(named, str) and named:
        return named
    return actor.projects[0] if named in (None, "") and len(actor.projects) == 1 else None


def submit(
    body: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    *,
    key: str | None = None,
    raw: str | None = None,
    begins: Mapping[str, Any] | None = None,
) -> Accepted | Refused | KeyConflict:
    """The job is QUEUED, or refused with every reason and kept as REJECTED for the audit.

    ``begins`` are the columns of a job that goes on where another ended.
    """
    text = raw if raw is not None else json.dumps(body, sort_keys=True, default=str)
    body_key = commit.Key(key, hashlib.sha256(canonical(body).encode()).hexdigest()) if key else None
    if body_key is not None and (made_before := credentials.made_by(actor.user_id, body_key.value)) is not None:
        job_id, made_with = made_before
        return Accepted(job_id, fresh=False) if made_with == body_key.body_sha256 else KeyConflict(job_id)
    submission, resolved, errors = check(body, actor, now)
    made: commit.Created | None = None
    if submission is not None:
        for _ in range(MAX_AFTER + 2):
            made = _create(submission, resolved, body, begins, actor, body_key, now)
            if made is not None:
                break
            # a job that it is to replace, or to wait for, has moved on since it was checked
            submission, resolved, errors = check(body, actor, now)
            if submission is None:
                break
    elif body_key is not None and any(each["field"] == replacing.FIELD for each in errors):
        made = commit.made_by(actor.user_id, body_key)  # the same body, sent twice at once, has replaced it
    if made is None:
        return Refused(errors, _keep_refused(body, text, errors, actor, now))
    return Accepted(made.job_id, made.fresh) if made.same_body else KeyConflict(made.job_id)


@dataclass(frozen=True, slots=True)
class Ready:
    """A job that was checked and can be stored under the id: the submission, what was resolved, and its body."""

    submission: Submission
    resolved: Mapping[str, Any]
    body: Mapping[str, Any]
    job_id: UUID


def columns_of(ready: Ready) -> dict[str, Any]:
    """The columns of the job."""
    return {"id": ready.job_id, **_columns(ready.submission, ready.resolved, ready.body)}


def after_of(ready: Ready) -> Any:
    """What the store is to keep of the jobs that it waits for; None for none."""
    return after.stored_as(ready.resolved["before"], any_end=ready.submission.after_any)


def _create(
    submission: Submission,
    resolved: Mapping[str, Any],
    body: Mapping[str, Any],
    begins: Mapping[str, Any] | None,
    actor: Actor,
    key: commit.Key | None,
    now: datetime,
) -> commit.Created | None:
    original = resolved["replaces"]
    columns = {**_columns(submission, resolved, body), **(begins or _goes_on(original, submission, resolved))}
    return commit.create(
        columns, user_id=actor.user_id, key=key, now=now, actor=actor.label,
        replaces=_replaces(original, submission, resolved, actor),
        after=after.stored_as(resolved["before"], any_end=submission.after_any),
    )  # fmt: skip


def _replaces(
    original: Any, submission: Submission, resolved: Mapping[str, Any], actor: Actor
) -> Replaces | None:  # fmt: skip
    if original is None:
        return None
    return Replaces(
        original.pk, replacing.new_place(original, submission, actor),
        replacing.begins_anew(original, submission, resolved),
    )  # fmt: skip


def _goes_on(original: Any, submission: Submission, resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with which the retry of an ended job stays one, when it is replaced by the same work."""
    if original is None or original.retry_of_id is None:
        return {}
    if not replacing.is_same_work(original, submission, resolved):
        return {}
    return {"retry_of_id": original.retry_of_id, **commit.beginning(original)}


def _columns(submission: Submission, resolved: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the accepted job."""
    request = submission.request
    asked = {k: v for k, v in body.items() if k not in ("params", replacing.FIELD)}
    return {
        "name": submission.name, "kind": submission.kind, "project": submission.project, "queue": submission.queue,
        "level": submission.level, "params": resolved["params"], "shape": shape_of(request),
        "spec": {**asked, "inputs": resolved["inputs"]},
        "gpu_count": request.gpu_count, "node_count": request.node_count, "gpus_per_node": request.gpus_per_node,
        "gpu_memory_min_mib": request.gpu_memory_min_mib, "nvlink_required": request.nvlink_required,
        "nvlink_exclusive": request.nvlink_exclusive, "max_duration_s": request.max_duration_s,
        "affinity": [asdict(t) for t in request.affinity], "retries": submission.retries,
        "preemptible": submission.preemptible, "purpose": submission.purpose or "", "remainder": request.remainder,
        "topology": topology.stored(request), "group": submission.group or "",
        "not_before": _instant(submission.not_before), "start_by": _instant(submission.start_by),
        "work_key": key_of(Work(submission.kind, resolved["params"], resolved["inputs"])),
    }  # fmt: skip


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def canonical(body: Mapping[str, Any]) -> str:
    """The body as a text that is the same for the same body."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), default=str)


def _keep_refused(
    body: Mapping[str, Any], text: str, errors: tuple[dict[str, Any], ...], actor: Actor, now: datetime
) -> UUID | None:
    """The stored REJECTED job, without the secrets it held; none for a project the actor may not know of (D28)."""
    project = _project(body, actor)
    if project and not actor.sees(project):
        return None
    kept, hidden = masked(body)
    if hidden:  # the text may write them otherwise than they read, like \u0061
        text = json.dumps(kept, sort_keys=True, default=str)
    return commit.reject(
        name=_printable(kept.get("name")),
        kind=_printable(kept.get("kind")),
        raw=text.replace("\x00", "\\u0000"),
        spec=_kept(kept),
        errors=[{n: unquoted(v, hidden) if isinstance(v, str) else v for n, v in each.items()} for each in errors],
        project=project,
        user_id=actor.user_id,
        now=now,
        actor=actor.label,
    )


def _kept(body: Mapping[str, Any]) -> dict[str, Any]:
    """The refused body as it can be stored and shown in a form again; empty when it is too large for that."""
    text = json.dumps(body, default=str).replace("\\u0000", "\N{REPLACEMENT CHARACTER}")
    if len(text) > commit.RAW_LIMIT:
        return {}
    safe: dict[str, Any] = json.loads(text.encode("utf-8", "replace"), parse_constant=str)
    return safe


def _printable(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:100])
    return shown.encode("utf-8", "replace").decode().strip()


@dataclass(frozen=True, slots=True)
class Moved:
    """The state after a verb, and whether the verb made sense in the state before."""

    state: JobState
    lawful: bool


def cancel(job_id: str, actor: Actor, now: datetime, *, force: bool = False) -> Moved | None:
    """The job will stop, and its nodes are rung to hear of it now; None when the actor may not know of it."""
    job = queries.one(actor, job_id)
    if job is None:
        return None
    moved = commit.cancel(job.pk, actor=actor.label, now=now, force=force)
    notify.ring(dispatch.nodes_of(job.pk))
    return _moved(moved)


def hold(job_id: str, actor: Actor, now: datetime, *, release: bool = False) -> Moved | None:
    """The waiting job is held, or released; None when the actor may not know of it."""
    job = queries.one(actor, job_id)
    if job is None:
        return None
    return _moved(commit.hold(job.pk, actor=actor.label, now=now, release=release))


@transaction.atomic
def retry(job_id: str, actor: Actor, now: datetime) -> Accepted | Refused | KeyConflict | Moved | None:
    """A new job does the ended one again, beginning with its newest sound checkpoint; None when it may not be known.

    As long as that job goes on, asking again gives it, not another. ``Moved`` is the state in which there is nothing
    to retry: it goes on, it succeeded, or it was never accepted. A time to start that has passed is left out.
    """
    known = queries.one(actor, job_id)
    found = commit.retried(known.pk) if known is not None else None
    if found is None:
        return None
    job, going = found
    if job.state not in RETRIED:
        return Moved(JobState(job.state), lawful=False)
    if going is not None:
        return Accepted(going, fresh=False)
    body = after.again(job, body_again(job_id, actor) or {})
    past = [name for name in ("not_before", "start_by") if (at := getattr(job, name)) and at <= now]
    again = {name: value for name, value in body.items() if name not in past}
    return submit(again, actor, now, begins={"retry_of_id": job.pk, **commit.in_its_set(job), **commit.beginning(job)})


def _moved(result: tuple[JobState | None, bool]) -> Moved | None:
    state, lawful = result
    return None if state is None else Moved(state, lawful)


def body_again(job_id: str, actor: Actor) -> dict[str, Any] | None:
    """The request body that made the job (or was refused), to submit again; None when the actor may not know of it."""
    job = queries.one(actor, job_id)
    if job is None:
        return None
    return after.as_they_stand(job, {**{k: v for k, v in job.spec.items() if k != "inputs"}, "params": job.params})
