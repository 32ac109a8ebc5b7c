"""What waits for the end of other jobs: stored, moved on when one of them ends, and handed on when one is replaced.

Rows of jobs are locked in the order of (depth, id). A job's depth is greater than that of each of its predecessors, so
that nobody who follows a chain waits for a lock of somebody who follows it too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Max

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.models import Job, Predecessor
from scheduling.store import journal
from scheduling.store.commit.moves import lock_job, move
from scheduling.store.fixed import FixedValues

WAITING = (JobState.QUEUED, JobState.HELD)
ACTOR = "system"
MAX_ERROR = 4000

_SUCCESSORS = FixedValues(
    lambda job: Job.objects.filter(predecessors__before=job, awaits__gt=0, state__in=WAITING)
    .order_by("depth", "pk").values_list("depth", "pk")
)  # fmt: skip


class Fit(NamedTuple):
    """The inputs of a job as far as they are known, why they don't fit, and the key of its work."""

    inputs: list[dict[str, Any]]
    errors: list[str]
    work_key: str


@dataclass(frozen=True, slots=True)
class After:
    """The predecessors of a job that is to be stored: the ids that were named, each with the id of the job that stands
    for it, and which of these had ended when its inputs were looked for."""

    jobs: Mapping[UUID, UUID]
    ended: frozenset[UUID] = frozenset()
    any_end: bool = False


Refit = Callable[[Job, Mapping[str, Job]], Fit | None]
_judge: list[Refit] = []


def judge_by(refit: Refit) -> None:
    """``refit`` tells from now on what becomes of the inputs of a job with these predecessors, by the ids named;
    None where it names no output of theirs. It is the services' to say, which know the kinds of job."""
    _judge[:] = [refit]


def lock(wanted: After | None, also: Collection[UUID] = ()) -> dict[UUID, Job] | None:
    """The predecessors as they are now, and the jobs ``also``, locked in their order; None when one of the former has
    ended meanwhile, or not as it should."""
    before = set() if wanted is None else set(wanted.jobs.values())
    order = Job.objects.filter(pk__in=before | set(also)).order_by("depth", "pk").values_list("pk", flat=True)
    locked = {key: job for key in order if (job := lock_job(key)) is not None}
    if wanted is None:
        return locked
    for key in before:
        job = locked.get(key)
        if job is None or job.is_terminal != (key in wanted.ended):
            return None
        if job.is_terminal and job.state != JobState.SUCCEEDED and not wanted.any_end:
            return None
    return locked


def stands(wanted: After | None, locked: Mapping[UUID, Job]) -> dict[str, Any]:
    """The columns of the new job that say how it stands to its predecessors, which are locked."""
    if wanted is None:
        return {}
    before = [locked[key] for key in wanted.jobs.values()]
    depth = 1 + max((job.depth for job in before), default=-1)
    return {"awaits": sum(not job.is_terminal for job in before), "after_any": wanted.any_end, "depth": depth}


def tie(job: Job, wanted: After | None) -> None:
    """The stored job has its predecessors."""
    if wanted is not None:
        rows = enumerate(wanted.jobs.items())
        Predecessor.objects.bulk_create(
            [Predecessor(job=job, named=named, before_id=before, place=i) for i, (named, before) in rows]
        )


def waits_for(jobs: Iterable[UUID], wanted: UUID) -> bool:
    """Whether one of the jobs is the wanted one or waits for it, be it over others."""
    seen: set[UUID] = set()
    frontier = set(jobs)
    while frontier:
        if wanted in frontier:
            return True
        seen |= frontier
        rows = Predecessor.objects.filter(job__in=frontier, job__awaits__gt=0, job__state__in=WAITING)
        frontier = set(rows.values_list("before_id", flat=True)) - seen
    return False


