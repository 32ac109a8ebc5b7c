"""What would happen to one job more, and what is expected of one that waits? Nothing is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.core import signing

from scheduling.core.alternatives import Alternative
from scheduling.core.plan import Reason, Score, Scores
from scheduling.core.policy import Policy
from scheduling.core.preview import Preview, preview
from scheduling.core.resources import ResourceRequest, Submission
from scheduling.core.snapshot import WaitingJob
from scheduling.services import after, jobs, never, outlook, replacing
from scheduling.services.changed_fields import fields_of, whole
from scheduling.services.outlook import Foretold, Outlook, Span
from scheduling.services.reasons import JOB_NUMBERS, plain
from scheduling.services.same_work import Work, key_of
from scheduling.store.clock import from_ms, to_ms
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor
from scheduling.store.queries.evictions import in_order, inherited, is_kept, would_be_a_loop
from scheduling.store.queries.jobs import BESIDE
from scheduling.store.queries.same_work import same_as
from workers.merge_table import Row

PLANNED = "plan"  # the id of the job that is only thought of
TOKEN_AGE = timedelta(minutes=10)
_SALT = "scheduling.plan"
# Refusals that say that the pool could never hold it, or not run it as things are; every other one is a fault of what
# was written.
NEVER = frozenset(
    {"no_node", "no_capacity", "no_nvlink_group", "no_such_memory", "unsatisfiable_rule", "one_node_only"}
)

Verdict = Literal["now", "later", "never"]
_WOULD: dict[Verdict, str] = {"now": "start at once", "later": "have to wait", "never": "never start"}
REFUSED = "it would be refused, so that nothing is cancelled"
_OTHERS = "other jobs would have to make room for it"


@dataclass(frozen=True, slots=True)
class Change:
    """A change under which the job would start at ``starts_at``, at the soonest or, if ``expected``, if nothing else
    comes and all runs to its time limit: in words, and as fields of the request."""

    change: str
    starts_at: datetime
    fields: Mapping[str, Any]
    expected: bool = False


@dataclass(frozen=True, slots=True)
class InPlaceOf:
    """The job that would be cancelled for it, and why its place in the queue would not be kept; "" when it would.

    ``begins_anew``: why it would give up that one's checkpoint; "" when it would not.
    ``held``: that job is held, and so this one would be: the plan is of when it is released.
    """

    job: str
    name: str
    new_place: str
    begins_anew: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What the next pass of the scheduler would do with a job, and of a merge whose tensors differ in their values or
    models a row for each (``rows``).

    ``fate``: equal for plans of one verdict and the same victims; which GPUs it would be is not promised. ``token``:
    the promise to be held to that, "" when the job would be refused (the reasons say why). ``same``: the job that came
    to the same result, or is to, as :func:`same_as` tells of it.
    """

    verdict: Verdict
    as_of: datetime
    start: Span | None = None
    gpus: tuple[Mapping[str, Any], ...] = ()
    victims: tuple[Mapping[str, Any], ...] = ()
    gpu_hours: float = 0.0
    share: Mapping[str, Mapping[str, float | None]] | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Change, ...] = ()
    in_place_of: InPlaceOf | None = None
    same: Mapping[str, Any] | None = None
    rows: tuple[Row, ...] = ()
    fate: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Unplannable:
    """The body is no job; every reason at once, as submission would give them."""

    errors: tuple[dict[str, Any], ...]


