"""A plan becomes rows. Stale actions are told, not raised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import F

from scheduling.core.lifecycle import GpuState, JobState, NodeState, sources_of
from scheduling.core.lifecycle import JobEvent as Ev
from scheduling.core.plan import Plan, Start
from scheduling.core.policy import Policy
from scheduling.models import Allocation, Attempt, AttemptNode, Gpu, Job, Nomination
from scheduling.store import journal
from scheduling.store.commit import evictions, giving_back, nominations, resuming
from scheduling.store.commit.taking_back import take_back
from scheduling.store.commit.transitions import lock_job, step
from scheduling.store.load_policy import billing_weights

TOO_LATE = "start_by has passed"
# A tick takes the time before it reads: what was submitted, or has left its GPUs, in between comes before its grants.
# What is later than that is by a clock that has been set back since.
READ_WITHIN = timedelta(seconds=30)


@dataclass(slots=True)
class Applied:
    """What of a plan took effect: jobs that started, expired or are to leave, attempts that were taken back, nodes to
    ring, and actions that had become stale."""

    started: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    reclaimed: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    stale: list[str] = field(default_factory=list)


def apply(plan: Plan, *, now: datetime, policy: Policy, actor: str) -> Applied:
    """Every action of the plan that is still lawful is in the database, each group in one transaction."""
    applied = Applied()
    if plan.lose_nodes or plan.reclaims:
        back = take_back(plan, now=now, actor=actor, policy=policy)
        applied = Applied(reclaimed=back.ended, nodes=back.ring, stale=back.stale)
    for late in plan.expired:
        _expire(late.job, applied, now=now, actor=actor)
    settled = [UUID(ended.job) for ended in plan.unnominations] + [UUID(start.job) for start in plan.starts]
    if settled:
        dropped = nominations.drop(settled, plan, now=now, actor=actor)
        applied.nodes.update(evictions.spare(settled, now=now, actor=actor))
        if dropped:
            giving_back.give_back(settled, plan, slack_s=policy.evict.nomination_slack_s, now=now, actor=actor)
    if plan.starts:
        try:
            _grant(plan.starts, applied, now=now, actor=actor)
        except IntegrityError as lost_race:  # the unique index is the last net: nothing of this group is written
            applied.stale.extend(f"start {s.job}: {lost_race.__class__.__name__}" for s in plan.starts)
    for wants in plan.nominations:
        victims = [each for each in plan.preempts if each.nominee == wants.job]
        nodes = evictions.evict(wants, victims, now=now, actor=actor)
        if nodes is None:
            applied.stale.append(f"evict for {wants.job}")
        else:
            applied.evicted += [each.job for each in victims]
            applied.nodes.update(nodes)
    return applied


@transaction.atomic
def _expire(job_id: str, applied: Applied, *, now: datetime, actor: str) -> None:
    """The job, if it still waits, is CANCELLED: it was not to start any more."""
    job = lock_job(UUID(job_id))
    if job is None or job.state != JobState.QUEUED:
        applied.stale.append(f"expire {job_id}")
        return
    step(job, Ev.CANCEL, now, actor=actor, message=TOO_LATE, data={"cause": "start_by"},
         fields={"outcome": "CANCELLED", "error": TOO_LATE})  # fmt: skip
    applied.expired.append(job_id)


def _lawful(starts: Sequence[Start]) -> tuple[list[Start], dict[str, Job], dict[str, Gpu]]:
    """The starts of jobs that still wait on GPUs that are still to be had, with those jobs and GPUs, locked."""
    jobs = {
        str(j.pk): j
        for j in Job.objects.select_for_update(of=("self",))
        .select_related("project")
        .filter(pk__in=[UUID(s.job) for s in starts], state__in=sources_of(Ev.GRANT))
    }
    gpus = {
        g.uuid: g
        for g in Gpu.objects.select_related("node")
        .filter(
            uuid__in=[u for s in starts for u in s.gpus],
            state=GpuState.HEALTHY,
            node__state=NodeState.READY,
            node__live__leaving=False,
        )
        .exclude(allocations__released_at__isnull=True, allocations__id__isnull=False)
    }
    kept = {
        uuid for uuids in Nomination.objects.exclude(job_id__in=jobs).values_list("gpus", flat=True) for uuid in uuids
    }
    lawful = [s for s in starts if s.job in jobs and all(u in gpus and u not in kept for u in s.gpus)]
    return lawful, jobs, gpus


@transaction.atomic
def _grant(starts: Sequence[Start], applied: Applied, *, now: datetime, actor: str) -> None:
    """All lawful starts are granted in one transaction: attempt, allocations, job DISPATCHING, event."""
    lawful, jobs, gpus = _lawful(starts)
    applied.stale.extend(f"start {s.job}" for s in starts if s not in lawful)
    if not lawful:
        return
    resuming.leave_damaged([jobs[s.job] for s in lawful], now, actor=actor)
    held = Allocation.objects.filter(gpu__in=[gpus[u].pk for s in lawful for u in s.gpus], released_at__gt=now)
    before = [*held.values_list("released_at", flat=True), *(jobs[s.job].submitted_at for s in lawful)]
    now = max([now, *(at for at in before if at is not None and at - now < READ_WITHIN)])
    billing = billing_weights()
    attempts, parts, granted, notes = [], [], [], []
    for s in lawful:
        job = jobs[s.job]
        attempt = Attempt(
            id=uuid4(), job=job, number=job.attempt_number + 1, epoch=job.epoch + 1, granted_at=now,
            remaining_s=max(1, job.max_duration_s - job.ran_ms // 1000), resume_id=job.resume_id,
            resume_step=job.resume_step,
        )  # fmt: skip
        attempts.append(attempt)
        by_name = {gpus[u].node.name: gpus[u].node for u in s.gpus}
        nodes = [by_name[name] for name in s.nodes]
        parts += [AttemptNode(attempt=attempt, node=node, rank=rank) for rank, node in enumerate(nodes)]
        granted += [
            Allocation(
                attempt=attempt,
                gpu=gpus[u],
                gpu_index=gpus[u].index,
                granted_at=now,
                billing=billing.get(gpus[u].model, 1.0),
            )
            for u in s.gpus
        ]
        names = ", ".join(f"{gpus[u].node.name}/{gpus[u].index}" for u in s.gpus)
        notes.append(
            journal.Note(
                "granted", "job", s.job, actor=actor, version=job.version + 1,
                project=job.project.name if job.project else "", attempt=attempt.pk, epoch=attempt.epoch,
                node=nodes[0].name, message=f"attempt {attempt.number} gets {names}",
                data={"from": "QUEUED", "to": "DISPATCHING", "gpus": list(s.gpus), "number": attempt.number},
            )
        )  # fmt: skip
        applied.started.append(s.job)
        applied.nodes.update(n.name for n in nodes)
    Attempt.objects.bulk_create(attempts)
    AttemptNode.objects.bulk_create(parts)
    Allocation.objects.bulk_create(granted)
    Job.objects.filter(pk__in=[a.job_id for a in attempts], state__in=sources_of(Ev.GRANT)).update(
        state=JobState.DISPATCHING, version=F("version") + 1, attempt_number=F("attempt_number") + 1,
        epoch=F("epoch") + 1, preempted=False, eligible_at=None, error="", exit_code=None,
        progress_step=F("resume_step"),
    )  # fmt: skip
    journal.write(notes, now)
