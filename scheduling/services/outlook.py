"""What is about to happen? The present as the scheduler sees it, with one pass made that nobody writes down."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from scheduling.core.alternatives import Alternative
from scheduling.core.estimate import Estimate, estimate, latest, soonest, soonest_to_come
from scheduling.core.explain import Explainer
from scheduling.core.in_hand import starting_soon
from scheduling.core.leaving import held_for, once_saved, unsaved
from scheduling.core.plan import Plan, Reason
from scheduling.core.preview import Preview, decided, preview
from scheduling.core.reclaim import take_back
from scheduling.core.resources import ResourceRequest
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob
from scheduling.core.sooner import tried
from scheduling.core.waiting import Queued
from scheduling.store import load
from scheduling.store.queries.changes import CHATTER
from scheduling.store.queries.live import Reader
from workers.catalog import KINDS

# Silence of nodes and edits of the policy are no events: an outlook is not used for longer.
MAX_AGE_S = 5.0
# One of a large queue takes seconds to make: explanations take a tenth of the time at most, and tell as of when.
SPARING = 10
# Plans are made of one that took longer as well; of a cheaper one they are always as of now.
DEAR_S = 0.25


@dataclass(frozen=True, slots=True)
class Span:
    """When something is expected, as seen at ``as_of``: at the soonest, at the latest and, as ``at``, if nothing else
    comes and all runs to its time limit. That is no middle: where nothing is ahead of a job it is its ``low``."""

    at: datetime
    low: datetime
    high: datetime
    as_of: datetime


@dataclass(frozen=True, slots=True)
class Foretold:
    """What is expected of a waiting job. ``start`` is None when the pool as it is has no place for it; ``rank`` counts
    from 1 and is None for a job that is not in the queue yet, or no more; ``promised``: it holds a reservation.
    ``nodes``: where it could start at the soonest; ``in_the_way``: the jobs that have its GPUs there. ``reasons``: why
    it waits as seen at the same instant; not everybody may know of the jobs in them. ``beside``: the group of which a
    job must still run there then, "" when the start depends on none. ``tried``: the kinds of change that were tried, in
    words.
    ``guarded_after_s``: how long it must have waited to hold a reservation whatever its rank; None where nothing does.
    ``asked``: its request, of which the alternatives are changes; None where there are none.
    ``if_saved``: so many jobs hold its GPUs that run on unless they save by then, and only if they do does it start.
    """

    start: Span | None
    rank: int | None = None
    promised: bool = False
    alternatives: tuple[Alternative, ...] = ()
    nodes: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    beside: str = ""
    tried: tuple[str, ...] = ()
    guarded_after_s: float | None = None
    if_saved: int = 0
    asked: ResourceRequest | None = None


class Outlook:
    """A scheduler built from what the database holds at ``as_of``, after one pass that only this object knows of."""

    def __init__(self, now: datetime, snapshot: Snapshot | None = None) -> None:
        """``snapshot``: what it is of, where that is not what the database holds now."""
        snapshot = snapshot or load.snapshot(now)
        back = take_back(snapshot)
        self.as_of, self.policy, self._snapshot = now, snapshot.policy, snapshot
        self.scheduler = Scheduler(snapshot, unreachable=back.unreachable)
        self.plan: Plan = self.scheduler.cycle(snapshot.now_ms, back)
        self.explainer = Explainer(self.scheduler, plays_stays=True)

    def knows(self, job_id: str) -> bool:
        """Whether the job waited when this was made."""
        scheduler = self.scheduler
        places = (scheduler.waiting.by_id, scheduler.sleeping, scheduler.nominees)
        return any(job_id in place for place in places) or self._starts(job_id)

    def instead(self, original: str, job: WaitingJob) -> Outlook:
        """The outlook in which the job waits, and the original, if it does here, has given way to it."""
        waiting = (*(each for each in self._snapshot.waiting if each.id != original), job)
        return Outlook(self.as_of, replace(self._snapshot, waiting=waiting))

    def fate(self, job: WaitingJob, *, kind: str) -> Preview:
        """What the pass did with the job, which waited and is of that kind."""
        return decided(self.scheduler, self.explainer, self.plan, job, over_nodes=is_over_nodes(kind))

    def foretell(self, job_id: str, *, kind: str = "") -> Foretold | None:
        """What is expected of the job, which is of that kind, and why it waits; None for one that did not wait."""
        found = self._expected(job_id, over_nodes=is_over_nodes(kind))
        if found is None:
            return None
        why = (starting_soon(),) if self._starts(job_id) else self._why(job_id)
        return replace(found, reasons=why)

    def _why(self, job_id: str) -> tuple[Reason, ...]:
        sleeping = self.scheduler.sleeping.get(job_id)
        if sleeping is None:
            return self.explainer.of(job_id)
        return self.explainer.of_sleeping(self.scheduler.described(sleeping), plays=True)

    def _expected(self, job_id: str, *, over_nodes: bool) -> Foretold | None:
        scheduler, now_ms = self.scheduler, self.plan.now_ms
        if self._starts(job_id):
            return Foretold(self.span(low_ms=now_ms, at_ms=now_ms, high_ms=now_ms), promised=True)
        if job_id in scheduler.nominees:
            at_ms, high_ms = once_saved(scheduler, held_for(scheduler, scheduler.nominees[job_id]), now_ms)
            unsure, _ = unsaved(scheduler, scheduler.nominees[job_id])
            span = self.span(low_ms=now_ms, at_ms=at_ms, high_ms=high_ms)
            return Foretold(span, promised=True, if_saved=unsure)
        if job_id in scheduler.sleeping:
            job = scheduler.sleeping[job_id]
            seen = preview(scheduler, self.explainer, job, over_nodes=over_nodes)
            kinds = tried(job.request, over_nodes=over_nodes)
            return Foretold(self.start_of(seen, job), alternatives=seen.alternatives, tried=kinds, asked=job.request)
        queued = scheduler.waiting.by_id.get(job_id)
        if queued is None:
            return None
        changes = tuple(self.explainer.helps(queued, over_nodes=over_nodes))
        request = queued.job.request
        kinds = tried(request, over_nodes=over_nodes)
        found = estimate(scheduler, self.explainer, queued)
        if found is None:
            return Foretold(None, alternatives=changes, tried=kinds, asked=request)
        nodes, holders = self._place(queued)
        near = request.near
        beside = near.group if near is not None and near.group != queued.job.group else ""
        return Foretold(
            self.estimated(found), found.rank, found.promised, changes, nodes, holders, beside=beside, tried=kinds,
            guarded_after_s=self._guarded_after_s(), asked=request,
        )  # fmt: skip

    def _guarded_after_s(self) -> float | None:
        backfill = self.policy.backfill
        return backfill.aged_after_s if backfill.aged_reservations else None

    def _place(self, queued: Queued) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(nodes, the jobs that have the GPUs) of where it could start at the soonest; no jobs where all of them have
        left by then, and it waits for something else."""
        scheduler, expected = self.scheduler, self.explainer.starts_by(queued)
        start_ms, gpus = expected or (0, [])
        holders = [held for gpu in gpus if (held := scheduler.holder[gpu]) is not None]
        ends = [held.expected_end(self.plan.now_ms) for held in holders]
        names = tuple(dict.fromkeys(held.id for held in holders)) if max(ends, default=0) >= start_ms else ()
        return scheduler.inventory.nodes_of(gpus), names

    def _starts(self, job_id: str) -> bool:
        return any(start.job == job_id for start in self.plan.starts)

    def estimated(self, found: Estimate, *, not_before_ms: int = 0) -> Span:
        """The estimate in whole minutes as reasons tell theirs, its late end up and the rest down; an early end until
        which something keeps it is exact.

        Nothing of it lies in the past or before ``not_before_ms``, nor, where nothing is free yet, at this instant: the
        early end is exact then, too.
        """
        now_ms = self.plan.now_ms
        first = found.low if found.exact else soonest_to_come(found.low, now_ms)
        low = max(first, now_ms, not_before_ms)
        return self.span(low_ms=low, at_ms=max(soonest(found.at), low), high_ms=max(latest(found.high), low))

    def start_of(self, found: Preview, job: WaitingJob) -> Span | None:
        """When the job of the preview is expected to start."""
        if found.start is not None:
            return self.estimated(found.start, not_before_ms=job.due_ms)
        if found.verdict != "now":
            return None
        first = max(self.plan.now_ms, job.due_ms)
        live = self.scheduler.live
        at_ms, high_ms = once_saved(self.scheduler, [live[each.job] for each in found.victims], first)
        return self.span(low_ms=first, at_ms=at_ms, high_ms=high_ms)

    def span(self, *, low_ms: int, at_ms: int, high_ms: int) -> Span:
        """The instants as seen from this outlook."""
        return Span(_moment(at_ms), _moment(low_ms), _moment(high_ms), self.as_of)


