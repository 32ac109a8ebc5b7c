"""The last days as they can be played again: recorded jobs with the work they had, and what of that is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.snapshot import LiveAttempt, Snapshot
from scheduling.core.words import agree, jobs_in_words
from scheduling.simulation.faults import Fault
from scheduling.simulation.past import Life, Past
from scheduling.simulation.runtime import SimJob
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.load_pool import windows_in
from scheduling.store.queries import past as rows
from scheduling.store.queries.past import PastJob, Run

CHECKPOINT_S = 600  # how often one saves of which is known only that it does


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded: as it can be played, as it was, and what is to be said of the difference."""

    past: Past
    pool: Pool
    really: tuple[Life, ...]
    notes: tuple[str, ...]


def recorded(until: datetime, *, days: int, policy: Policy) -> Recorded:
    """The ``days`` up to ``until``, with the nodes that there are now, each in service but while it was recorded that
    it was not."""
    since = until - timedelta(days=days)
    from_ms, until_ms = to_ms(since), to_ms(until)
    known = rows.jobs(since, until)
    played = [job for job in known if _can_be_played(job)]
    pool = _in_service(load.pool_of())
    begin = Snapshot(
        from_ms,
        policy,
        pool,
        live=tuple(_live(played, from_ms)),
        usage=rows.usage(since, half_life_s=policy.half_life_s),
        windows=windows_in(since, until),
    )
    first = {job.waiting.id: job.runs[0].granted_ms for job in played if job.runs and job.runs[0].granted_ms < from_ms}
    past = Past(
        begin, tuple(_sim(job, from_ms, until_ms) for job in played), tuple(_faults(since, until)), until_ms, first
    )
    really = tuple(_really(job, from_ms, until_ms) for job in played)
    return Recorded(past, pool, really, (*_notes(known), *_of_the_policy(since, until)))


def _can_be_played(job: PastJob) -> bool:
    """Whether it ever ran, or waits now: of a job that ended without a run nothing is known of its work."""
    return bool(job.runs) or not (job.over or job.kept)


def _in_service(pool: Pool) -> Pool:
    """The pool with every node taking work, and every GPU that is not retired."""
    return Pool(
        tuple(replace(node, state=NodeState.READY, closed_by="") for node in pool.nodes),
        tuple(g if g.state is GpuState.RETIRED else replace(g, state=GpuState.HEALTHY) for g in pool.gpus),
    )


def _at(job: PastJob, ms: int) -> Run | None:
    """The run that held GPUs then."""
    for run in job.runs:
        if run.granted_ms < ms and (run.ended_ms is None or run.ended_ms > ms):
            return run
    return None


def _live(played: Sequence[PastJob], from_ms: int) -> Iterator[LiveAttempt]:
    """Who held GPUs at the beginning."""
    runs = {job.waiting.id: run for job in played if (run := _at(job, from_ms)) is not None}
    held = rows.held(run.attempt for run in runs.values())
    for job in played:
        waiting, run = job.waiting, runs.get(job.waiting.id)
        if run is None or run.attempt not in held:
            continue
        gpus, nodes, billing = held[run.attempt]
        yield LiveAttempt(
            attempt=str(run.attempt), job=waiting.id, epoch=run.epoch, number=run.number, queue=waiting.queue,
            project=waiting.project, user=waiting.user, gpus=gpus, nodes=nodes, state=JobState.RUNNING,
            granted_ms=run.granted_ms, started_ms=run.started_ms, end_ms=max(run.limit_ms, from_ms + 1000),
            level=waiting.level, level_value=waiting.level_value, preemptible=waiting.preemptible,
            billing_micro=billing, group=waiting.group, apart=waiting.request.apart,
        )  # fmt: skip


def _sim(job: PastJob, from_ms: int, until_ms: int) -> SimJob:
    """The job with the work that it had left at the beginning; to the end of its limit where it has not ended."""
    waiting = job.waiting
    before_ms = sum(_worked_ms(run, 0, from_ms) for run in job.runs)
    left_s = max(1, waiting.request.max_duration_s - before_ms // 1000)
    runs_ms: int | None = sum(_worked_ms(run, from_ms, until_ms) for run in job.runs)
    if not job.over:
        last = job.runs[-1] if job.runs else None
        going = last is not None and last.ended_ms is None
        runs_ms = (runs_ms or 0) + max(0, last.limit_ms - until_ms) if going and last is not None else None
    return SimJob(
        replace(waiting, remaining_s=left_s),
        None if runs_ms is None else max(1, runs_ms),
        CHECKPOINT_S if job.saves else 0,
    )


def _worked_ms(run: Run, from_ms: int, until_ms: int) -> int:
    """Milliseconds from ``from_ms`` on that it held its GPUs and that were not lost."""
    whole = _overlap(run.granted_ms, until_ms if run.ended_ms is None else run.ended_ms, from_ms, until_ms)
    return max(0, whole - sum(_overlap(start, end, from_ms, until_ms) for start, end in run.lost))


def _overlap(start: int, end: int, from_ms: int, until_ms: int) -> int:
    return max(0, min(end, until_ms) - max(start, from_ms))


def _really(job: PastJob, from_ms: int, until_ms: int) -> Life:
    """What became of the job in fact."""
    waiting = job.waiting
    return Life(
        waiting.id, waiting.queue, waiting.level, waiting.level_value, waiting.project, waiting.user,
        waiting.request.gpu_count, max(waiting.submitted_ms, waiting.not_before_ms),
        job.runs[0].granted_ms if job.runs else None,
        tuple((run.granted_ms, until_ms if run.ended_ms is None else run.ended_ms) for run in job.runs),
        sum(1 for run in job.runs if run.evicted and run.ended_ms is not None and run.ended_ms >= from_ms),
    )  # fmt: skip


def _faults(since: datetime, until: datetime) -> Iterator[Fault]:
    for node, gpu, start, end, spares in rows.closed(since, until):
        yield Fault(start, node=node, gpu=gpu, repaired_ms=end, spares=spares)


def _notes(known: Sequence[PastJob]) -> Iterator[str]:
    """What is not known of these days, and what is taken for it."""
    never = sum(1 for job in known if not job.runs and job.over)
    if never:
        yield (
            f"{jobs_in_words(never)} ended without ever having run (cancelled, or out of time) and "
            f"{agree(never, 'is', 'are')} left out: nobody knows how long {agree(never, 'it', 'they')} would have run."
        )
    kept = sum(1 for job in known if not job.runs and job.kept)
    if kept:
        yield f"{jobs_in_words(kept)} held, or in no queue yet, {agree(kept, 'is', 'are')} left out."
    going = sum(1 for job in known if not job.over and job.runs and job.runs[-1].ended_ms is None)
    if going:
        yield (
            f"{jobs_in_words(going)} {agree(going, 'runs', 'run')} still: each is taken to run to the end of its time "
            "limit."
        )
    wait = sum(1 for job in known if _can_be_played(job) and not job.over) - going
    if wait:
        words = f"{jobs_in_words(wait)} {agree(wait, 'waits', 'wait')} still"
        yield f"{words}: each is taken to run for its whole time limit."


def _of_the_policy(since: datetime, until: datetime) -> Iterator[str]:
    changes = rows.policy_changes(since, until)
    if changes:
        times = "once" if changes == 1 else f"{changes} times"
        yield f"The policy was changed {times} in these days: both sides keep to the one that holds now throughout."
