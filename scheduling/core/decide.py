"""The decision: from a snapshot to a plan. The one entry, and the definition of right."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.explain import holds_of
from scheduling.core.plan import Plan, Scores
from scheduling.core.reclaim import TakenBack, deadlines_ms, take_back
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot
from scheduling.core.wakeup import instants


def decide(snapshot: Snapshot) -> Plan:
    """What this tick does: every waiting job starts, gets victims or has its reasons; no GPU is given twice."""
    # 1 take back what must be taken back. Its GPUs are free from the next tick on, when that is written.
    back = take_back(snapshot)
    # 2 order what waits   3 for each in that order: start it, evict for it, promise it GPUs, or it holds
    scheduler = Scheduler(snapshot, unreachable=back.unreachable)
    plan = scheduler.cycle(snapshot.now_ms, back, with_scores=True)
    # 4 everything that waits on has its reasons
    return replace(
        plan,
        holds=holds_of(scheduler),
        scores={**plan.scores, **final_scores(scheduler)},
        next_wakeup_ms=next_wakeup(snapshot, scheduler, back),
    )


def final_scores(scheduler: Scheduler) -> dict[str, Scores]:
    """The scores of each job that waits, as the ledgers stand; computed once for jobs of one level and owner."""
    known: dict[tuple[object, int], Scores] = {}
    found: dict[str, Scores] = {}
    for job in scheduler.everyone_waiting():
        key = (job.owner, job.level_value)
        if key not in known:
            known[key] = scheduler.share.scores(job.owner, job.level_value)
        found[job.id] = known[key]
    return found


def next_wakeup(snapshot: Snapshot, scheduler: Scheduler, back: TakenBack) -> int | None:
    """The first instant after now at which the plan could differ without any new event; None for never."""
    now, lease_ms = snapshot.now_ms, round(snapshot.policy.lease_s * 1000)
    ended = {reclaim.attempt for reclaim in back.reclaims if reclaim.whole}
    found = [now + lease_ms - lease.silent_ms for lease in snapshot.leases]
    for attempt in snapshot.live:
        if attempt.attempt not in ended:
            found += deadlines_ms(snapshot, attempt)
    found += instants(scheduler, frozenset(reclaim.job for reclaim in back.reclaims if reclaim.whole))
    return min((instant for instant in found if instant > now), default=None)
