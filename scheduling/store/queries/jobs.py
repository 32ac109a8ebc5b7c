"""Jobs as everyone sees them: REST, pages and feed give the same dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Prefetch, Q, QuerySet

from scheduling.core.lifecycle import JobState
from scheduling.core.naming import is_job_id
from scheduling.models import (
    Allocation,
    Attempt,
    AttemptNode,
    Event,
    Job,
    LogChunk,
    SchedulerState,
)
from scheduling.models.jobs import LIVE
from scheduling.store import journal
from scheduling.store.queries.access import Actor
from scheduling.store.queries.after import PREDECESSORS, after, awaits
from scheduling.store.queries.evictions import EVICTS_NOBODY, evicts_nobody, in_order
from scheduling.store.queries.leaving import how_it_is_cancelled, why_it_leaves
from scheduling.store.queries.lost import lost_in, resumes_from
from scheduling.store.queries.outputs import LARGE, outputs, told
from scheduling.store.queries.progress import progress_of
from scheduling.store.queries.sets import kept_back, membership, narrowed
from scheduling.store.queries.shapes import class_name
from scheduling.store.queries.silence import Silence
from scheduling.store.queries.spans import spans
from scheduling.store.queries.starting import starting
from scheduling.store.queries.unheard import UNHEARD, unheard
from scheduling.store.transfers import under_way

WAITING = (JobState.QUEUED, JobState.HELD)
# Reasons that no scheduler finds: a job has them beside its own.
BESIDE = (UNHEARD, EVICTS_NOBODY)
# What is told of a job that has taken another's place, or given way to it.
_OTHERS = Job.objects.only("id", "name", "project", "submitted_at", "replaces")


def visible(actor: Actor) -> QuerySet[Job]:
    """The jobs this actor may know of: those of their projects, and their own refused ones."""
    jobs = Job.objects.select_related("project", "user", "queue", "level", "member_of")
    if actor.is_admin:
        return jobs
    return jobs.filter(Q(project__name__in=actor.projects) | Q(project__isnull=True, user_id=actor.user_id))


def full(jobs: QuerySet[Job], *, files: bool = True) -> QuerySet[Job]:
    """The same jobs with what :func:`as_dict` needs, in a fixed number of queries; without ``files`` those of their
    artifacts are only counted."""
    newest = Attempt.objects.select_related("evicted_for__level", "evicted_for__queue", "lost_work").order_by("number")
    newest = newest.prefetch_related(
        Prefetch(
            "allocations", Allocation.objects.select_related("gpu__node").order_by("gpu__node__name", "gpu__index")
        ),
        Prefetch("nodes", AttemptNode.objects.select_related("node").order_by("rank")),
    )
    return jobs.select_related("resume").defer(*(f"resume__{name}" for name in LARGE)).prefetch_related(
        Prefetch("attempts", newest), Prefetch("outputs", outputs(listed=files)),
        PREDECESSORS, Prefetch("replaces", _OTHERS), Prefetch("replaced_by", _OTHERS),
    )  # fmt: skip


def replaced_by(job: Job) -> Job | None:
    """The job of the same project that has taken this one's place; of another project nobody here need know."""
    return _of_its_project(job, getattr(job, "replaced_by", None))


def newest_in_place_of(job: Job) -> Job | None:
    """The last of the jobs of the same project that took this one's place one after the other; None for none."""
    newest: Job | None = None
    while (following := replaced_by(newest or job)) is not None:
        newest = following
    return newest


def in_place_of(job: Job) -> Job | None:
    """The job of the same project that has given way to this one."""
    return _of_its_project(job, job.replaces)


def _of_its_project(job: Job, other: Job | None) -> Job | None:
    return other if other is not None and other.project_id == job.project_id else None


def _id_of(job: Job | None) -> str | None:
    return None if job is None else str(job.pk)


