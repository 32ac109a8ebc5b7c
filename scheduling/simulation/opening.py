"""Who is where when a simulation begins? Jobs to come, in the queue, on their GPUs, or rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduling.core.lifecycle import JobState
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest, Shape
from scheduling.core.snapshot import LiveAttempt, Snapshot
from scheduling.simulation.outcome import Fate, JobOutcome
from scheduling.simulation.rejection import Rejection, rejection
from scheduling.simulation.run import QUEUED, RUNNING, SAVING, Run
from scheduling.simulation.runtime import Runtime, SimJob

LIVE = (RUNNING, SAVING)


@dataclass(frozen=True, slots=True)
class Opening:
    """The simulated jobs in the order they come, those that are rejected, the projects in the order of the runs'
    ``entity``, and the world as the scheduler is told it."""

    runs: tuple[Run, ...]
    rejected: tuple[JobOutcome, ...]
    projects: tuple[str, ...]
    snapshot: Snapshot


def opening(begin: Snapshot, jobs: Iterable[SimJob], runtime: Runtime, *, restore_s: int) -> Opening:
    """The jobs and what ``begin`` has waiting and live, brought together; see ``simulate`` for what must hold."""
    waiting = {job.id: job for job in begin.waiting}
    live = {attempt.job: attempt for attempt in begin.live}
    sims = _distinct(jobs)
    described = {sim.waiting.id for sim in sims}
    sims += [SimJob(job) for name, job in waiting.items() if name not in described]
    sims.sort(key=lambda sim: (sim.waiting.submitted_ms, sim.waiting.id))
    for name in live:
        if name not in described:
            raise ValueError(f"job {name} is live at the beginning: say among the jobs what it has left to do")
    projects = tuple(sorted({sim.waiting.project for sim in sims}))
    places = {project: place for place, project in enumerate(projects)}
    judge = _Judge(begin.pool)
    runs: list[Run] = []
    rejected: list[JobOutcome] = []
    for sim in sims:
        attempt = live.get(sim.waiting.id)
        limit_ms = sim.waiting.remaining_s * 1000
        if attempt is not None:
            limit_ms = max(1, attempt.end_ms - begin.now_ms)
        run = Run(sim, len(runs), places[sim.waiting.project], runs_ms=runtime(sim, limit_ms), limit_ms=limit_ms)
        run.arrives_ms = max(run.arrives_ms, begin.now_ms)
        because = None if attempt is not None else judge.rejection(sim.waiting.request)
        if because is not None:
            rejected.append(run.outcome(Fate.REJECTED)._replace(because=because))
            continue
        if attempt is not None:
            _take_over(run, attempt, begin, restore_s=restore_s)
        elif run.id in waiting:
            run.waiting, run.stage = waiting[run.id], QUEUED
        runs.append(run)
    snapshot = replace(
        begin,
        waiting=tuple(run.waiting for run in runs if run.stage == QUEUED),
        live=tuple(live[run.id] for run in runs if run.stage in LIVE),
    )
    return Opening(tuple(runs), tuple(rejected), projects, snapshot)


def _distinct(jobs: Iterable[SimJob]) -> list[SimJob]:
    sims = list(jobs)
    seen: set[str] = set()
    for sim in sims:
        if sim.waiting.id in seen:
            raise ValueError(f"two jobs have the id {sim.waiting.id}: give each its own")
        seen.add(sim.waiting.id)
    return sims


def _take_over(run: Run, attempt: LiveAttempt, begin: Snapshot, *, restore_s: int) -> None:
    """The job goes on where it runs; or it is queued again when the pool no longer has its GPUs (they were drained)."""
    run.first_ms = attempt.granted_ms if attempt.started_ms is None else attempt.started_ms
    if not all(gpu in begin.pool.gpu_by_uuid for gpu in attempt.gpus):
        run.requeue(begin.now_ms, restore_s)
        return
    run.start(begin.now_ms, attempt.gpus, attempt.nodes)
    if attempt.state is JobState.PREEMPTING:
        run.stage = SAVING
        run.preemptions += 1  # which was decided before the beginning
    elif attempt.state is JobState.CANCELLING:
        run.left_ms = 0


class _Judge:
    """Why the pool could never hold which requests; asked once for requests of one shape."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[Shape, Rejection | None] = {}

    def rejection(self, request: ResourceRequest) -> Rejection | None:
        key = request.shape
        if key not in self._known:
            self._known[key] = rejection(self._pool, request)
        return self._known[key]