def hand_on(original: Job, to: Job, now: datetime, *, actor: str) -> int:
    """What waited for the original, which is about to give way, waits for the new job; returns how many jobs did."""
    rows = Predecessor.objects.filter(before=original, job__awaits__gt=0, job__state__in=WAITING)
    waiting = [(depth, key) for depth, key in _SUCCESSORS(original.pk)]
    jobs = [job for _, key in waiting if (job := lock_job(key)) is not None]
    rows.update(before=to)
    for job in jobs:
        words = f"{called(job, original)} was replaced: it waits for {called(job, to)} instead"
        _tell(job, "after_changed", words, now, actor=actor, data={"named": str(original.pk), "before": str(to.pk)})
    _deepen(to)
    return len(jobs)


def _deepen(job: Job) -> None:
    """Whatever waits for the job, be it over others, is deeper than it."""
    frontier = {job.pk}
    while frontier:
        rows = Job.objects.filter(predecessors__before__in=frontier, awaits__gt=0, state__in=WAITING)
        found = rows.annotate(least=Max("predecessors__before__depth") + 1).filter(depth__lt=F("least"))
        deeper = dict(found.values_list("pk", "least"))
        for key, depth in deeper.items():
            Job.objects.filter(pk=key).update(depth=depth)
        frontier = set(deeper)


def follow(ended: UUID, now: datetime) -> None:
    """What waited for the job, which has just ended, waits for one job less, or for none, or has ended as well; and
    what waited for those."""
    heap: list[tuple[int, UUID]] = list(_SUCCESSORS(ended))
    seen: set[UUID] = set()
    while heap:
        _, key = heapq.heappop(heap)
        if key in seen:
            continue
        seen.add(key)
        job = lock_job(key)
        if job is not None and job.awaits and job.state in WAITING and _settle(job, now):
            for each in _SUCCESSORS(key):
                heapq.heappush(heap, each)


def _settle(job: Job, now: datetime) -> bool:
    """The locked job stands to its predecessors as these are now; returns whether it has ended with that."""
    rows = list(job.predecessors.select_related("before__project").order_by("place"))
    failed = [row.before for row in rows if row.before.is_terminal and row.before.state != JobState.SUCCEEDED]
    if failed and not job.after_any:
        words = f"{called(job, failed[0])} ended {failed[0].state}, and was to succeed before this one"
        move(job, JobEvent.CANCEL, now, actor=ACTOR, message=words,
             data={"cause": "after", "after": str(failed[0].pk), "ended": failed[0].state},
             fields={"outcome": "CANCELLED", "error": words[:MAX_ERROR]})  # fmt: skip
        return True
    fit = _judge[0](job, {str(row.named): row.before for row in rows})
    if fit is not None and fit.errors:
        words = "; ".join(fit.errors)[:MAX_ERROR]
        move(job, JobEvent.FAIL, now, actor=ACTOR, message=words, data={"cause": "after"},
             fields={"outcome": "FAILED", "error": words})  # fmt: skip
        return True
    known = {} if fit is None else {"spec": {**job.spec, "inputs": fit.inputs}, "work_key": fit.work_key}
    open_ = sum(not row.before.is_terminal for row in rows)
    Job.objects.filter(pk=job.pk).update(awaits=open_, **known)
    _tell(job, "after_ended" if open_ else "eligible", _left(job, rows, open_), now, actor=ACTOR, data={"open": open_})
    return False


def _left(job: Job, rows: Sequence[Predecessor], open_: int) -> str:
    if open_:
        return f"of the {len(rows)} jobs before it {open_} {'has' if open_ == 1 else 'have'} yet to end"
    done = f"{called(job, rows[0].before)} has" if len(rows) == 1 else f"all {len(rows)} jobs before it have"
    return f"{done} ended; it is placed like any other from now on"


def called(job: Job, other: Job) -> str:
    """How the job's timeline names another: one of another project not at all, since nobody here need know of it."""
    return f"{other.name} (job {other.pk})" if other.project_id == job.project_id else "a job of another project"


def _tell(job: Job, kind: str, message: str, now: datetime, *, actor: str, data: dict[str, Any]) -> None:
    Job.objects.filter(pk=job.pk).update(version=F("version") + 1)
    job.refresh_from_db(fields=["version", "awaits"])
    note = journal.Note(kind, "job", str(job.pk), actor=actor, version=job.version, message=message, data=data,
                        project=job.project.name if job.project else "")  # fmt: skip
    journal.write([note], now)