def as_dict(
    job: Job,
    *,
    holds: Mapping[str, Any] | None = None,
    silent: Mapping[str, Silence] | None = None,
    now: datetime | None = None,
) -> dict[str, Any]:
    """The job in the shape of the REST contract. ``job`` comes from :func:`full`. Who has many hands over what is
    asked for once: ``holds`` of :func:`holds_now`, and which nodes are ``silent``."""
    attempts = list(job.attempts.all())
    last = attempts[-1] if attempts else None
    held = list(last.allocations.all()) if last else []
    gpu_ms = sum(
        ((a.released_at or now or a.granted_at) - a.granted_at).total_seconds()
        for attempt in attempts
        for a in attempt.allocations.all()
    )
    beside = [unheard(job, last, silent, now), evicts_nobody(job, now)]
    score = scores_of(job, holds)
    return {
        "id": str(job.pk),
        "version": job.version,
        "url": f"{settings.PUBLIC_URL}/jobs/{job.pk}/",
        "name": job.name,
        "kind": job.kind,
        "state": job.state,
        "project": job.project.name if job.project else None,
        "user": job.user.get_username() if job.user else None,
        "queue": job.queue.name if job.queue else None,
        "priority": job.level.name if job.level else None,
        **_asked(job),
        "params": job.params,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "attempt_started_at": last.started_at if last else None,
        **spans(job, attempts, now),
        "ended_at": job.ended_at,
        "score": score.get("project"),
        "deficit": score.get("deficit"),
        "scores": {k: score.get(k) for k in ("queue", "project", "user")},
        "preempted": job.preempted,
        "preempt_count": job.preempt_count,
        "retry_of": str(job.retry_of_id) if job.retry_of_id else None,
        "replaces": _id_of(in_place_of(job)),
        "replaced_by": _id_of(replaced_by(job)),
        "attempt": job.attempt_number,
        "progress": progress_of(job, heard=beside[0] is None),
        "starting": starting(job, last),
        "transfer": under_way(list(last.nodes.all()), now) if last else None,
        "reasons": in_order([*_reasons(job, last, holds), *filter(None, beside)]),
        "gpus": _gpus(held),
        "artifacts": [told(output) for output in job.outputs.all()],
        "outcome": job.outcome or None,
        "exit_code": job.exit_code,
        "error": job.error or None,
        "errors": job.errors or [],
        "gpu_hours": round(gpu_ms / 3600, 6),
        "lost_work": [lost for attempt in attempts if (lost := lost_in(attempt))],
        "resumes_from": resumes_from(job),
    }  # fmt: skip


def _asked(job: Job) -> dict[str, Any]:
    """What the job asked for: how much, where and when, and with which others."""
    return {
        **_counts(job),
        "gpu_memory_min": job.spec.get("gpu_memory_min"),
        "gpu_memory_min_mib": job.gpu_memory_min_mib,
        "nvlink_required": job.nvlink_required,
        "nvlink_exclusive": job.nvlink_exclusive,
        "max_duration": job.max_duration_s,
        "remainder": job.remainder,
        "affinity": job.spec.get("affinity"),
        "anti_affinity": job.topology.get("apart"),
        "with": job.topology.get("near"),
        "group": job.group or None,
        **after(job),
        **membership(job),
        "not_before": job.not_before,
        "start_by": job.start_by,
        "required_level": job.topology.get("required_level"),
        "max_wait_for_level": job.topology.get("max_wait_for_level_s"),
        "allow_span": job.topology.get("allow_span", False),
        "retries": job.retries,
        "preemptible": job.preemptible,
        "purpose": job.purpose or None,
    }


def _counts(job: Job) -> dict[str, Any]:
    """How many GPUs on how many nodes: a refused job as it was sent, another what it spans. Nothing is said of nodes
    that are open until it is granted some, nor how many GPUs each has where the last has fewer."""
    if job.state == JobState.REJECTED:
        return {name: job.spec.get(name) for name in ("gpu_count", "node_count", "gpus_per_node")}
    is_open = job.topology.get("allow_span", False)
    return {
        "gpu_count": job.gpu_count,
        "node_count": None if is_open else job.node_count + bool(job.remainder),
        "gpus_per_node": None if is_open or job.remainder else job.gpus_per_node,
    }


