"""What would a change of the policy or the pool do to everything that waits? Played out in a process of its own."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob
from scheduling.services import jobs, whatif
from scheduling.simulation.comparison import Change, Difference, Future, Moved, answer, fewer_nodes, more_nodes
from scheduling.simulation.faults import Fault
from scheduling.simulation.policy_patch import PatchError, patched
from scheduling.simulation.runtime import SimJob
from scheduling.store import load
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor

FIELDS = ("policy", "add_nodes", "remove_nodes", "faults", "job")
LIMIT_S = 60.0
MAX_ADDED, MAX_FAULTS, MAX_TOLD = 1000, 100, 200
MAX_AFTER_S = 366 * 86_400.0
NEVER_MS = 1 << 62
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Unplayable:
    """The change can't be made; every reason at once."""

    errors: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Busy:
    """Another replay runs in this process."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """It was stopped at the limit, or its process died."""

    message: str
    limit_s: float


def replay(body: Mapping[str, Any], actor: Actor, now: datetime) -> dict[str, Any] | Unplayable | Busy | TooLong:
    """Both futures of what waits now and what differs, as REST has it. Nothing is stored, and the server goes on.

    Every job runs for what is left of its ``max_duration``, and no other comes.
    """
    present = load.snapshot(now)
    change = change_of(body, present, actor, now)
    if isinstance(change, Unplayable):
        return change
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        return Busy()
    try:
        found = apart(change, limit_s=LIMIT_S)
    finally:
        _ONE_AT_A_TIME.release()
    return found if isinstance(found, TooLong) else _shown(found, actor, now)


def change_of(body: Mapping[str, Any], present: Snapshot, actor: Actor, now: datetime) -> Change | Unplayable:
    """The body as a change of the present; every fault of it at once."""
    errors: list[dict[str, Any]] = []
    if not any(body.get(name) for name in FIELDS):
        errors.append(_wrong("", "no_change", f"name at least one change: {', '.join(FIELDS)}", FIELDS))
    policy = _policy(body.get("policy"), present.policy, errors)
    pool = _pool(body, present.pool, errors)
    faults = _faults(body.get("faults"), pool, present.now_ms, errors)
    extra = _extra(body.get("job"), actor, present.policy, now, errors)
    if errors:
        return Unplayable(tuple(errors))
    asked = known.requests([live.job for live in present.live])
    running = tuple(_running(live, asked) for live in present.live)
    return Change(present, running, policy, pool, faults, extra)


def apart(change: Change, *, limit_s: float) -> Difference | TooLong:
    """Both futures, from a process of its own, which is ended when ``limit_s`` have passed."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(there, change), daemon=True)
    child.start()
    there.close()
    try:
        if not here.poll(limit_s):
            return TooLong(f"it took longer than {limit_s:g} s and was stopped; ask again when less waits", limit_s)
        found: Difference = here.recv()
        return found
    except EOFError:
        return TooLong("its process died; ask again, and look in the server's log if it stays so", limit_s)
    finally:
        child.kill()
        child.join()
        here.close()


def _wrong(field: str, code: str, message: str, limit: Any = None) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message,
            "limit": list(limit) if isinstance(limit, tuple) else limit}  # fmt: skip


def _policy(patch: Any, policy: Policy, errors: list[dict[str, Any]]) -> Policy:
    if patch is None:
        return policy
    if not isinstance(patch, Mapping):
        errors.append(_wrong("policy", "not_an_object", 'policy must be an object like {"half_life_s": 86400}'))
        return policy
    try:
        return patched(policy, patch)
    except PatchError as wrong:
        errors.append(_wrong("policy", "bad_policy", str(wrong)))
        return policy


def _pool(body: Mapping[str, Any], pool: Pool, errors: list[dict[str, Any]]) -> Pool:
    there = sorted(pool.node_by_name)
    gone = body.get("remove_nodes") or []
    if not isinstance(gone, list) or not all(_is_of(pool, name) for name in gone):
        message = f"remove_nodes must be a list of nodes that there are: {', '.join(there) or 'none'}"
        errors.append(_wrong("remove_nodes", "no_such_node", message, there))
        gone = []
    made = fewer_nodes(pool, set(gone))
    more = body.get("add_nodes") or []
    for place, each in enumerate(more if isinstance(more, list) else [more]):
        like, count = (each.get("like"), each.get("count")) if isinstance(each, Mapping) else (None, None)
        whole = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MAX_ADDED
        if not _is_of(made, like) or not whole:
            message = (
                'add_nodes must be a list of {"like": a node that stays, "count": a whole number from 1 to '
                f"{MAX_ADDED}}}; nodes are {', '.join(sorted(made.node_by_name)) or 'none'}"
            )
            errors.append(_wrong(f"add_nodes.{place}", "bad_nodes", message, MAX_ADDED))
        else:
            made = more_nodes(made, str(like), int(count or 0))
    return made


