"""Why jobs wait, as it is kept: one entry for jobs of one shape and level, more only where the reasons differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import Any

from scheduling.core.explain import Explainer
from scheduling.core.fairshare import FairShare
from scheduling.core.ledger import Ledger
from scheduling.core.plan import Reason
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import Queued
from scheduling.store.queries.shapes import class_name, shape_of

Reasons = tuple[Reason, ...]


def waiting_reasons(scheduler: Scheduler) -> dict[str, Any]:
    """The reasons of everything that waits after a cycle, and the deficits from which every job's scores follow.

    ``shapes`` has the most common reasons of each shape and level, and of a duration where those differ; ``jobs``
    has the reasons of jobs of which neither is true.
    """
    explainer = Explainer(scheduler)
    alike, single = _grouped(scheduler, explainer)
    told = [(jobs, explainer.of_queued(jobs[0])) for jobs in alike]
    shapes = _most_common(told, timed=False)
    timed = _most_common(told, timed=True)
    shapes |= {name: reasons for name, reasons in timed.items() if reasons != shapes[name.rpartition("/")[0]]}
    others = [(queued.job, reasons) for jobs, reasons in told if reasons != _kept_for(jobs[0].job, shapes)
              for queued in jobs]  # fmt: skip
    others += [(job, reasons) for job, reasons in single if reasons != _kept_for(job, shapes)]
    return {
        "shapes": {name: [anonymous(each) for each in reasons] for name, reasons in shapes.items()},
        "jobs": {job.id: [anonymous(each) for each in reasons] for job, reasons in others},
        "deficits": deficits(scheduler.share),
    }


def _grouped(scheduler: Scheduler, explainer: Explainer) -> tuple[list[list[Queued]], list[tuple[WaitingJob, Reasons]]]:
    """Queued jobs that wait for the same reasons, since nothing in which they differ counts; and those that don't."""
    promised = {queued.id for jobs in explainer.cycle.promised.values() for queued in jobs}
    by_project = any(window.project is not None for window in scheduler.windows)
    groups: dict[object, list[Queued]] = defaultdict(list)
    single: list[tuple[WaitingJob, Reasons]] = []
    for queued in scheduler.waiting.by_id.values():
        job = queued.job
        if queued.id in promised or job.start_by_ms is not None:
            single.append((job, explainer.of_queued(queued)))
            continue
        seconds, project = job.request.max_duration_s, job.project if by_project else ""
        groups[queued.shape, queued.level, queued.duration_ms, seconds, job.queue, project].append(queued)
    for job in [*scheduler.sleeping.values(), *(each.queued.job for each in scheduler.nominees.values())]:
        single.append((job, explainer.of(job.id)))
    return list(groups.values()), single


def _most_common(told: list[tuple[list[Queued], Reasons]], *, timed: bool) -> dict[str, Reasons]:
    counts: dict[str, Counter[Reasons]] = defaultdict(Counter)
    for jobs, reasons in told:
        counts[_name(jobs[0].job, timed=timed)][reasons] += len(jobs)
    return {name: found.most_common(1)[0][0] for name, found in counts.items()}


def _kept_for(job: WaitingJob, shapes: dict[str, Reasons]) -> Reasons | None:
    """What a reader of ``shapes`` takes for the job's reasons."""
    return shapes.get(_name(job, timed=True)) or shapes.get(_name(job, timed=False))


def _name(job: WaitingJob, *, timed: bool) -> str:
    return class_name(shape_of(job.request), job.level_value, job.request.max_duration_s if timed else None)


def deficits(fair: FairShare) -> dict[str, dict[str, float]]:
    """The deficit of every active entity of each ledger."""
    return {
        "queue": _deficits(fair, fair.queues),
        "project": _deficits(fair, fair.projects),
        "user": {"/".join(key): deficit for key, deficit in _deficits(fair, fair.users).items()},
    }


def _deficits(fair: FairShare, ledger: Ledger[Any]) -> dict[Any, float]:
    found = {key: fair.score(ledger, key, 1).deficit for key in ledger.keys()}  # noqa: SIM118  it is no mapping
    return {key: deficit for key, deficit in found.items() if deficit is not None}


# Everybody who sees a job reads the reasons kept for it, and other jobs may be of projects he may not know of.
JOB_NUMBERS = ("first", "held_for", "victim")


def anonymous(reason: Reason) -> dict[str, Any]:
    """The reason as JSON has it, but for the ids of other jobs."""
    told = plain(reason)
    return {**told, "numbers": {name: value for name, value in told["numbers"].items() if name not in JOB_NUMBERS}}


def plain(reason: Reason) -> dict[str, Any]:
    """The reason as JSON has it."""
    return {**asdict(reason), "numbers": dict(reason.numbers)}
