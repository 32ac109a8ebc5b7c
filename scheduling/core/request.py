"""Is this request valid? Every reason at once, each naming the field, the limit and what to do.

``raw`` is the decoded body of ``POST /jobs/``; the form posts the same. ``params`` are the catalog's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from scheduling.core.after import read_after
from scheduling.core.demand import read_resources
from scheduling.core.fields import KNOWN, Fields, nearest, shown
from scheduling.core.instants import as_instant, read_times
from scheduling.core.naming import check_replaces, read_name
from scheduling.core.policy import Level, Policy, QueuePolicy
from scheduling.core.pool import Pool
from scheduling.core.resources import AffinityTerm, FieldError, ResourceRequest, Rights, Submission
from scheduling.core.units import parse_duration, parse_memory
from scheduling.core.unusable import broken_texts

__all__ = [
    "AffinityTerm",
    "FieldError",
    "ResourceRequest",
    "Rights",
    "Submission",
    "parse_duration",
    "parse_memory",
    "validate",
]

MAX_BROKEN = 50  # a body of nothing but broken texts would be answered with as many errors


def validate(
    raw: Mapping[str, object],
    *,
    policy: Policy,
    pool: Pool,
    rights: Rights,
    kinds: Mapping[str, str],
    now_ms: int,
    over_nodes: bool = True,
) -> tuple[Submission | None, tuple[FieldError, ...]]:
    """The submission and no errors, or None and everything that is wrong, in the order of the fields.

    ``kinds`` maps each kind of job to its default queue; ``now_ms`` is the present, after which a job must be able to
    start. While the pool has no node at all nothing is refused for want of capacity (D14). ``over_nodes``: whether
    jobs that lie on several nodes are taken; every limit that is told is one that is accepted then.
    """
    fields = Fields(raw)
    fields.refuse_unknown(KNOWN)
    kind = _kind(fields, kinds)
    project = _project(fields, rights)
    queue = _queue(fields, policy, kinds.get(kind or ""))
    purpose = _purpose(fields, policy)
    level = _level(fields, policy, rights, queue, purpose)
    name, group = read_name(fields, "name", default=kind or "job"), read_name(fields, "group", default=None)
    request = read_resources(fields, policy, pool, queue=queue, over_nodes=over_nodes)
    not_before, start_by = read_times(fields, now_ms)
    retries = fields.whole("retries", default=0, least=0, most=policy.max_retries)
    preemptible = _preemptible(fields, rights)
    raw_params = _params(fields)
    check_replaces(fields)
    after, after_any = read_after(fields)
    if fields.errors or kind is None or project is None or queue is None or level is None or name is None:
        return None, fields.in_order()
    if request is None or retries is None or preemptible is None:
        raise AssertionError("a part of the request is missing, yet no error says so")
    submission = Submission(
        name=name,
        kind=kind,
        project=project,
        queue=queue.name,
        level=level.name,
        request=request,
        params=raw_params,
        group=group,
        retries=retries,
        preemptible=preemptible,
        purpose=purpose,
        after=after,
        after_any=after_any,
        not_before=None if not_before is None else as_instant(not_before),
        start_by=None if start_by is None else as_instant(start_by),
        max_wait_for_level=request.max_wait_for_level_s,
    )
    return submission, ()


def _kind(fields: Fields, kinds: Mapping[str, str]) -> str | None:
    known = tuple(sorted(kinds))
    value = fields.value("kind")
    if value is None:
        fields.refuse("kind", "required", f"say which kind of job: {', '.join(known)}", known)
        return None
    if not isinstance(value, str) or value not in kinds:
        message = f"there is no kind {shown(value)}{nearest(value, known)}; the kinds are {', '.join(known)}"
        fields.refuse("kind", "unknown_kind", message, known)
        return None
    return value


def _project(fields: Fields, rights: Rights) -> str | None:
    # One may not learn that a project exists by guessing its name, so "not a member" reads like "no such project".
    known = tuple(sorted(rights.projects))
    value = fields.value("project")
    if value is None:
        if len(known) == 1:
            return known[0]
        yours = f": {', '.join(known)}" if known else "; ask for membership of one first"
        fields.refuse("project", "required", f"say which of your projects the job belongs to{yours}", known)
        return None
    if not isinstance(value, str) or value not in known:
        yours = f"your projects are {', '.join(known)}" if known else "you are not a member of any project"
        message = f"there is no project {shown(value)} that you belong to{nearest(value, known)}; {yours}"
        fields.refuse("project", "unknown_project", message, known)
        return None
    return value


def _queue(fields: Fields, policy: Policy, default: str | None) -> QueuePolicy | None:
    known = tuple(queue.name for queue in policy.queues)
    value = fields.value("queue")
    if value is None:
        value = default
        if value is None:  # the kind is wrong, and that has been said
            return None
    queue = policy.queue(value) if isinstance(value, str) else None
    if queue is None:
        message = f"there is no queue {shown(value)}{nearest(value, known)}; the queues are {', '.join(known)}"
        fields.refuse("queue", "unknown_queue", message, known)
        return None
    return queue


def _purpose(fields: Fields, policy: Policy) -> str | None:
    value = fields.value("purpose")
    if value is None or value in policy.purposes:
        return value if isinstance(value, str) else None
    known = ", ".join(policy.purposes)
    message = (
        f"there is no purpose {shown(value)}{nearest(value, policy.purposes)}; leave it out or give one of {known}"
    )
    fields.refuse("purpose", "unknown_purpose", message, policy.purposes)
    return None


def _level(
    fields: Fields, policy: Policy, rights: Rights, queue: QueuePolicy | None, purpose: str | None
) -> Level | None:
    value = fields.value("priority")
    if queue is None:
        _refuse_level_of_no_queue(fields, policy, value)
        return None
    known = tuple(level.name for level in queue.levels)
    level = queue.level(queue.default_level if value is None else value) if isinstance(value, str | None) else None
    if level is None:
        message = (
            f"queue {queue.name} has no priority {shown(value)}{nearest(value, known)}; its priorities are "
            f"{', '.join(known)}"
        )
        fields.refuse("priority", "unknown_level", message, known)
        return None
    allowed = tuple(name.name for name in queue.levels if may_ask(policy, rights, name))
    if not may_ask(policy, rights, level):
        message = f"you may not ask for priority {level.name} in queue {queue.name}; you may ask for "
        message += f"{', '.join(allowed) or 'none'}, or have an admin give you {_lacking(policy, rights, level)}"
        fields.refuse("priority", "priority_not_permitted", message, allowed)
        return None
    if level.name in policy.purpose_levels and purpose is None and fields.value("purpose") is None:
        message = f"priority {level.name} needs a purpose: {' or '.join(policy.purposes)}"
        fields.refuse("purpose", "purpose_required", message, policy.purposes)
        return None
    return level


def _lacking(policy: Policy, rights: Rights, level: Level) -> str:
    """What somebody needs to ask for the level, and an admin can give."""
    needs = []
    if level.name in policy.permission_levels and not rights.may_critical:
        needs.append("the permission submit_critical (and your token the scope jobs:submit:critical)")
    if level.value > rights.levels_cap:
        needs.append(f"a level cap of {level.value} in the project")
    return " and ".join(needs)


def _refuse_level_of_no_queue(fields: Fields, policy: Policy, value: object) -> None:
    """Which queue is meant is unknown; a priority that none of them has is wrong all the same."""
    known = tuple(dict.fromkeys(level.name for queue in policy.queues for level in queue.levels))
    if value is None or (isinstance(value, str) and any(queue.level(value) for queue in policy.queues)):
        return
    message = f"no queue has a priority {shown(value)}{nearest(value, known)}; the priorities are {', '.join(known)}"
    fields.refuse("priority", "unknown_level", message, known)


def may_ask(policy: Policy, rights: Rights, level: Level) -> bool:
    """Whether a job may have the priority: it is not above the cap, nor one that needs a permission that isn't held."""
    return level.value <= rights.levels_cap and (rights.may_critical or level.name not in policy.permission_levels)


def _preemptible(fields: Fields, rights: Rights) -> bool | None:
    value = fields.flag("preemptible", default=True)
    if value is False and not rights.may_unpreemptible:
        message = (
            "a job that is never preempted needs the permission submit_unpreemptible, which an admin can give; leave "
            "preemptible out or true"
        )
        fields.refuse("preemptible", "not_permitted", message, True)
        return None
    return value


def _params(fields: Fields) -> Mapping[str, object]:
    """The parameters as they came; here only their texts are judged, since what can't be kept can't be told either."""
    value = fields.value("params")
    for path, why in islice(broken_texts(value, "params"), MAX_BROKEN):
        fields.refuse(path, "bad_character", f"{path} {why}")
    return value if isinstance(value, Mapping) else {}