def _gpus(held: Iterable[Allocation]) -> list[dict[str, Any]]:
    """The GPUs by node and by the number that each had when it was granted."""
    return [_gpu(a) for a in sorted(held, key=lambda a: (a.gpu.node.name, a.index))]


def _gpu(a: Allocation) -> dict[str, Any]:
    return {
        "node": a.gpu.node.name,
        "uuid": a.gpu.uuid,
        "index": a.index,
        "model": a.gpu.model,
        "nvlink_group_id": a.gpu.nvlink_group_id,
        "rack_id": a.gpu.node.rack_id,
    }


def holds_now() -> dict[str, Any]:
    """Why jobs wait, as the last tick found it: ``{shapes: {class: [reason]}, jobs: {id: [reason]}, ...}``."""
    return SchedulerState.objects.values_list("holds", flat=True).first() or {}


def _reasons(job: Job, last: Attempt | None, holds: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Why the job waits, or why and how it stops; empty when it does neither."""
    if last is not None and job.state == JobState.PREEMPTING:
        return [why_it_leaves(job, last)]
    if last is not None and job.state == JobState.CANCELLING:
        return [how_it_is_cancelled(last)]
    return reasons_of(job, holds)


def reasons_of(job: Job, holds: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Why the job does not run now; empty unless it waits."""
    if job.state == JobState.HELD:
        return [{"code": "HELD", "message": "Held: release it to let it start.", "numbers": {}}]
    if job.state != JobState.QUEUED:
        return []
    if (waits_for := awaits(job) or kept_back(job)) is not None:
        return [waits_for]
    holds = holds_now() if holds is None else holds
    found = holds.get("jobs", {}).get(str(job.pk))
    shapes, level = holds.get("shapes", {}), job.level.value if job.level else 0
    for seconds in (job.max_duration_s, None):
        found = found or shapes.get(class_name(job.shape, level, seconds))
    if found:
        return list(found)
    return [{"code": "NEW", "message": "The scheduler has not looked at it yet.", "numbers": {}}]


def scores_of(job: Job, holds: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The job's scores at the last tick that ranked it; empty for a job that does not wait."""
    if (
        job.state != JobState.QUEUED
        or job.awaits
        or job.kept_back
        or not (job.queue and job.project and job.user and job.level)
    ):
        return {}
    holds = holds_now() if holds is None else holds
    ratios = holds.get("deficits", {})
    found: dict[str, Any] = {}
    names = {
        "queue": job.queue.name,
        "project": job.project.name,
        "user": f"{job.project.name}/{job.user.get_username()}",
    }
    for ledger, key in names.items():
        deficit = ratios.get(ledger, {}).get(key)
        found[ledger] = None if deficit is None else round(job.level.value * (1 + deficit), 6)
        if ledger == "project":
            found["deficit"] = deficit
    return found


def one(actor: Actor, job_id: str) -> Job | None:
    """The job, if it exists and the actor may know of it."""
    try:
        key = UUID(str(job_id))
    except ValueError:
        return None
    return full(visible(actor)).filter(pk=key).first()


def filtered(actor: Actor, wanted: Mapping[str, str]) -> QuerySet[Job]:
    """Visible jobs, newest first, by ``state`` (comma-separated; ``waiting``, ``live``, ``ended``), ``kind``,
    ``queue``,
    ``project``, ``user`` and ``q`` (part of the name, or of the id)."""
    jobs = visible(actor).order_by("-submitted_at", "-id")
    groups: dict[str, Iterable[str]] = {
        "waiting": WAITING,
        "live": LIVE,
        "ended": [s for s in JobState if s not in WAITING and s not in LIVE],
    }
    if state := wanted.get("state"):
        names = [n for part in state.split(",") for n in groups.get(part.lower(), [part.upper()])]
        jobs = jobs.filter(state__in=names)
    for field, lookup in (
        ("kind", "kind"),
        ("queue", "queue__name"),
        ("project", "project__name"),
        ("user", "user__username"),
    ):
        if value := wanted.get(field):
            jobs = jobs.filter(**{lookup: actor.username if (field, value) == ("user", "me") else value})
    jobs = narrowed(jobs, wanted)
    if q := wanted.get("q"):
        by_id = Q(pk=UUID(q)) if len(q) == 36 and is_job_id(q) else Q()
        jobs = jobs.filter(Q(name__icontains=q) | by_id) if by_id else jobs.filter(name__icontains=q)
    return jobs


def events(job: Job, after: int = 0, limit: int = 500) -> list[dict[str, Any]]:
    """The job's timeline, oldest first, without what only tells how far something is."""
    rows = (
        Event.objects.filter(object="job", object_id=str(job.pk), id__gt=after)
        .exclude(type__in=journal.TICKS)
        .order_by("id")[:limit]
    )
    return [
        {"seq": e.pk, "at": e.at, "type": e.type, "actor": e.actor, "message": e.message,
         "attempt": str(e.attempt) if e.attempt else None, "epoch": e.epoch, "node": e.node or None, "data": e.data}
        for e in rows
    ]  # fmt: skip


def attempts(job: Job) -> list[dict[str, Any]]:
    """The job's runs, first to last. ``job`` comes from :func:`full`."""
    return [
        {
            "id": str(a.pk),
            "number": a.number,
            "epoch": a.epoch,
            "granted_at": a.granted_at,
            "started_at": a.started_at,
            "ended_at": a.ended_at,
            "outcome": a.outcome or None,
            "exit_code": a.exit_code,
            "error": a.error or None,
            "log_bytes": a.log_bytes,
            "resumed_from": str(a.resume_id) if a.resume_id else None,
            "lost": lost_in(a),
            "gpus": _gpus(a.allocations.all()),
            "nodes": [_part(part) for part in a.nodes.all()],
        }
        for a in job.attempts.all()
    ]


def _part(part: AttemptNode) -> dict[str, Any]:
    """What a node has said of its part of a run."""
    return {
        "node": part.node.name, "rank": part.rank, "claimed_at": part.claimed_at, "ready_at": part.ready_at,
        "started_at": part.started_at, "ended_at": part.ended_at, "outcome": part.outcome or None,
        "manner": part.end.get("data", {}).get("manner") or None,
    }  # fmt: skip


def log(job: Job, *, attempt: int | None, rank: int = 0, offset: int = 0, limit: int = 262_144) -> dict[str, Any]:
    """Log text of one attempt (the newest by default) from a byte offset: ``{attempt, offset, next, text, eof}``."""
    runs = Attempt.objects.filter(job=job)
    run = (runs.filter(number=attempt) if attempt is not None else runs.order_by("-number")).first()
    if run is None:
        return {"attempt": attempt, "offset": 0, "next": 0, "text": "", "eof": True}
    pieces: list[str] = []
    at, taken = offset, 0
    for chunk in LogChunk.objects.filter(attempt=run, rank=rank, offset__gte=_start(run, rank, offset)).order_by(
        "offset"
    ):
        raw = chunk.text.encode()
        pieces.append(
            raw[max(0, offset - chunk.offset) :].decode("utf-8", "replace") if chunk.offset < offset else chunk.text
        )
        taken += chunk.size
        at = chunk.offset + chunk.size
        if taken >= limit:
            break
    ended = run.ended_at is not None and not LogChunk.objects.filter(attempt=run, rank=rank, offset__gte=at).exists()
    return {"attempt": run.number, "offset": offset, "next": at, "text": "".join(pieces), "eof": ended}


def log_end(job: Job, rank: int, *, attempt: int | None = None) -> int:
    """How many bytes of log the attempt's rank (the newest attempt's by default) has written so far."""
    runs = Attempt.objects.filter(job=job)
    run = (runs.filter(number=attempt) if attempt is not None else runs.order_by("-number")).first()
    newest = LogChunk.objects.filter(attempt=run, rank=rank).order_by("-offset").first() if run else None
    return newest.offset + newest.size if newest else 0


def _start(run: Attempt, rank: int, offset: int) -> int:
    """The offset of the chunk that holds byte ``offset``."""
    before = LogChunk.objects.filter(attempt=run, rank=rank, offset__lte=offset).order_by("-offset").first()
    return before.offset if before and before.offset + before.size > offset else offset
