"""The scheduler between ticks: fed with what has changed, and built anew at any doubt.

``decide`` of a snapshot is right by definition. Reading everything again for every tick is what costs, so one object
is kept and told what the event table says has changed. It is no truth: it is thrown away when another leader was
there, when the inventory, the policy or a window changed, when GPUs were given back to who left them in vain, when a
commit lost a race, or when a row is not what it should be after what was told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from scheduling.core.decide import next_wakeup
from scheduling.core.feasibility import placeable
from scheduling.core.garbage import not_searched
from scheduling.core.plan import Plan
from scheduling.core.policy import Policy
from scheduling.core.reclaim import take_back
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, SilenceGuard, Snapshot, WaitingJob
from scheduling.store import load, load_jobs, load_pool
from scheduling.store.clock import to_ms
from scheduling.store.commit.giving_back import GIVEN_BACK
from scheduling.store.queries.changes import CHATTER
from scheduling.store.queries.events import Change
from scheduling.store.queries.live import Reader

# Objects whose changes are in no row of a job: windows, and balances that were counted anew.
ALWAYS_ANEW = ("window", "queue")
FOLLOWED = ("job", *ALWAYS_ANEW)


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan, the policy it follows, the scheduler that has applied it to itself, and the silent nodes that it guards.
    ``anew``: it was just built; ``moved``: something had changed since the plan before."""

    plan: Plan
    policy: Policy
    scheduler: Scheduler
    guard: SilenceGuard
    anew: bool
    moved: bool


class Kept:
    """One scheduler object, or none. It is of one thread."""

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._reader: Reader | None = None
        self._source: tuple[object, ...] = ()
        self._evictions: load_jobs.Evictions | None = None
        self._live: dict[str, LiveAttempt] = {}
        self._unreachable: frozenset[str] = frozenset()

    def forget(self) -> None:
        """The next plan is of an object built anew."""
        self._scheduler = None

    def decide(self, now: datetime, *, epoch: int, can_store: bool = True) -> Decided:
        """What this tick does, as ``decide`` of a snapshot taken now would have it but for holds and scores.

        ``epoch`` is the leader's: another one means that others have written in between. ``can_store``: whether
        checkpoints can be stored (D31).
        """
        policy = load.policy_of()
        scheduler, changes = self._scheduler, []
        if scheduler is not None and self._reader is not None:
            changes = [each for each in self._reader.take() if each.object in FOLLOWED and each.type not in CHATTER]
        # After the changes: what is known of evictions is then at least as new as what was told of jobs.
        self._evictions = load_jobs.evictions(now)
        marks = load_jobs.eviction_mark(self._evictions, now, protect_times=policy.evict.protect_times)
        source = (epoch, can_store, *load_pool.inventory_mark(), *marks)
        if (
            scheduler is None
            or policy != scheduler.policy
            or source != self._source
            or any(change.object in ALWAYS_ANEW or change.type == GIVEN_BACK for change in changes)
            or not self._follow(scheduler, changes, now)
        ):
            with not_searched():  # a hundred thousand jobs, and all of them stay
                scheduler = self._build(now, can_store=can_store, policy=policy)
                self._source = source
                return self._cycle(scheduler, now, anew=True, moved=True)
        return self._cycle(scheduler, now, anew=False, moved=bool(changes))

    def _build(self, now: datetime, *, can_store: bool, policy: Policy) -> Scheduler:
        # The reader first: what is committed while the rows are read is then told twice rather than never.
        self._reader = Reader()
        snapshot = load.snapshot(now, can_store=can_store, policy=policy)
        self._live = {attempt.job: attempt for attempt in snapshot.live}
        self._unreachable = frozenset()
        self._scheduler = Scheduler(snapshot)
        return self._scheduler

    def _cycle(self, scheduler: Scheduler, now: datetime, *, anew: bool, moved: bool) -> Decided:
        guard, confirmed = load_pool.silence(now, lease_s=scheduler.policy.lease_s)
        sight = Snapshot(
            now_ms=to_ms(now), policy=scheduler.policy, pool=scheduler.pool, live=tuple(self._live.values()),
            leases=load_pool.leases(now),
            guard=guard, silence_confirmed=confirmed,
        )  # fmt: skip
        back = take_back(sight)
        if back.unreachable != self._unreachable:
            self._unreachable, moved = back.unreachable, True
            scheduler.use(placeable(scheduler.pool, unreachable=back.unreachable))
        plan = scheduler.cycle(sight.now_ms, back)
        plan = replace(plan, next_wakeup_ms=next_wakeup(sight, scheduler, back))
        return Decided(plan, scheduler.policy, scheduler, back.guard, anew, moved)

    def _follow(self, scheduler: Scheduler, changes: Iterable[Change], now: datetime) -> bool:
        """The scheduler knows of the changes; False when what it knew can't have become what the rows say."""
        ends: dict[str, Change] = {}
        touched: dict[str, None] = {}
        for change in changes:
            touched[change.object_id] = None
            if change.type == "attempt_ended":
                ends.pop(change.object_id, None)
                ends[change.object_id] = change
        if not touched:
            return True
        ids, known = [UUID(job) for job in touched], self._evictions
        waiting = {job.id: job for job in load_jobs.waiting(now, ids, known=known)}
        live = {attempt.job: attempt for attempt in load_jobs.live(now, ids, known=known)}
        # Consumption is settled end by end, and in the same order as the balances were.
        order = [*ends, *(job for job in touched if job not in ends)]
        return all(self._settle(scheduler, job, waiting.get(job), live.get(job), end=ends.get(job)) for job in order)

    def _settle(
        self,
        scheduler: Scheduler,
        job: str,
        waits: WaitingJob | None,
        runs: LiveAttempt | None,
        *,
        end: Change | None,
    ) -> bool:
        """One job is in the scheduler as its row is; False when there is no way from what it was to that."""
        held = scheduler.live.get(job)
        if held is not None and runs is None:
            # Without the event that tells when, it has ended after the events were read: the next look tells.
            if end is None:
                return True
            lost = [(since, until) for since, until in end.data.get("lost_ms", ())]
            scheduler.ended(job, to_ms(end.at), lost)
            self._live.pop(job, None)
        elif held is not None and runs is not None:
            return self._go_on(scheduler, runs)
        elif runs is not None:
            return False  # only a plan of ours grants GPUs
        known = scheduler.waiting_job(job)
        if known == waits:
            return True
        if known is not None:
            scheduler.withdraw(job)
        if waits is not None:
            scheduler.submit(waits)
        return True

    def _go_on(self, scheduler: Scheduler, runs: LiveAttempt) -> bool:
        """A job that runs on is known as its attempt is now; False when it is another one than ours."""
        if scheduler.live[runs.job].attempt not in ("", runs.attempt):
            return False
        scheduler.learn(runs)
        self._live[runs.job] = runs
        return True
