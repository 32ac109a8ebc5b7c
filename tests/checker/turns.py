"""Whose turn it was, where the logs alone tell: nobody plainly ahead was passed over, nobody alone was left waiting.

The plan's whole reasoning is not in the logs (ledgers, reservations, what a scheduler saw). So only jobs without
wishes are judged, and only where no lawful reason is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.checker.evidence import QUEUED, Evidence, Row, Violation

AGED_S = 24 * 3600.0


def nobody_plainly_ahead_is_passed_over(e: Evidence) -> Iterator[Violation]:
    """No GPUs go to a job while another waits that fits on them, runs no longer, and ranks higher.

    Higher by level, or earlier of the same owner, queue and level, where the ledgers are the same.
    """
    if e.table("window"):
        return
    kept_for = {event.object_id for event in e.events if event.type in ("nominated", "given_back")}
    left = {row["id"]: float(row["remaining_s"]) for row in e.table("attempt")}
    stays = [stay for row in e.jobs.values() if _has_no_wishes(row) for stay in _stays(e, row, left)]
    for run in e.runs.values():
        at, taker = run.granted.at, e.jobs.get(run.job)
        if at is None or taker is None or run.job in kept_for or at - taker["submitted_at"] > AGED_S:
            continue
        for stay in stays:
            if not stay.since <= at < stay.until:
                continue
            waiter = stay.job
            if (
                _ahead(waiter, taker)
                and stay.left_s <= left.get(run.attempt, float(taker["max_duration_s"]))
                and _fits(e, waiter, run.gpus)
            ):
                fact = f"job {waiter['id']} ({waiter['level']}) could have started since {stay.since:.3f}"
                about = {"job": run.job, "attempt": run.attempt}
                yield Violation(
                    "a job was passed over by one that ranks below it", str(run.granted), fact, at=at, **about
                )


@dataclass(frozen=True)
class _Stay:
    """A job that waited and could have been started from ``since`` until just before ``until``, to run for ``left_s``:
    what it has run already counts, so that a shorter one may lawfully start before others get their GPUs."""

    job: Row
    left_s: float
    since: float
    until: float


def _stays(e: Evidence, job: Row, left: dict[str, float]) -> Iterator[_Stay]:
    """What was queued just now a scheduler need not have seen; what the same plan starts was not passed over."""
    for step, following in pairwise([*e.steps.get(job["id"], ()), None]):
        if step is not None and step.data["to"] == QUEUED:
            since = step.at + (step.data.get("backoff_s") or 0.0) + 2 * e.house.cycle_s
            # While it waits nothing of its time is used up: its next attempt has what it had.
            attempt = following.attempt if following is not None else None
            left_s = left.get(attempt or "", float(job["max_duration_s"]))
            yield _Stay(job, left_s, since, math.inf if following is None else following.at or math.inf)


def _has_no_wishes(row: Row) -> bool:
    avoid = row["avoid"] or {}
    return (
        row["node_count"] == 1
        and not row["remainder"]
        and not row["nvlink_exclusive"]
        and not row["affinity"]
        and not row["topology"]
        and row["not_before"] is None
        and not row["depth"]  # it waited for other jobs
        and row["max_running"] is None  # it waited for others of its sweep
        and not any(avoid.values())
    )


def _ahead(waiter: Row, taker: Row) -> bool:
    if waiter["level_value"] != taker["level_value"]:
        return bool(waiter["level_value"] > taker["level_value"])
    same = all(waiter[n] == taker[n] for n in ("queue", "project", "user_name"))
    return same and (waiter["submitted_at"], waiter["id"]) < (taker["submitted_at"], taker["id"])


def _fits(e: Evidence, job: Row, gpus: Any) -> bool:
    """Whether the job, which has no wishes, has a place among these GPUs."""
    known = [e.gpus[g] for g in gpus if g in e.gpus and e.gpus[g]["memory_mib"] >= job["gpu_memory_min_mib"]]
    if job["nvlink_required"]:
        places = Counter((g["node"], g["nvlink_group"]) for g in known if g["nvlink_group"] is not None)
    else:
        places = Counter((g["node"], None) for g in known)
    return max(places.values(), default=0) >= job["gpus_per_node"]


def nobody_waits_alone_beside_free_gpus(e: Evidence) -> Iterator[Violation]:
    """At the end no job, the only one that waits, has had room on a live node for longer than it takes to see it."""
    house = e.house
    by = house.exported_at - house.cycles * house.cycle_s - house.heal_s
    waiting = [row for row in e.jobs.values() if row["state"] == QUEUED]
    ticked = [row["last_tick_at"] for row in e.table("scheduler") if row["last_tick_at"] is not None]
    if len(waiting) != 1 or e.table("window") or e.table("nomination") or not _has_no_wishes(waiting[0]):
        return
    if not ticked or ticked[0] < house.exported_at - house.cycles * house.cycle_s:
        return  # the house is down
    job, last = waiting[0], e.steps[waiting[0]["id"]][-1]
    if last.at > by or (job["eligible_at"] or 0.0) > by:
        return
    heard = {
        n["name"]
        for n in e.table("node")
        if n["state"] == "READY"
        and not n["leaving"]
        and not n["disk_low"]
        and (n["last_heartbeat_at"] or 0.0) > house.exported_at - house.lease_s / 2
    }
    busy = {row["gpu"] for row in e.table("allocation") if row["released_at"] is None or row["released_at"] > by}
    free = [g for g, row in e.gpus.items() if row["state"] == "HEALTHY" and row["node"] in heard and g not in busy]
    if _fits(e, job, free):
        yield Violation(
            "a job waits beside free GPUs",
            str(last),
            f"free since {by:.3f} at least: {sorted(free)}",
            job["id"],
            at=last.at,
        )
