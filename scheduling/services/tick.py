"""One pass of the scheduler: hold the lease, see what changed, decide, commit, ring."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from scheduling.core.plan import Plan
from scheduling.core.policy import Policy
from scheduling.services import alarming, artifact_files, notify, pool
from scheduling.services.kept import Decided, Kept
from scheduling.services.reasons import plain, waiting_reasons
from scheduling.store import lease, record
from scheduling.store.commit import deadlines, grants, sets

LEASE_S = 10.0
# Scores change as consumption fades: so often they are written though nothing happens.
FADING_S = 30.0
# Of a hundred thousand waiting jobs the reasons take half a second: they are told for a tenth of the time at most.
SPARING = 10


@dataclass(frozen=True, slots=True)
class TickResult:
    """What one tick did. ``led`` is False when another scheduler leads; then nothing else happened."""

    led: bool
    started: int = 0
    reclaimed: int = 0
    evicted: int = 0
    stale: tuple[str, ...] = ()
    waiting: int = 0
    milliseconds: float = 0.0
    next_wakeup_s: float | None = None
    alarms: tuple[str, ...] = field(default_factory=tuple)


class Ticker:
    """What a scheduler process keeps between its ticks: what decides, and when it last told why jobs wait."""

    def __init__(self) -> None:
        self.kept = Kept()
        self._told_at: datetime | None = None
        self._owed = True
        self._took_s = 0.0

    def news(self, decided: Decided, *, acted: bool, now: datetime) -> dict[str, Any] | None:
        """Why jobs wait, if that can have changed since it was last told; not so often that telling is all it does."""
        self._owed |= decided.moved or acted
        since_s = math.inf if self._told_at is None else (now - self._told_at).total_seconds()
        if since_s < SPARING * self._took_s or not (self._owed or since_s >= FADING_S):
            return None
        begun = time.perf_counter()
        told = waiting_reasons(decided.scheduler)
        self._took_s, self._told_at, self._owed = time.perf_counter() - begun, now, False
        return told


def lead(holder: str, now: datetime) -> lease.Held | None:
    """The scheduler's lease, held by ``holder`` for the next seconds; None while another holds it."""
    return lease.acquire(holder, now, ttl_s=max(LEASE_S * settings.TIME_SCALE, 3 * settings.TICK_S))


def step_down(holder: str) -> None:
    """The lease is free at once for a successor."""
    lease.release(holder)


def run_tick(holder: str, now: datetime, ticker: Ticker | None = None) -> TickResult:
    """One tick as ``holder`` (1 lease, 2 see, 3 decide, 4 commit, 5 ring, 6 result).

    The commit asks again whether the lease is still held, in its own transaction: a scheduler that was paused while
    another took over writes nothing. Without a ``ticker`` of earlier ticks everything is read anew. What the ticker
    keeps has applied the plan to itself, so it is dropped whenever the plan was not written whole.
    """
    ticker = ticker or Ticker()
    held = lead(holder, now)
    if held is None:
        ticker.kept.forget()
        return TickResult(led=False)
    begun = time.perf_counter()
    can_store = artifact_files.can_store()
    try:
        decided = ticker.kept.decide(now, epoch=held.epoch, can_store=can_store)
        applied = commit(decided.plan, decided.policy, held, now)
    except BaseException:
        ticker.kept.forget()
        raise
    if applied is None or applied.stale:
        ticker.kept.forget()
    if applied is None:
        return TickResult(led=False)
    plan, scheduler = decided.plan, decided.scheduler
    late = deadlines.enforce(now)
    deadlines.expire_awaiting(now)
    notify.ring([*applied.nodes, *late])
    pool.empty(now)
    if decided.moved:  # else every sweep runs as many of its jobs as it may
        sets.admit(now)
    acted = bool(plan.starts or plan.expired or plan.reclaims or plan.nominations or plan.unnominations)
    spent = (time.perf_counter() - begun) * 1000
    alarms = [*plan.alarms, *alarming.alarms(now, can_store=can_store)]
    record.tick(now, milliseconds=spent, holds=ticker.news(decided, acted=acted, now=now),
                alarms=[plain(alarm) for alarm in alarms], guard=decided.guard)  # fmt: skip
    wake = None if plan.next_wakeup_ms is None else max(0.0, (plan.next_wakeup_ms - plan.now_ms) / 1000)
    return TickResult(
        led=True,
        started=len(applied.started),
        reclaimed=len(applied.reclaimed),
        evicted=len(applied.evicted),
        stale=tuple(applied.stale),
        waiting=len(scheduler.waiting) + len(scheduler.sleeping) + len(scheduler.nominees),
        milliseconds=spent,
        next_wakeup_s=wake,
        alarms=tuple(alarm.code for alarm in alarms),
    )


def commit(plan: Plan, policy: Policy, held: lease.Held, now: datetime) -> grants.Applied | None:
    """The plan's lawful actions are in the database; None, and nothing written, when the lease has been lost."""
    with transaction.atomic():
        if not lease.still_held(held):
            return None
        return grants.apply(plan, now=now, policy=policy, actor=f"scheduler {held.epoch}")