def plan(body: Mapping[str, Any], actor: Actor, now: datetime, *, strict: bool = False) -> Planned | Unplannable:
    """What would happen if the body were submitted now. It is checked as a submission is; one that only fails because
    the pool is too small for it, or the nodes can't run it yet, is planned as ``never``.

    What ``replaces`` a waiting job is reckoned without that one, and at its place where it would be kept.
    Of a queue so large that looking at it takes long, the answer is of some seconds ago (``as_of``) unless ``strict``.
    """
    submission, resolved, errors = jobs.check(body, actor, now)
    if submission is None:
        if errors and all(error["code"] in NEVER for error in errors):
            reasons = tuple(_as_reason(error) for error in errors)
            helps = _instead(body, errors, actor, now)
            instead = _in_place_of(None, resolved, actor)
            return Planned(
                "never", now, reasons=reasons, alternatives=helps, in_place_of=instead, rows=resolved["rows"]
            )
        return Unplannable(errors)
    after_others = after.reason(resolved["before"], any_end=submission.after_any)
    if after_others is not None:
        return _after_others(after_others, submission, resolved, body, actor, now)
    with outlook.present.look(now, fresh=strict or not outlook.present.is_dear) as seen:
        found, job, here = _fate(seen, submission, actor, now, original=resolved["replaces"])
        made = _planned(found, job, here, actor)
    if not job.may_evict and made.verdict == "later" and _has_right(job, here.policy):
        made = replace(made, reasons=(inherited(resolved["replaces"], now), *made.reasons))
    instead = _in_place_of(submission, resolved, actor)
    key = key_of(Work(submission.kind, resolved["params"], resolved["inputs"]))
    same = same_as(actor, key, but="" if instead is None else instead.job)
    return replace(made, in_place_of=instead, same=same, rows=resolved["rows"], token=_token(body, made, actor, now))


def _after_others(
    reason: Mapping[str, Any],
    submission: Submission,
    resolved: Mapping[str, Any],
    body: Mapping[str, Any],
    actor: Actor,
    now: datetime,
) -> Planned:
    """The plan of what waits for other jobs first: nothing tells when these end, so nothing tells when it starts."""
    request = submission.request
    made = Planned(
        "later", now, reasons=(reason,), gpu_hours=round(request.gpu_count * request.max_duration_s / 3600, 6),
        in_place_of=_in_place_of(submission, resolved, actor), rows=resolved["rows"], fate=reason["code"],
    )  # fmt: skip
    return replace(made, token=_token(body, made, actor, now))


def _fate(
    seen: Outlook, submission: Submission, actor: Actor, now: datetime, *, original: Any
) -> tuple[Preview, WaitingJob, Outlook]:
    """What becomes of the submission, as it would wait, and the outlook that tells: ``seen``, or one without the
    original (a job's row) where there is one."""
    job = waiting_in_place_of(original, submission, actor, seen.policy, now)
    if original is None:
        over_nodes = outlook.is_over_nodes(submission.kind)
        return preview(seen.scheduler, seen.explainer, job, over_nodes=over_nodes), job, seen
    there = seen.instead(str(original.pk), job)
    found = there.fate(job, kind=submission.kind)
    if any(would_be_a_loop(original, UUID(each.job), now) for each in found.victims):
        job = replace(job, may_evict=False)
        there = seen.instead(str(original.pk), job)
        found = there.fate(job, kind=submission.kind)
    return found, job, there


def _in_place_of(submission: Submission | None, resolved: Mapping[str, Any], actor: Actor) -> InPlaceOf | None:
    """The original as the plan tells of it; no ``submission``: what was to replace it would be refused."""
    original = resolved["replaces"]
    if original is None:
        return None
    known_as, held = (str(original.pk), original.name), replacing.is_held(original)
    if submission is None:
        return InPlaceOf(*known_as, REFUSED, held=held)
    new_place = replacing.new_place(original, submission, actor)
    return InPlaceOf(*known_as, new_place, replacing.begins_anew(original, submission, resolved), held=held)


def _instead(
    body: Mapping[str, Any], errors: tuple[dict[str, Any], ...], actor: Actor, now: datetime
) -> tuple[Change, ...]:
    """Changes with which a body that the pool could never hold would start, and when at the soonest."""
    helps = never.helps(body, errors, actor, now)
    if not helps:
        return ()
    with outlook.present.look(now, fresh=not outlook.present.is_dear) as seen:
        starts = [_soonest(*_fate(seen, each.submission, actor, now, original=each.replaces)) for each in helps]
    return tuple(
        Change(each.words, start, each.fields) for each, start in zip(helps, starts, strict=True) if start is not None
    )


