"""What does a change do? The present played to its end twice: as things are, and with the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TypeVar

from scheduling.core.policy import Policy
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob
from scheduling.simulation.faults import Fault
from scheduling.simulation.outcome import Fate, JobOutcome, Outcome
from scheduling.simulation.report import percentile
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.world import simulate

Job = TypeVar("Job", WaitingJob, LiveAttempt)


@dataclass(frozen=True, slots=True)
class Change:
    """The rules and the pool as they would be, what breaks, and a job more. ``running``: every live job of the
    present with what it asked for, in case it has to start again. ``gone``: the waiting job that there is no more."""

    present: Snapshot
    running: tuple[SimJob, ...]
    policy: Policy
    pool: Pool
    faults: tuple[Fault, ...] = ()
    extra: SimJob | None = None
    gone: str | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds of waiting, of the jobs that have ``started``: from submission, where nothing else is said."""

    jobs: int
    started: int
    mean_wait_s: float | None
    p95_wait_s: float | None


@dataclass(frozen=True, slots=True)
class Future:
    """One of the two. ``makespan_s``: from now to the last end; ``preemptions``: evictions, those under way included;
    ``interrupted``: attempts lost with their hardware. ``again``: of the jobs that either happens to, from the loss of
    their GPUs to having some again."""

    waits: Waits
    classes: dict[str, Waits]
    makespan_s: float
    preemptions: int
    interrupted: int
    again: Waits


