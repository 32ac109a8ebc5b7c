"""What would a snapshot of the scheduler's memory show? As much as is needed to play it forward."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduling.core.lifecycle import JobState
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import Account, LiveAttempt, Nomination, Snapshot, Usage, WaitingJob, Window

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.ledger import Key, Ledger
    from scheduling.core.scheduler import Scheduler


def likeness(scheduler: Scheduler, *more: WaitingJob) -> Snapshot:
    """The world as the scheduler has it after its last cycle, with ``more`` jobs that wait, or wait changed. Which GPUs
    take work is not in it, nor how many attempts a job has had."""
    share, inventory = scheduler.share, scheduler.inventory
    changed = {job.id for job in more}
    return Snapshot(
        now_ms=share.clock.now_ms,
        policy=scheduler.policy,
        pool=scheduler.pool,
        waiting=(*(job for job in scheduler.everyone_waiting() if job.id not in changed), *more),
        live=tuple(_attempt(scheduler, held) for held in scheduler.live.values()),
        usage=Usage(_accounts(share.queues), _accounts(share.projects), _accounts(share.users)),
        nominations=tuple(
            Nomination(job, inventory.names(each.gpus), each.deadline_ms, each.again)
            for job, each in scheduler.nominees.items()
        ),
        windows=tuple(
            Window(each.name, inventory.nodes_of(each.gpus), each.start_ms, each.end_ms, each.project)
            for each in scheduler.windows
        ),
        can_preempt=scheduler.can_preempt,
    )


def _accounts(ledger: Ledger[Key]) -> dict[Key, Account]:
    return {key: Account(entity.settled_gpu_ms, entity.settled_ms) for key, entity in ledger.entities.items()}


def _attempt(scheduler: Scheduler, held: Held) -> LiveAttempt:
    queue, project, user = held.owner
    nodes = scheduler.inventory.nodes_of(held.gpus)
    state = JobState.PREEMPTING if held.preempting else JobState.RUNNING if held.running else JobState.DISPATCHING
    return LiveAttempt(
        attempt=held.attempt,
        job=held.id,
        epoch=held.epoch,
        number=1,
        queue=queue,
        project=project,
        user=user,
        gpus=scheduler.inventory.names(held.gpus),
        nodes=nodes,
        state=state,
        granted_ms=held.run.start_ms,
        started_ms=held.started_ms,
        end_ms=held.end_ms,
        level=held.level,
        level_value=held.level_value,
        preemptible=held.preemptible,
        saved_ms=held.saved_ms,
        checkpoint_interval_s=held.checkpoint_interval_s,
        save_s=held.save_s,
        restore_s=held.restore_s,
        recent_preemptions=held.recent_preemptions,
        billing_micro=held.run.micro,
        stop_by_ms=held.stop_by_ms,
        asked_ms=held.asked_ms,
        group=held.group,
        apart=held.apart,
        left=nodes[:1] if held.leaving else (),
    )


def back_in_line(scheduler: Scheduler, held: Held, now_ms: int) -> WaitingJob:
    """The job as it would wait again had it left by now. What it asked for is not known any more: equal parts on as
    many nodes as it has, else as many GPUs on any nodes."""
    queue, project, user = held.owner
    parts = Counter(scheduler.inventory.nodes_of([gpu])[0] for gpu in held.gpus)
    count, each = len(held.gpus), max(parts.values())
    left_s = max(1, (held.end_ms - now_ms) // 1000)
    equal = each * len(parts) == count
    request = ResourceRequest(
        count, len(parts) if equal else 1, each if equal else count, max_duration_s=left_s, allow_span=not equal
    )
    return WaitingJob(
        id=held.id,
        queue=queue,
        level=held.level,
        level_value=held.level_value,
        project=project,
        user=user,
        submitted_ms=held.run.start_ms,
        request=request,
        remaining_s=left_s,
        group=held.group,
        preemptible=held.preemptible,
        recent_preemptions=held.recent_preemptions + 1,
    )