def _soonest(found: Preview, job: WaitingJob, seen: Outlook) -> datetime | None:
    """When the job of this preview would start at the soonest; None when nothing tells."""
    start = seen.start_of(found, job)
    return None if start is None else start.low


def foretell(job_id: str, now: datetime, *, kind: str = "") -> Foretold | None:
    """When the waiting job of that kind is expected to start, its rank, and what would help; None when it does not
    wait.

    The caller has seen to it that the actor may know of the job.
    """
    with outlook.present.look(now, must_know=job_id) as seen:
        return seen.foretell(job_id, kind=kind)


def changes(
    found: Iterable[Alternative], as_of: datetime, *, asked: ResourceRequest | None
) -> tuple[Change, ...]:  # fmt: skip
    """Alternatives to what was ``asked`` as fields of a request; each was tried, and starts at once or when it says.
    The words tell all that it gives up."""
    return tuple(
        Change(whole(each, asked), as_of if each.starts_ms is None else max(as_of, from_ms(each.starts_ms)),
               fields_of(each), each.expected)
        for each in found
    )  # fmt: skip


def waiting_in_place_of(
    original: Any, submission: Submission, actor: Actor, policy: Policy, now: datetime
) -> WaitingJob:
    """The submission as it would wait, at the place of the original (a job's row or None) where it would be kept, and
    evicting nobody as long as that one may not."""
    job = _waiting_as(submission, actor, policy, now)
    if original is None:
        return job
    job = replace(job, may_evict=not is_kept(original, now))
    if replacing.new_place(original, submission, actor):
        return job
    return replace(job, submitted_ms=to_ms(original.submitted_at))


def _has_right(job: WaitingJob, policy: Policy) -> bool:
    """Whether the rules let jobs of its level evict others."""
    return any((rule.queue, rule.level) == (job.queue, job.level) for rule in policy.preemption)


def _waiting_as(submission: Submission, actor: Actor, policy: Policy, now: datetime) -> WaitingJob:
    queue = policy.queue(submission.queue)
    level = queue.level(submission.level) if queue else None
    if level is None:
        raise ValueError(f"a valid submission names a level that there is, not {submission.level!r}")
    return WaitingJob(
        id=PLANNED, queue=submission.queue, level=level.name, level_value=level.value, project=submission.project,
        user=actor.username, submitted_ms=to_ms(now), request=submission.request,
        remaining_s=submission.request.max_duration_s, not_before_ms=_ms(submission.not_before) or 0,
        start_by_ms=_ms(submission.start_by), group=submission.group, preemptible=submission.preemptible,
    )  # fmt: skip


def _ms(text: str | None) -> int | None:
    return to_ms(datetime.fromisoformat(text)) if text else None


def _planned(found: Preview, job: WaitingJob, seen: Outlook, actor: Actor) -> Planned:
    """The preview as everyone may see it; what must not start yet starts later though its GPUs are free."""
    now_ms = seen.plan.now_ms
    verdict: Verdict = "later" if job.due_ms > now_ms and found.verdict == "now" else found.verdict
    return Planned(
        verdict,
        seen.as_of,
        start=seen.start_of(found, job),
        gpus=tuple(_gpu(seen, uuid) for uuid in found.gpus),
        victims=_victims(found, actor),
        gpu_hours=round(found.gpu_h, 6),
        share=_effect(found.before, found.after),
        reasons=reasons_for(actor, found.reasons),
        alternatives=changes(found.alternatives, seen.as_of, asked=job.request),
        fate=_sha256(json.dumps([verdict, sorted(each.job for each in found.victims)])),
    )


def _gpu(seen: Outlook, uuid: str) -> dict[str, Any]:
    pool = seen.scheduler.pool
    gpu = pool.gpu_by_uuid[uuid]
    return {"node": gpu.node, "uuid": uuid, "index": gpu.index, "model": gpu.model,
            "nvlink_group_id": gpu.nvlink_group_id, "rack_id": pool.node_by_name[gpu.node].rack_id}  # fmt: skip