@dataclass(frozen=True, slots=True)
class Moved:
    """A job's start in ms in either future, None where it does not start."""

    job: str
    level: str
    before_ms: int | None
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class Stops:
    """What comes of a job in one future once it has lost its GPUs: how often it loses them, how long it then waits for
    others in all, and when it is done. None: it never has GPUs again, or never ends its work."""

    times: int
    waits_again_s: float | None
    ends_ms: int | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that loses its GPUs in one of the futures, which may run now or wait."""

    job: str
    level: str
    before: Stops
    after: Stops


@dataclass(frozen=True, slots=True)
class Difference:
    """Both futures; the jobs that start at another time, those that move most first; and those that lose their GPUs in
    either, those first whose end moves most: the stops of a future add up to its evictions and interruptions."""

    before: Future
    after: Future
    moved: tuple[Moved, ...]
    stopped: tuple[Stopped, ...]
    extra: Moved | None

    @property
    def is_none(self) -> bool:
        """Whether both futures came out the same, job by job."""
        alike = all(each.before == each.after for each in self.stopped)
        return self.before == self.after and not self.moved and alike and self.extra is None


def compare(change: Change) -> Difference:
    """The difference for the jobs that wait now, and for whoever loses its GPUs. Every job runs for what is left of its
    ``max_duration``. Who is ``gone`` counts in the future before alone, and is none of those that moved."""
    present = change.present
    waiting = {job.id for job in present.waiting}
    old = simulate(change.running, present.pool, present.policy, initial=present)
    jobs = change.running if change.extra is None else (*change.running, change.extra)
    ranked = [replace(job, waiting=levelled(job.waiting, change.policy)) for job in jobs]
    new = simulate(ranked, change.pool, change.policy, initial=_changed(change), faults=change.faults)
    homeless = {live.job for live in present.live if not set(live.gpus) <= change.pool.gpu_by_uuid.keys()}
    before, after = {job.id: job for job in old.jobs}, {job.id: job for job in new.jobs}
    pairs = [_moved(job, after[job.id]) for job in old.jobs if job.id in waiting and job.id != change.gone]
    moved = sorted((each for each in pairs if each.before_ms != each.after_ms), key=_by_move)
    extra = None
    if change.extra is not None:
        added = after[change.extra.waiting.id]
        extra = Moved(added.id, added.level, None, added.first_start_ms)
    futures = _future(old, waiting, set()), _future(new, waiting, homeless)
    return Difference(*futures, tuple(moved), tuple(_stopped(before, after, homeless)), extra)


def answer(pipe: Connection, change: Change) -> None:
    """What another process asked for is sent to it: this module loads without anything but the core."""
    pipe.send(compare(change))
    pipe.close()


def more_nodes(pool: Pool, like: str, count: int) -> Pool:
    """The pool with ``count`` nodes more, each with the hardware of the node ``like``, healthy and empty."""
    node = pool.node_by_name[like]
    gpus = pool.by_node.get(like, ())
    nodes: list[Node] = []
    added = []
    for number in range(1, count + 1):
        name = f"{like}+{number}"
        nodes.append(Node(name, node.rack_id, node.network_bandwidth_gbps, labels=node.labels))
        for gpu in gpus:
            group = None if gpu.nvlink_group_id is None else f"{gpu.nvlink_group_id}+{number}"
            fresh = replace(gpu, uuid=f"{gpu.uuid}+{number}", node=name, nvlink_group_id=group)
            added.append(fresh)
    return Pool((*pool.nodes, *nodes), (*pool.gpus, *added))


def new_nodes(pool: Pool, count: int, *, gpus: int, memory_mib: int, model: str, nvlink: int) -> Pool:
    """The pool with ``count`` nodes more, ``new-1`` and so on, each of so many GPUs, joined by NVLink in groups of
    ``nvlink`` (0: none) in the order of their numbers."""
    first = 1 + sum(1 for name in pool.node_by_name if name.startswith("new-"))
    nodes, added = [], []
    for number in range(first, first + count):
        name = f"new-{number}"
        nodes.append(Node(name, ""))
        for index in range(gpus):
            group = f"{name}-nvlink-{index // nvlink}" if nvlink else None
            added.append(Gpu(f"{name}/{index}", name, index, model, memory_mib, group))
    return Pool((*pool.nodes, *nodes), (*pool.gpus, *added))


def fewer_nodes(pool: Pool, names: Collection[str]) -> Pool:
    """The pool without these nodes."""
    return Pool(
        tuple(node for node in pool.nodes if node.name not in names),
        tuple(gpu for gpu in pool.gpus if gpu.node not in names),
    )


def _changed(change: Change) -> Snapshot:
    """The present without what speaks of hardware that there is not after the change; its jobs as the policy ranks
    them then."""
    present, pool, policy = change.present, change.pool, change.policy
    windows = [replace(each, nodes=tuple(n for n in each.nodes if n in pool.node_by_name)) for each in present.windows]
    kept = [each for each in present.nominations if set(each.gpus) <= pool.gpu_by_uuid.keys()]
    return replace(
        present,
        waiting=tuple(levelled(job, policy) for job in present.waiting if job.id != change.gone),
        live=tuple(levelled(live, policy) for live in present.live),
        windows=tuple(each for each in windows if each.nodes),
        nominations=tuple(kept),
    )


def levelled(job: Job, policy: Policy) -> Job:
    """The job with the value that the policy gives its level; as it is, where the policy does not have that."""
    queue = policy.queue(job.queue)
    level = None if queue is None else queue.level(job.level)
    return job if level is None else replace(job, level=level.name, level_value=level.value)


def _moved(before: JobOutcome, after: JobOutcome) -> Moved:
    return Moved(before.id, before.level, before.first_start_ms, after.first_start_ms)


def _by_move(moved: Moved) -> tuple[bool, int, str]:
    """Those that start in one future only come first, then the largest move."""
    if moved.before_ms is None or moved.after_ms is None:
        return (False, 0, moved.job)
    return (True, -abs(moved.after_ms - moved.before_ms), moved.job)


def _stopped(
    before: Mapping[str, JobOutcome], after: Mapping[str, JobOutcome], homeless: Collection[str]
) -> list[Stopped]:
    """Everyone who loses its GPUs in one of the futures; ``homeless``: whose GPUs the other pool does not have."""
    found = []
    for name, new in after.items():
        then, now = _stops(before.get(name), ()), _stops(new, homeless)
        if then.times or now.times:
            found.append(Stopped(name, new.level, then, now))
    return sorted(found, key=_by_end)


def _times(job: JobOutcome, homeless: Collection[str]) -> int:
    return job.preemptions + job.faults + (job.id in homeless)


def _stops(job: JobOutcome | None, homeless: Collection[str]) -> Stops:
    if job is None:
        return Stops(0, None, None)
    ends_ms = job.end_ms if job.fate is Fate.FINISHED else None
    return Stops(_times(job, homeless), job.waited_again_ms / 1000 if job.resumed else None, ends_ms)


def _by_end(stopped: Stopped) -> tuple[bool, int, str]:
    """Those that end in one future only come first, then the largest move of the end."""
    before_ms, after_ms = stopped.before.ends_ms, stopped.after.ends_ms
    if before_ms is None or after_ms is None:
        return (False, 0, stopped.job)
    return (True, -abs(after_ms - before_ms), stopped.job)


def _future(outcome: Outcome, waiting: Collection[str], homeless: Collection[str]) -> Future:
    jobs = [job for job in outcome.jobs if job.id in waiting]
    levels = sorted({(-job.level_value, job.level) for job in jobs})
    ends = [job.end_ms for job in outcome.jobs if job.end_ms is not None]
    stopped = [job for job in outcome.jobs if _times(job, homeless)]
    return Future(
        waits=_waits(jobs),
        classes={level: _waits([job for job in jobs if job.level == level]) for _, level in levels},
        makespan_s=(max(ends, default=outcome.began_ms) - outcome.began_ms) / 1000,
        preemptions=sum(job.preemptions for job in outcome.jobs),
        interrupted=sum(job.faults + (job.id in homeless) for job in outcome.jobs),
        again=_summed(len(stopped), [job.waited_again_ms / 1000 for job in stopped if job.resumed]),
    )


def _waits(jobs: list[JobOutcome]) -> Waits:
    found = [(job.first_start_ms - job.submitted_ms) / 1000 for job in jobs if job.first_start_ms is not None]
    return _summed(len(jobs), found)


def _summed(jobs: int, found: list[float]) -> Waits:
    mean = round(sum(found) / len(found), 3) if found else None
    return Waits(jobs, len(found), mean, percentile(found, 95))
