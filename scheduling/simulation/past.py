"""What would the same days have been under other rules, or with other nodes? Recorded jobs and faults played again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.snapshot import Snapshot
from scheduling.simulation.comparison import levelled
from scheduling.simulation.faults import Fault
from scheduling.simulation.outcome import Fate, Outcome
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.world import Watch, simulate

Stretch = tuple[int, int]
_ENDS = frozenset(("finish", "saved", "lost"))


@dataclass(frozen=True, slots=True)
class Past:
    """What was recorded from ``begin.now_ms`` to ``until_ms``: who ran at the beginning and had consumed what, the jobs
    with the work they turned out to have, and when nodes and GPUs took no work. ``ran_before``: when those that had run
    by the beginning had started for the first time."""

    begin: Snapshot
    jobs: tuple[SimJob, ...]
    faults: tuple[Fault, ...]
    until_ms: int
    ran_before: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Life:
    """What became of one job in one telling of these days. ``due_ms``: since when it could have started;
    ``started_ms``: when it first held GPUs, None for never; ``held``: when it held its ``gpus``."""

    id: str
    queue: str
    level: str
    level_value: int
    project: str
    user: str
    gpus: int
    due_ms: int
    started_ms: int | None
    held: tuple[Stretch, ...]
    preemptions: int = 0
    rejected: bool = False


def played(past: Past, policy: Policy, pool: Pool, watch: Watch | None = None) -> tuple[Life, ...]:
    """The life of each recorded job, had ``policy`` ruled and the nodes been those of ``pool``; a job that this pool
    could never hold is rejected. ``watch``: see ``simulate``."""
    begin = replace(
        past.begin,
        live=tuple(levelled(live, policy) for live in past.begin.live),
        windows=tuple(
            each
            for each in (
                replace(window, nodes=tuple(name for name in window.nodes if name in pool.node_by_name))
                for window in past.begin.windows
            )
            if each.nodes
        ),
    )
    jobs = [replace(job, waiting=levelled(job.waiting, policy)) for job in past.jobs]
    there = [fault for fault in past.faults if fault.node in pool.node_by_name or fault.gpu in pool.gpu_by_uuid]
    outcome = simulate(jobs, pool, policy, faults=there, until_ms=past.until_ms, initial=begin, watch=watch)
    return _lives(past, outcome)


def _lives(past: Past, outcome: Outcome) -> tuple[Life, ...]:
    held = _held(past, outcome)
    came = {job.waiting.id: job.waiting for job in past.jobs}
    found = []
    for job in outcome.jobs:
        waiting = came[job.id]
        found.append(
            Life(
                job.id, waiting.queue, job.level, job.level_value, waiting.project, waiting.user, job.gpus,
                max(waiting.submitted_ms, waiting.not_before_ms), past.ran_before.get(job.id, job.first_start_ms),
                tuple(held.get(job.id, ())),
                job.preemptions, job.fate is Fate.REJECTED,
            )
        )  # fmt: skip
    return tuple(found)


def _held(past: Past, outcome: Outcome) -> Mapping[str, list[Stretch]]:
    """When each job held its GPUs, up to the end of the days."""
    found: dict[str, list[Stretch]] = defaultdict(list)
    since = {live.job: past.begin.now_ms for live in past.begin.live}
    for ms, what, job, _ in outcome.log:
        if what == "start":
            since[job] = ms
        elif what in _ENDS and job in since:
            found[job].append((since.pop(job), ms))
    for job, start in since.items():
        if start < past.until_ms:
            found[job].append((start, past.until_ms))
    return found