def is_over_nodes(kind: str) -> bool:
    """Whether jobs of the kind may lie on several nodes; not those of a kind that there is not."""
    return kind in KINDS and KINDS[kind].over_nodes


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


class Present:
    """The newest outlook of this process, and what has happened since."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._outlook: Outlook | None = None
        self._reader: Reader | None = None
        self._made_at = self._took_s = 0.0
        self._outdated = True

    @contextmanager
    def look(self, now: datetime, *, fresh: bool = False, must_know: str | None = None) -> Iterator[Outlook]:
        """An outlook that is this thread's alone inside the ``with``; made anew when something has happened.

        Unless ``fresh``, the one there is serves for ten times as long as it took to make, if the job ``must_know``
        waited then.
        """
        with self._guard:
            outlook = self._usable(now, fresh=fresh)
            if outlook is None or (must_know is not None and not outlook.knows(must_know)):
                outlook = self._made(now)
            yield outlook

    @property
    def is_dear(self) -> bool:
        """Whether the last outlook took long to make."""
        return self._took_s > DEAR_S

    def _usable(self, now: datetime, *, fresh: bool) -> Outlook | None:
        outlook, reader = self._outlook, self._reader
        if outlook is None or reader is None:
            return None
        if not fresh and time.monotonic() - self._made_at < SPARING * self._took_s:
            return outlook
        if not 0 <= (now - outlook.as_of).total_seconds() <= MAX_AGE_S:
            return None
        self._outdated |= any(change.type not in CHATTER for change in reader.take())
        return None if self._outdated else outlook

    def _made(self, now: datetime) -> Outlook:
        begun = time.monotonic()
        self._outlook = None
        # The reader first: what is committed while the rows are read makes the next look anew.
        self._reader = Reader()
        self._outlook = Outlook(now)
        self._made_at = time.monotonic()
        self._took_s, self._outdated = self._made_at - begun, False
        return self._outlook


present = Present()
