"""Builders of small worlds: nodes of equal GPUs, waiting jobs, running attempts. Defaults are the dullest values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.plan import Plan
from scheduling.core.policy import DEFAULT_POLICY, Backfill, Policy
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.snapshot import Account, LiveAttempt, NodeLease, Snapshot, Usage, WaitingJob
from scheduling.core.units import parse_memory

NOW = 10_000
HOUR_S = 3600
HOUR_MS = 3_600_000
LEVELS = {"Critical": 4, "Realtime": 4, "High": 3, "Normal": 2, "Low": 1}


def gpus(node: str, count: int, *, memory: str = "80GB", group: str | None = None, first: int = 0, **more) -> list[Gpu]:
    """``count`` GPUs of a node named n0/0, n0/1, ..."""
    memory_mib = parse_memory(memory)
    return [
        Gpu(
            f"{node}/{index}",
            node,
            index,
            more.get("model", "A100"),
            memory_mib,
            group,
            more.get("state", GpuState.HEALTHY),
        )
        for index in range(first, first + count)
    ]


def node(name: str, **more) -> Node:
    return Node(name, more.pop("rack", "r0"), more.pop("gbps", 100.0), **more)


def pool(*parts: Sequence[Gpu], nodes: Iterable[Node] = ()) -> Pool:
    """A pool of the GPUs; nodes that are not given are plain READY ones."""
    every = [gpu for part in parts for gpu in part]
    given = {each.name: each for each in nodes}
    names = sorted({gpu.node for gpu in every} - set(given))
    return Pool((*given.values(), *(node(name) for name in names)), tuple(every))


def groups(count: int, size: int, *, memory: str = "80GB") -> Pool:
    """``count`` nodes n0, n1, ... each with one NVLink group g0, g1, ... of ``size`` GPUs."""
    return pool(*(gpus(f"n{place}", size, memory=memory, group=f"g{place}") for place in range(count)))


def loose(count: int) -> Pool:
    """One node with ``count`` GPUs without NVLink."""
    return pool(gpus("n0", count))


def request(count: int = 1, *, nvlink: bool = False, memory: str | None = None, **more) -> ResourceRequest:
    return ResourceRequest(
        gpu_count=count,
        nvlink_required=nvlink,
        gpu_memory_min_mib=parse_memory(memory) if memory else 0,
        max_duration_s=more.pop("seconds", HOUR_S),
        affinity=tuple(more.pop("rules", ())),
        **more,
    )


def rule(key: str, op: str, *values: str, wish: int | None = None) -> AffinityTerm:
    """A required rule, or with ``wish`` a preferred one of that weight."""
    return AffinityTerm(key, op, values, wish, wish is None)


def job(name: str, count: int = 1, *, at: float = 0, **more) -> WaitingJob:
    """A waiting job submitted ``at`` seconds; the rest goes to the request."""
    level = more.pop("level", "Normal")
    own = {
        "queue": more.pop("queue", "merge"),
        "project": more.pop("project", "A"),
        "eligible_at_ms": more.pop("eligible_at_ms", 0),
        "not_before_ms": more.pop("not_before_ms", 0),
        "start_by_ms": more.pop("start_by_ms", None),
        "group": more.pop("family", None),
        "avoid_gpus": frozenset(more.pop("avoid_gpus", ())),
        "avoid_nodes": frozenset(more.pop("avoid_nodes", ())),
    }
    user = more.pop("user", f"user of {own['project']}")
    asked = request(count, **more)
    return WaitingJob(
        id=name,
        level=level,
        level_value=LEVELS[level],
        user=user,
        submitted_ms=round(at * 1000),
        request=asked,
        remaining_s=asked.max_duration_s,
        **own,
    )


def gang(name: str, nodes: int, each: int, *, remainder: int = 0, **more) -> WaitingJob:
    """A waiting job of so many nodes with so many GPUs ``each``, and ``remainder`` on one node more."""
    return job(name, nodes * each + remainder, node_count=nodes, gpus_per_node=each, remainder=remainder, **more)


def live(name: str, *held: str, seconds: int = HOUR_S, state: JobState = JobState.RUNNING, **more) -> LiveAttempt:
    """An attempt of job ``name`` on the GPUs. It has ``seconds`` left from ``now_ms``, or ends at second ``ends``.

    It was granted, claimed and started at ``granted_ms``, by default just now.
    """
    project, now = more.pop("project", "Z"), more.pop("now_ms", NOW)
    granted = more.pop("granted_ms", now)
    nodes = tuple(dict.fromkeys(gpu.split("/")[0] for gpu in held))
    level = more.pop("level", "Normal")
    return LiveAttempt(
        attempt=f"attempt of {name}",
        job=name,
        epoch=more.pop("epoch", 1),
        number=1,
        queue=more.pop("queue", "merge"),
        project=project,
        user=more.pop("user", f"user of {project}"),
        gpus=held,
        nodes=nodes,
        state=state,
        granted_ms=granted,
        started_ms=None if state is JobState.DISPATCHING else granted,
        unclaimed=more.pop("unclaimed", nodes if state is JobState.DISPATCHING else ()),
        end_ms=round(more.pop("ends", now / 1000 + seconds) * 1000),
        level=level,
        level_value=LEVELS[level],
        group=more.pop("family", None),
        **more,
    )


def lease(name: str, *, silent_s: float, now_ms: int = NOW) -> NodeLease:
    return NodeLease(name, "boot", now_ms - round(silent_s * 1000), round(silent_s * 1000))


def used(
    *, queue: Mapping[str, float] | None = None, project: Mapping[str, float] | None = None, at_ms: int = NOW
) -> Usage:
    """What was consumed by ``at_ms``, in GPU-hours; each project's is also its one user's."""
    projects = {name: Account(hours * HOUR_MS, at_ms) for name, hours in (project or {}).items()}
    return Usage(
        {name: Account(hours * HOUR_MS, at_ms) for name, hours in (queue or {}).items()},
        projects,
        {(name, f"user of {name}"): amount for name, amount in projects.items()},
    )


def weighted(**projects: float) -> Policy:
    """The default policy with these project weights."""
    return replace(DEFAULT_POLICY, project_weights=projects)


def patient(policy: Policy = DEFAULT_POLICY, *, per_level: int = 2, grace_s: float = 60.0) -> Policy:
    """The policy the worked examples were computed with: two reservations per level, a grace of a minute."""
    queues = tuple(replace(queue, grace_s=grace_s) for queue in policy.queues)
    return replace(policy, queues=queues, backfill=Backfill(reservations_per_level=per_level))


def world(the_pool: Pool, *waiting: WaitingJob, **more) -> Snapshot:
    return Snapshot(
        now_ms=more.pop("now_ms", NOW),
        policy=more.pop("policy", DEFAULT_POLICY),
        pool=the_pool,
        waiting=waiting,
        live=tuple(more.pop("running", ())),
        leases=tuple(more.pop("leases", ())),
        usage=more.pop("usage", Usage()),
        **more,
    )


def order_of(plan: Plan) -> list[str]:
    """The jobs in the order in which they start."""
    return [start.job for start in plan.starts]


def places_of(plan: Plan) -> dict[str, list[str]]:
    """The GPUs of each job that starts, sorted."""
    return {start.job: sorted(start.gpus) for start in plan.starts}


def nominated(plan: Plan) -> dict[str, list[str]]:
    """The GPUs kept for each job that evicts, sorted."""
    return {each.job: sorted(each.gpus) for each in plan.nominations}


def victims(plan: Plan) -> list[str]:
    """The jobs that are asked to stop, sorted."""
    return sorted(each.job for each in plan.preempts)


def promised(plan: Plan) -> dict[str, tuple[float, list[str]]]:
    """Per reservation the second it starts at and its GPUs, sorted."""
    return {each.job: (each.start_ms / 1000, sorted(each.gpus)) for each in plan.reservations}


def codes_of(plan: Plan) -> dict[str, list[str]]:
    """The codes of the reasons of each job that waits on."""
    return {hold.job: [reason.code for reason in hold.reasons] for hold in plan.holds}


def numbers_of(plan: Plan, name: str, code: str) -> dict[str, object]:
    """The numbers of one reason of one job."""
    hold = next(hold for hold in plan.holds if hold.job == name)
    return dict(next(reason for reason in hold.reasons if reason.code == code).numbers)


def with_gpu_state(the_pool: Pool, uuid: str, state: GpuState) -> Pool:
    """The pool with one GPU in another state."""
    return Pool(the_pool.nodes, tuple(replace(gpu, state=state) if gpu.uuid == uuid else gpu for gpu in the_pool.gpus))


def with_node_state(the_pool: Pool, name: str, state: NodeState) -> Pool:
    """The pool with one node in another state."""
    return Pool(
        tuple(replace(each, state=state) if each.name == name else each for each in the_pool.nodes), the_pool.gpus
    )
