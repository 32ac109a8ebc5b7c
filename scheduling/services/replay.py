"""What would a change of the policy or the pool do to everything that waits? Played out in a process of its own."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from scheduling.core.fields import shown
from scheduling.core.policy import Policy
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob
from scheduling.services import jobs, replacing, whatif
from scheduling.services.replay_change import Errors, asked_faults, changed_policy, changed_pool, unknown_fields, wrong
from scheduling.simulation.comparison import Change, Difference, Future, Moved, Stopped, answer
from scheduling.simulation.idle import SAVES_AT_ONCE, idle_rules, idle_values
from scheduling.simulation.runtime import SimJob
from scheduling.store import load
from scheduling.store.queries import known
from scheduling.store.queries.access import Actor

FIELDS = ("policy", "add_nodes", "remove_nodes", "faults", "job")
LIMIT_S = 60.0
MAX_TOLD = 200
NEVER_MS = 1 << 62
SAME = "both futures came out the same: the change moves no job that waits or runs now"
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


def replay(
    body: Mapping[str, Any], actor: Actor, now: datetime, unusable: Sequence[dict[str, Any]] = ()
) -> dict[str, Any] | Unplayable | Busy | TooLong:
    """Both futures of what waits now and what differs, as REST has it. Nothing is stored, and the server goes on.

    Every job runs for what is left of its ``max_duration``, and no other comes. ``unusable``: errors of values that no
    field takes, found by who read the body.
    """
    present = load.snapshot(now)
    asked = change_of(body, present, actor, now, unusable)
    if isinstance(asked, Unplayable):
        return asked
    change, whose_place = asked
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        return Busy()
    try:
        found = apart(change, limit_s=LIMIT_S)
    finally:
        _ONE_AT_A_TIME.release()
    if isinstance(found, TooLong):
        return found
    notes = [
        *idle_values(present.policy, body.get("policy", {})),
        *idle_rules(present.policy, change.policy, saving=SAVES_AT_ONCE),
        *([SAME] if found.is_none else ()),
        *whose_place,
    ]
    return {**_shown(found, actor, now), "notes": notes}


def change_of(
    body: Mapping[str, Any], present: Snapshot, actor: Actor, now: datetime, unusable: Sequence[dict[str, Any]] = ()
) -> tuple[Change, list[str]] | Unplayable:
    """The body as a change of the present, with what is to be said of the job that its job replaces; every fault of it
    at once. What is ``unusable`` is told in those words only."""
    errors = unknown_fields(body, FIELDS)
    policy = changed_policy(body.get("policy", {}), present.policy, present.pool, errors)
    pool = changed_pool(body, present.pool, errors)
    faults = asked_faults(body, pool, present.pool, present.now_ms, errors)
    extra, original, whose_place = _extra(body, actor, present.policy, now, errors)
    if not errors and not any(body.get(name) for name in FIELDS):
        errors.append(wrong("", "no_change", f"name at least one change: {', '.join(FIELDS)}", list(FIELDS)))
    told = {each["field"] for each in unusable}
    errors = [*unusable, *(each for each in errors if each["field"] not in told)]
    if errors:
        return Unplayable(tuple(errors[:MAX_TOLD]))
    asked = known.requests([live.job for live in present.live])
    running = tuple(_running(live, asked[live.job]) for live in present.live)
    return Change(present, running, policy, pool, faults, extra, original), whose_place


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


def _extra(
    body: Mapping[str, Any], actor: Actor, policy: Policy, now: datetime, errors: Errors
) -> tuple[SimJob | None, str | None, list[str]]:
    """The job more, the id of the one that it replaces, and what is to be said of that one."""
    if "job" not in body:
        return None, None, []
    job = body["job"]
    if not isinstance(job, Mapping):
        errors.append(wrong("job", "not_an_object", f"job must be the body of a submission, not {shown(job)}"))
        return None, None, []
    submission, resolved, refused = jobs.check(job, actor, now)
    errors += [{**error, "field": f"job.{error['field']}".rstrip(".")} for error in refused]
    if submission is None:
        return None, None, []
    original = resolved["replaces"]
    extra = SimJob(whatif.waiting_in_place_of(original, submission, actor, policy, now))
    if original is None:
        return extra, None, []
    return extra, str(original.pk), [replacing.told(original, submission, actor)]


def _running(live: LiveAttempt, asked: tuple[int, ResourceRequest]) -> SimJob:
    """The live job as it would wait at its old place if it had to start again.

    ``asked``: when it was submitted, in ms, and for what.
    """
    submitted, request = asked
    seconds = max(1, -(-(live.end_ms - live.granted_ms) // 1000))
    return SimJob(
        WaitingJob(
            id=live.job, queue=live.queue, level=live.level, level_value=live.level_value, project=live.project,
            user=live.user, submitted_ms=submitted, request=replace(request, max_duration_s=seconds),
            remaining_s=seconds, group=live.group, preemptible=live.preemptible,
        )
    )  # fmt: skip


def _shown(found: Difference, actor: Actor, now: datetime) -> dict[str, Any]:
    told, stopped = found.moved[:MAX_TOLD], found.stopped[:MAX_TOLD]
    ids = dict.fromkeys([each.job for each in told] + [each.job for each in stopped])
    names = known.names(actor, [job for job in ids if job != whatif.PLANNED])
    # Without a start in one of the futures, it is put off for ever there.
    later = sum(1 for each in found.moved if (each.after_ms or NEVER_MS) > (each.before_ms or NEVER_MS))
    return {
        "as_of": now,
        "before": _side(found.before),
        "after": _side(found.after),
        "sooner": len(found.moved) - later,
        "later": later,
        "jobs": [_row(each, names) for each in told],
        "stopped": [_stopped_row(each, names) for each in stopped],
        "extra_job": None if found.extra is None else _row(found.extra, {}),
    }


def _side(future: Future) -> dict[str, Any]:
    return {
        **asdict(future.waits),
        "makespan_s": future.makespan_s,
        "preemptions": future.preemptions,
        "interrupted": future.interrupted,
        "again": asdict(future.again),
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


def _stopped_row(stopped: Stopped, names: Mapping[str, str]) -> dict[str, Any]:
    before, after = stopped.before, stopped.after
    return {
        "job": stopped.job if stopped.job in names else None,
        "name": names.get(stopped.job),
        "priority": stopped.level,
        "stops_before": before.times,
        "stops_after": after.times,
        "waits_again_before_s": before.waits_again_s,
        "waits_again_after_s": after.waits_again_s,
        "ends_before": _moment(before.ends_ms),
        "ends_after": _moment(after.ends_ms),
    }


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, tz=UTC)