def _victims(found: Preview, actor: Actor) -> tuple[dict[str, Any], ...]:
    """Whom it would evict, the ones that the actor may not know of without id and name."""
    names = known.names(actor, [each.job for each in found.victims])
    return tuple(
        {"job": each.job if each.job in names else None, "name": names.get(each.job), "gpus": each.gpus,
         "lost_gpu_s": each.lost_gpu_s, "if_saved": each.if_saved}
        for each in found.victims
    )  # fmt: skip


def reasons_for(actor: Actor, reasons: Iterable[Reason]) -> tuple[dict[str, Any], ...]:
    """The reasons as JSON has them, without the ids of jobs that the actor may not know of."""
    rows = [plain(reason) for reason in reasons]
    ids = {row["numbers"][name] for row in rows for name in JOB_NUMBERS if name in row["numbers"]}
    names = known.names(actor, sorted(ids))
    for row in rows:
        row["numbers"] = {k: v for k, v in row["numbers"].items() if k not in JOB_NUMBERS or v in names}
    return tuple(rows)


def told_now(actor: Actor, reasons: Iterable[Reason], job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reasons of this instant in the place of those that the last tick found, with what else ``job`` (as REST has
    it) tells of itself."""
    return in_order([*reasons_for(actor, reasons), *(each for each in job["reasons"] if each["code"] in BESIDE)])


def _as_reason(error: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {"field": error["field"], "limit": error.get("limit"), "limits": error.get("limits")}
    return {"code": str(error["code"]).upper(), "message": error["message"],
            "numbers": {name: value for name, value in numbers.items() if value is not None}}  # fmt: skip


def _effect(before: Scores | None, after: Scores | None) -> dict[str, dict[str, float | None]] | None:
    """What the job does to its three ledgers."""
    if before is None or after is None:
        return None
    pairs: dict[str, tuple[Score, Score]] = {
        "queue": (before.queue, after.queue), "project": (before.project, after.project),
        "user": (before.user, after.user),
    }  # fmt: skip
    return {
        name: {
            "target_gpu_h": round(then.target_gpu_h, 4),
            "used_before_gpu_h": round(then.consumed_gpu_h, 4),
            "used_after_gpu_h": round(later.consumed_gpu_h, 4),
            "score_before": None if then.score is None else round(then.score, 6),
            "score_after": None if later.score is None else round(later.score, 6),
        }
        for name, (then, later) in pairs.items()
    }


# ---------------------------------------------------------------- the token of a plan


def _token(body: Mapping[str, Any], made: Planned, actor: Actor, now: datetime) -> str:
    kept = {"body": _digest(body), "user": actor.user_id, "verdict": made.verdict, "fate": made.fate, "at": to_ms(now)}
    return signing.dumps(kept, salt=_SALT)


def _digest(body: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(body, sort_keys=True, separators=(",", ":"), default=str))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def broken_promise(token: str, body: Mapping[str, Any], actor: Actor, now: datetime) -> str | None:
    """Why a submission of the body can't be held to the plan of this token any more; None while it can.

    A body that is refused breaks no promise: the refusal tells more.
    """
    try:
        kept = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        return "the plan_token is none of ours; plan again and submit with the new one"
    if (kept["user"], kept["body"]) != (actor.user_id, _digest(body)):
        return "the plan_token was given for another body or person; plan this body and submit with the new one"
    if to_ms(now) - kept["at"] > TOKEN_AGE.total_seconds() * 1000:
        minutes = round(TOKEN_AGE.total_seconds() / 60)
        return f"the plan_token is older than {minutes} minutes; plan again and submit with the new one"
    again = plan(body, actor, now, strict=True)
    if isinstance(again, Unplannable) or again.fate == kept["fate"]:
        return None
    was, is_ = kept["verdict"], again.verdict
    turn = f"by the plan it would {_WOULD[was]}, now it would {_WOULD[is_]}" if was != is_ else _OTHERS
    return f"circumstances have changed: {turn}; look at a new plan and submit with its token, or without one"