def _faults(given: Any, pool: Pool, now_ms: int, errors: list[dict[str, Any]]) -> tuple[Fault, ...]:
    found: list[Fault] = []
    if given is not None and (not isinstance(given, list) or len(given) > MAX_FAULTS):
        errors.append(_wrong("faults", "bad_faults", f"faults must be a list of at most {MAX_FAULTS}", MAX_FAULTS))
        return ()
    for place, each in enumerate(given or []):
        row = each if isinstance(each, Mapping) else {}
        node, after, back = row.get("node"), _ms(row.get("after_s", 0)), _ms(row.get("back_after_s"))
        never = row.get("back_after_s") is None
        if not _is_of(pool, node) or after is None or not (never or (back is not None and back > after)):
            message = (
                'a fault is {"node": one there is, "after_s": seconds from now, "back_after_s": later than that, or '
                f"null for never}}; seconds go up to {MAX_AFTER_S:g}"
            )
            errors.append(_wrong(f"faults.{place}", "bad_fault", message, MAX_AFTER_S))
            continue
        repaired = None if back is None else now_ms + back
        found.append(Fault(now_ms + after, node=str(node), repaired_ms=repaired))
    return tuple(found)


def _is_of(pool: Pool, name: Any) -> bool:
    return isinstance(name, str) and name in pool.node_by_name


def _ms(seconds: Any) -> int | None:
    """The milliseconds of a number of seconds within the limits; None for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_AFTER_S:
        return None
    return round(seconds * 1000)


def _extra(
    body: Any, actor: Actor, policy: Policy, now: datetime, errors: list[dict[str, Any]]
) -> SimJob | None:  # fmt: skip
    if body is None:
        return None
    if not isinstance(body, Mapping):
        errors.append(_wrong("job", "not_an_object", "job must be the body of a submission"))
        return None
    submission, _, wrong = jobs.check(body, actor, now, to_run=False)
    errors += [{**error, "field": f"job.{error['field']}"} for error in wrong]
    return None if submission is None else SimJob(whatif.waiting_as(submission, actor, policy, now))


def _running(live: LiveAttempt, asked: Mapping[str, Any]) -> SimJob:
    """The live job as it would wait if it had to start again."""
    seconds = max(1, -(-(live.end_ms - live.granted_ms) // 1000))
    return SimJob(
        WaitingJob(
            id=live.job, queue=live.queue, level=live.level, level_value=live.level_value, project=live.project,
            user=live.user, submitted_ms=live.granted_ms, request=replace(asked[live.job], max_duration_s=seconds),
            remaining_s=seconds, group=live.group, preemptible=live.preemptible,
        )
    )  # fmt: skip


def _shown(found: Difference, actor: Actor, now: datetime) -> dict[str, Any]:
    told = found.moved[:MAX_TOLD]
    names = known.names(actor, [each.job for each in told])
    # Without a start in one of the futures, it is put off for ever there.
    later = sum(1 for each in found.moved if (each.after_ms or NEVER_MS) > (each.before_ms or NEVER_MS))
    return {
        "as_of": now,
        "before": _side(found.before),
        "after": _side(found.after),
        "sooner": len(found.moved) - later,
        "later": later,
        "jobs": [_row(each, names) for each in told],
        "extra_job": None if found.extra is None else _row(found.extra, {}),
    }


def _side(future: Future) -> dict[str, Any]:
    return {
        **asdict(future.waits),
        "makespan_s": future.makespan_s,
        "preemptions": future.preemptions,
        "interrupted": future.interrupted,
        "classes": {level: asdict(waits) for level, waits in future.classes.items()},
    }


def _row(moved: Moved, names: Mapping[str, str]) -> dict[str, Any]:
    before, after = moved.before_ms, moved.after_ms
    return {
        "job": moved.job if moved.job in names else None,
        "name": names.get(moved.job),
        "priority": moved.level,
        "before": _moment(before),
        "after": _moment(after),
        "later_s": None if before is None or after is None else (after - before) / 1000,
    }


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, tz=UTC)
