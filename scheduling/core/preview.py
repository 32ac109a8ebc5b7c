"""What happens to a job: one more than there are, or one of them? Asked of the scheduler as its last cycle left it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scheduling.core.alternatives import Alternative
from scheduling.core.estimate import Estimate, estimate, gets_it_then
from scheduling.core.explain import Explainer
from scheduling.core.feasibility import could_hold
from scheduling.core.ledger import MICRO
from scheduling.core.naming_then import gpus_then
from scheduling.core.placement import find
from scheduling.core.plan import Plan, Reason, Scores
from scheduling.core.preemption import Choice, choose_victims
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Eviction:
    """A job that would be evicted, and the GPU-seconds of work that it would lose; ``if_saved``: only if it saves in
    its time, as it runs on otherwise (D8)."""

    job: str
    gpus: int
    lost_gpu_s: int
    if_saved: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """The fate of a job submitted now: ``now`` (for one whose time is still to come: then), ``later`` or ``never``.

    ``gpus``: those it would get now, or is first expected on. ``victims``: whom it would evict. ``gpu_h``: GPU-hours up
    to its ``max_duration``, times the billing weight. ``before`` and ``after``: its owner's scores without it and once
    it runs.
    """

    verdict: Literal["now", "later", "never"]
    gpus: tuple[str, ...] = ()
    victims: tuple[Eviction, ...] = ()
    start: Estimate | None = None
    reasons: tuple[Reason, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    gpu_h: float = 0.0
    before: Scores | None = None
    after: Scores | None = None


def preview(scheduler: Scheduler, explainer: Explainer, job: WaitingJob, *, over_nodes: bool = False) -> Preview:
    """What the next cycle would do with the job. It must not be among the waiting ones.

    ``explainer`` is the one of the last cycle. ``over_nodes``: whether jobs of its kind may lie on several nodes.
    ValueError when no cycle has run.
    """
    if scheduler.pool.nodes and not could_hold(scheduler.pool, job.request):
        return Preview("never")
    cycle = explainer.cycle
    with explainer.queue.joined_by(job.owner):
        queued = scheduler.described(job)
        cycle.refresh(queued.shape)
        sleeps = job.due_ms > cycle.now_ms
        place, victims = _placed(scheduler, explainer, queued)
        gpus = gpus_then(scheduler, explainer, queued) if place is None else place
        charged = _charged(scheduler, queued, gpus)
        share, level = scheduler.share, queued.level
        before, after = share.scores(job.owner, level), share.scores(job.owner, level, more=charged)
        return Preview(
            "now" if place is not None else "later",
            gpus=scheduler.inventory.names(gpus),
            victims=_evictions(scheduler, victims, cycle.now_ms),
            start=estimate(scheduler, explainer, queued) if place is None else None,
            reasons=_reasons(explainer, queued, victims, sleeps=sleeps, fits=place is not None),
            alternatives=tuple(explainer.helps(queued, over_nodes=over_nodes)) if place is None else (),
            gpu_h=charged / MICRO / 3_600_000,
            before=before,
            after=after,
        )


def decided(
    scheduler: Scheduler, explainer: Explainer, plan: Plan, job: WaitingJob, *, over_nodes: bool = False
) -> Preview:
    """What the last cycle, whose ``plan`` this is, did with a job that waited before it; nothing is changed.

    Unlike a preview it tells of a job at its own place in the queue: others are decided after it, not before.
    """
    if job.id in scheduler.sleeping or (scheduler.pool.nodes and not could_hold(scheduler.pool, job.request)):
        return preview(scheduler, explainer, job, over_nodes=over_nodes)
    queued, now_ms = scheduler.waiting.by_id.get(job.id), explainer.cycle.now_ms
    if queued is not None:
        gpus = gpus_then(scheduler, explainer, queued)
        charged = _charged(scheduler, queued, gpus)
        return Preview(
            "later",
            gpus=scheduler.inventory.names(gpus),
            start=estimate(scheduler, explainer, queued),
            reasons=explainer.of_queued(queued),
            alternatives=tuple(explainer.helps(queued, over_nodes=over_nodes)),
            gpu_h=charged / MICRO / 3_600_000,
            before=scheduler.share.scores(job.owner, queued.level),
            after=scheduler.share.scores(job.owner, queued.level, more=charged),
        )
    nominee = scheduler.nominees.get(job.id)
    gpus = scheduler.live[job.id].gpus if nominee is None else nominee.gpus
    gone, queued = [each.job for each in plan.preempts if each.nominee == job.id], scheduler.described(job)
    charged = _charged(scheduler, queued, gpus)
    victims = [scheduler.live[each] for each in gone]
    return Preview(
        "now",
        gpus=scheduler.inventory.names(gpus),
        victims=_evictions(scheduler, victims, now_ms),
        reasons=explainer.evicting(queued, victims),
        gpu_h=charged / MICRO / 3_600_000,
        before=scheduler.share.scores(job.owner, queued.level, more=-charged),
        after=scheduler.share.scores(job.owner, queued.level),
    )


def _charged(scheduler: Scheduler, queued: Queued, gpus: list[int]) -> int:
    """Millionths of GPU-ms; without a place in sight no GPU's weight is known: then it counts as 1."""
    weight = scheduler.billing_of(gpus) if gpus else queued.job.request.gpu_count * MICRO
    return weight * queued.duration_ms


def _placed(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> tuple[list[int] | None, tuple[Held, ...]]:
    """The GPUs that the job gets now, or when its time comes, by what is known now, and whom it evicts for them."""
    now_ms, job = explainer.cycle.now_ms, queued.job
    bookings, until_ms = explainer.bookings(queued), max(job.due_ms, now_ms) + queued.duration_ms
    pins = bookings.pins(queued.owner[1], until_ms - now_ms)
    if job.due_ms > now_ms:
        expected = explainer.starts_by(queued)
        on_time = expected is not None and expected[0] <= job.due_ms and gets_it_then(scheduler, explainer, queued)
        place = gpus_then(scheduler, explainer, queued) if on_time else None
    else:
        place = find(scheduler.room, queued.shape.wanted, pins, span=(now_ms, until_ms))
    if place is None and queued.may_evict and find(scheduler.room, queued.shape.wanted, pins) is None:
        choice = choose_victims(scheduler, bookings, queued, pins=pins, now_ms=now_ms)
        if isinstance(choice, Choice):
            return choice.gpus, choice.victims
    return place, ()


def _reasons(
    explainer: Explainer, queued: Queued, victims: Sequence[Held], *, sleeps: bool, fits: bool
) -> tuple[Reason, ...]:
    if sleeps:
        return explainer.of_sleeping(queued, plays=True)
    return explainer.evicting(queued, victims) if fits else explainer.of_queued(queued)


def _evictions(scheduler: Scheduler, victims: Iterable[Held], now_ms: int) -> tuple[Eviction, ...]:
    careful = scheduler.policy.never_without_checkpoint
    return tuple(
        Eviction(held.id, len(held.gpus), round(held.lost_ms(now_ms) / 1000), careful(held.owner[0]))
        for held in victims
    )
