"""What would a change have done to the last days? Asked for, played by a worker off the job path, kept for a while."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any, Protocol, cast
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from scheduling.core.fields import shown
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.services import now as present
from scheduling.services import past as history
from scheduling.services.replay_change import Errors, changed_policy, changed_pool, unknown_fields, wrong
from scheduling.simulation import days as figures
from scheduling.simulation.idle import idle_values
from scheduling.simulation.past import played
from scheduling.store import load
from scheduling.store.commit import whatif_rows
from scheduling.store.queries import past as rows
from scheduling.store.queries.access import Actor

log = structlog.get_logger(__name__)
CHANGES = ("policy", "add_nodes", "remove_nodes")
FIELDS = ("days", *CHANGES)
DEFAULT_DAYS, MAX_DAYS = 7, 31
MAX_GOING = 3  # replays of one person that wait or run
MAX_TOLD = 50
PARTS = 96  # of the time, for the charts
TELLS_EVERY_S = 0.5
SILENT_S = 300.0
LOST_AFTER_S = 20.0
BROKEN = "its worker ended before it was done; ask again, and look in the worker's log if it stays so"
SAME = "Both sides came out the same: in these days the change would have moved no job."
Clock = Callable[[], datetime]


class Mailbox(Protocol):
    """Whoever brings a replay to a worker: never raises."""

    def send(self, run: str) -> None:
        """A worker will play it."""


@dataclass(frozen=True, slots=True)
class Unplayable:
    """The replay can't be made; every reason at once."""

    errors: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TooMany:
    """So many of the person's replays wait or run already."""

    message: str
    limit: int


class _Stopped(Exception):
    """Somebody has cancelled the replay, or it is thought dead."""


class _TooLong(Exception):
    """It has taken as long as it may."""


def most_days() -> int:
    """How many days can be played again: no more than events are kept."""
    return max(1, min(MAX_DAYS, int(settings.EVENT_RETENTION_DAYS)))


def node_names() -> list[str]:
    """The nodes that can be taken away, or that others can be like."""
    return sorted(load.pool_of().node_by_name)


def ask(
    body: Mapping[str, Any], actor: Actor, now: datetime, unusable: Sequence[dict[str, Any]] = ()
) -> UUID | Unplayable | TooMany:
    """The replay's id; a worker will take it up. ``unusable``: errors of values that no field takes, found by who read
    the body."""
    errors = list(_wrong(body, now))
    told = {each["field"] for each in unusable}
    errors = [*unusable, *(each for each in errors if each["field"] not in told)]
    if errors:
        return Unplayable(tuple(errors[:MAX_TOLD]))
    if whatif_rows.going(actor.user_id) >= MAX_GOING:
        message = f"{MAX_GOING} of your replays wait or run; wait for one to end, or cancel it"
        return TooMany(message, MAX_GOING)
    change = {name: body[name] for name in CHANGES if body.get(name)}
    run = whatif_rows.add(actor, body.get("days", DEFAULT_DAYS), change, now)
    transaction.on_commit(partial(_send, str(run)))
    return run


def cancel(run: UUID, actor: Actor, now: datetime) -> bool:
    """The replay is cancelled, or was over already; False for one that the actor may not know of."""
    if not whatif_rows.visible(actor).filter(pk=run).exists():
        return False
    whatif_rows.cancel(run, now)
    return True


def play(run: str, clock: Clock = present) -> str:
    """The replay is played and its result kept; returns how it ended, "" when it was not to be played (any more)."""
    key = UUID(run)
    row = whatif_rows.one(key)
    if row is None or not whatif_rows.take_up(key, clock()):
        return ""
    try:
        result = _result(key, row.change, row.days, row.created_at, clock)
    except _Stopped:
        whatif_rows.ended(key, clock())
        return "cancelled"
    except _TooLong:
        whatif_rows.ended(key, clock(), error=_too_long())
        return "too long"
    except _Changed as refused:
        whatif_rows.ended(key, clock(), error=f"the change can't be made any more: {refused}")
        return "refused"
    except Exception as broken:
        log.exception("what-if broke", run=run)
        whatif_rows.ended(key, clock(), error=f"it broke ({type(broken).__name__}); the worker's log says where")
        return "broken"
    whatif_rows.ended(key, clock(), result=result)
    return "done"


def look_after(now: datetime) -> list[str]:
    """Replays that were not heard of for long are broken, old ones are gone; those that nobody has taken up are sent
    again and returned."""
    whatif_rows.give_up(now, silent_s=SILENT_S, error=BROKEN)
    whatif_rows.remove(now, days=settings.WHAT_IF_KEEP_DAYS)
    left = [str(run) for run in whatif_rows.waiting(now, longer_s=LOST_AFTER_S)]
    for run in left:
        _send(run)
    return left


