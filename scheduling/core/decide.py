"""The decision: from a snapshot to a plan. The one entry, and the definition of right."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from scheduling.core.explain import Scene, backing_off, reasons
from scheduling.core.fairshare import FairShare
from scheduling.core.feasibility import placeable, suitable
from scheduling.core.ordering import Order, fit_class, rank_key
from scheduling.core.placement import Room, find, fits
from scheduling.core.plan import Hold, Plan, Reason, Scores, Start
from scheduling.core.pool import Pool
from scheduling.core.reclaim import TakenBack, claim_deadline_ms, is_unclaimed, take_back
from scheduling.core.snapshot import Snapshot, WaitingJob

# A job past its max_duration is about to be ended: its GPUs are expected a minute from now, never in the past (D29).
OVERDUE_MS = 60_000


def decide(snapshot: Snapshot) -> Plan:
    """What this tick does: every waiting job is started or has its reasons, and no GPU is given out twice."""
    # 1 take back what must be taken back. Its GPUs are free from the next tick on, when that is written.
    back = take_back(snapshot)
    usable = placeable(snapshot.pool, unreachable=back.unreachable)
    held = {gpu for attempt in snapshot.live for gpu in attempt.gpus}

    # 2 order what waits
    share = FairShare(snapshot, taken_back=frozenset(reclaim.attempt for reclaim in back.reclaims))
    order = Order((job for job in snapshot.waiting if job.eligible_at_ms <= snapshot.now_ms), share)

    # 3 for each in that order: start it, or it holds
    room = Room(snapshot.pool, usable - held)
    before = room.free
    avoidance = _Avoidance(snapshot.pool, usable)
    starts: list[Start] = []
    scores: dict[str, Scores] = {}
    while (job := order.peek()) is not None:
        place = find(room, job.request, eligible=avoidance.eligible(job))
        if place is None:
            # Here a preemptor will look for victims, and the first blocked job of a level will get a reservation.
            order.drop(job)
            continue
        scores[job.id] = share.scores(job)
        starts.append(Start(job.id, place.gpus, place.node))
        room.take(place)
        share.charge(job, place.gpus)
        order.take(job)

    # 4 everything that waits on has its reasons
    waiting_on = sorted((job for job in snapshot.waiting if job.id not in scores), key=lambda job: rank_key(job, share))
    returning = _returning(snapshot, back) & usable
    scene = Scene(snapshot.pool, usable, before, room.free, returning, _releases(snapshot, starts))
    holds = _holds(snapshot.now_ms, waiting_on, scene, avoidance, starts)
    return Plan(
        now_ms=snapshot.now_ms,
        lose_nodes=back.lose_nodes,
        reclaims=back.reclaims,
        starts=tuple(starts),
        holds=holds,
        scores=scores | _final_scores(waiting_on, share),
        next_wakeup_ms=_next_wakeup(snapshot, back),
        alarms=back.alarms,
    )


class _Avoidance:
    """Per fit class the GPUs that suit it, less those it avoids as long as the others could ever hold it (D13)."""

    def __init__(self, pool: Pool, usable: frozenset[str]) -> None:
        self._pool, self._usable = pool, usable
        self._eligible: dict[Hashable, frozenset[str]] = {}
        self._excluded: dict[Hashable, frozenset[str]] = {}

    def eligible(self, job: WaitingJob) -> frozenset[str]:
        """The GPUs the job may get."""
        key = fit_class(job)
        if key not in self._eligible:
            suited, excluded = suitable(self._pool, job.request), self.excluded(job)
            # The very same set for all that may go anywhere: comparing equal large sets is what costs.
            self._eligible[key] = suited - excluded if excluded else suited
        return self._eligible[key]

    def excluded(self, job: WaitingJob) -> frozenset[str]:
        """The GPUs the job must not get because it was lost there before."""
        if not job.avoid_gpus and not job.avoid_nodes:
            return frozenset()
        key = fit_class(job)
        if key not in self._excluded:
            avoided = frozenset(
                gpu.uuid for gpu in self._pool.installed if gpu.uuid in job.avoid_gpus or gpu.node in job.avoid_nodes
            )
            suited = suitable(self._pool, job.request)
            enough = fits(self._pool, job.request, free=self._usable - avoided, eligible=suited)
            self._excluded[key] = avoided if enough else frozenset()
        return self._excluded[key]


def _holds(
    now_ms: int, jobs: Sequence[WaitingJob], scene: Scene, avoidance: _Avoidance, starts: Sequence[Start]
) -> tuple[Hold, ...]:
    """A Hold for each of the jobs, which are in rank order."""
    known: dict[Hashable, tuple[Reason, ...]] = {}
    holds: list[Hold] = []
    for rank, job in enumerate(jobs, 1):
        if job.eligible_at_ms > now_ms:
            holds.append(Hold(job.id, (backing_off(job),), rank))
            continue
        key = fit_class(job)
        if key not in known:
            known[key] = reasons(scene, job.request, excluded=avoidance.excluded(job), starts=starts)
        holds.append(Hold(job.id, known[key], rank))
    return tuple(holds)


def _final_scores(jobs: Sequence[WaitingJob], share: FairShare) -> dict[str, Scores]:
    """The scores of each job as the ledgers stand at the end; computed once for jobs of one level and user."""
    known: dict[tuple[str, str, str, int], Scores] = {}
    found: dict[str, Scores] = {}
    for job in jobs:
        key = (job.queue, job.project, job.user, job.level_value)
        if key not in known:
            known[key] = share.scores(job)
        found[job.id] = known[key]
    return found


def _returning(snapshot: Snapshot, back: TakenBack) -> frozenset[str]:
    ended = {reclaim.attempt for reclaim in back.reclaims}
    return frozenset(gpu for attempt in snapshot.live if attempt.attempt in ended for gpu in attempt.gpus)


def _releases(snapshot: Snapshot, starts: Sequence[Start]) -> dict[str, int]:
    """By when each held or just given GPU is free at the latest, by the ``max_duration`` of the job that has it."""
    remaining = {job.id: job.remaining_s for job in snapshot.waiting}
    given = [(attempt.gpus, attempt.remaining_s) for attempt in snapshot.live]
    given += [(start.gpus, remaining[start.job]) for start in starts]
    return {
        gpu: snapshot.now_ms + (seconds * 1000 if seconds > 0 else OVERDUE_MS)
        for gpus, seconds in given
        for gpu in gpus
    }


def _next_wakeup(snapshot: Snapshot, back: TakenBack) -> int | None:
    """The first instant after now at which a pause, a claim, a lease or a running job's time is over."""
    now, lease_ms = snapshot.now_ms, round(snapshot.policy.lease_s * 1000)
    ended = {reclaim.attempt for reclaim in back.reclaims}
    lasting = [attempt for attempt in snapshot.live if attempt.attempt not in ended]
    instants = [job.eligible_at_ms for job in snapshot.waiting]
    instants += [claim_deadline_ms(snapshot, attempt) for attempt in lasting if is_unclaimed(attempt)]
    instants += [now + lease_ms - lease.silent_ms for lease in snapshot.leases]
    if snapshot.waiting:
        instants += [now + attempt.remaining_s * 1000 for attempt in lasting]
    return min((instant for instant in instants if instant > now), default=None)