def _send(run: str) -> None:
    cast(Mailbox, import_module(settings.WHAT_IF_MAILBOX)).send(run)


class _Changed(Exception):
    """What the change names is there no more."""


def _wrong(body: Mapping[str, Any], now: datetime) -> Sequence[dict[str, Any]]:
    """Every fault of the body."""
    errors = unknown_fields(body, FIELDS)
    days, most = body.get("days", DEFAULT_DAYS), most_days()
    whole = isinstance(days, int) and not isinstance(days, bool)
    if not whole or not 1 <= days <= most:
        errors.append(
            wrong("days", "bad_days", f"days must be a whole number from 1 to {most}, not {shown(days)}", most)
        )
    policy, pool = load.policy_of(), load.pool_of()
    _changed(body, policy, pool, errors)
    if not errors and not any(body.get(name) for name in CHANGES):
        errors.append(wrong("", "no_change", f"name at least one change: {', '.join(CHANGES)}", list(CHANGES)))
    if not errors:
        jobs, limit = rows.count(now - timedelta(days=days), now), int(settings.WHAT_IF_MAX_JOBS)
        if jobs > limit:
            message = f"{jobs:,} jobs lie in {days} days, and a replay may have {limit:,}; ask for fewer days"
            errors.append(wrong("days", "too_many_jobs", message, limit))
    return errors


def _changed(body: Mapping[str, Any], policy: Policy, pool: Pool, errors: Errors) -> tuple[Policy, Pool]:
    made = changed_policy(body.get("policy", {}), policy, pool, errors)
    return made, changed_pool(body, pool, errors)


def _too_long() -> str:
    return f"it took longer than {settings.WHAT_IF_LIMIT_S:g} s and was stopped; ask for fewer days"


def _result(run: UUID, change: Mapping[str, Any], days: int, until: datetime, clock: Clock) -> dict[str, Any]:
    """What comes out, as JSON: what really was, both tellings, and who moved."""
    policy = load.policy_of()
    known = history.recorded(until, days=days, policy=policy)
    errors: Errors = []
    then, pool = _changed(change, policy, known.pool, errors)
    if errors:
        raise _Changed("; ".join(error["message"] for error in errors[:3]))
    from_ms, until_ms = known.past.begin.now_ms, known.past.until_ms
    watch = _Progress(run, [job.waiting.submitted_ms for job in known.past.jobs], clock)
    before = played(known.past, policy, known.pool, watch.side(0))
    after = played(known.past, then, pool, watch.side(1))
    watch.tell(2 * watch.jobs)
    gpus, gpus_after = len(known.pool.installed), len(pool.installed)
    sides = {
        "recorded": figures.told(known.really, from_ms=from_ms, until_ms=until_ms, gpus=gpus, parts=PARTS),
        "before": figures.told(before, from_ms=from_ms, until_ms=until_ms, gpus=gpus, parts=PARTS),
        "after": figures.told(after, from_ms=from_ms, until_ms=until_ms, gpus=gpus_after, parts=PARTS),
    }
    moved = figures.moved(before, after, from_ms=from_ms, until_ms=until_ms)
    same = not moved["jobs"] and sides["before"] == sides["after"]
    idle = [f"{note[:1].upper()}{note[1:]}." for note in idle_values(policy, change.get("policy", {}))]
    notes = [*([SAME] if same else ()), *idle, *known.notes]
    return {"from_ms": from_ms, "until_ms": until_ms, **sides, "moved": moved, "notes": notes}


class _Progress:
    """Tells how far a replay is, now and then, and ends it when it is cancelled or takes too long."""

    def __init__(self, run: UUID, submitted: Sequence[int], clock: Clock) -> None:
        self._run, self._submitted, self._clock = run, sorted(submitted), clock
        self.jobs = len(self._submitted)
        self._began = self._told = time.monotonic()
        self.tell(0)

    def side(self, number: int) -> Callable[[int], None]:
        """What watches the first telling (0) or the second (1)."""

        def watch(ms: int) -> None:
            at = time.monotonic()
            if at - self._began > settings.WHAT_IF_LIMIT_S:
                raise _TooLong
            if at - self._told >= TELLS_EVERY_S:
                self.tell(number * self.jobs + bisect_right(self._submitted, ms))

        return watch

    def tell(self, done: int) -> None:
        """So many jobs of both tellings are played."""
        self._told = time.monotonic()
        took = self._told - self._began
        rate = done / took if done and took > 0 else None
        if not whatif_rows.told(self._run, self._clock(), done=done, total=2 * self.jobs, rate=rate):
            raise _Stopped
