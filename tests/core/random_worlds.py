"""Random small worlds in which everything occurs that a plan depends on. The dice come from outside: a seeded
``Random``, or one of Hypothesis, which then looks for the smallest world that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.policy import DEFAULT_POLICY, Backfill, Policy
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import AffinityTerm, GroupRule, ResourceRequest
from scheduling.core.snapshot import (
    ALWAYS_SAVED,
    Account,
    LiveAttempt,
    NodeLease,
    Nomination,
    Snapshot,
    Usage,
    WaitingJob,
    Window,
)

NOW = 200_000_000
LEAVING = (JobState.PREEMPTING, JobState.CANCELLING)
S = 1000
SIZES = (22_889, 38_147, 76_294)
LEVELS = {
    "merge": ("Critical", "Critical", "High", "Normal", "Normal", "Low"),
    "eval": ("High", "Normal", "Low"),
    "inference": ("Realtime", "Normal", "Normal"),
}
VALUES = {"Critical": 4, "Realtime": 4, "High": 3, "Normal": 2, "Low": 1}
FAMILIES = ("red", "blue")
PLACES = ("node", "nvlink_group", "rack")
T = TypeVar("T")


@dataclass(frozen=True)
class Taste:
    """How large a world is and what occurs in it."""

    nodes: int = 5
    per_node: int = 5
    jobs: int = 10
    running: int = 6
    families: bool = True
    windows: bool = True
    nominations: bool = True
    silence: bool = False
    gangs_evict: bool = True
    urgent: bool = False
    drift: bool = False  # GPUs of one model report memory that differs a little
    hurried: bool = False  # most jobs have a latest start
    unsaved: bool = False  # queues whose jobs never leave without a checkpoint, and jobs that were asked in vain


ROOMY = Taste(nodes=6, per_node=8, running=3)
TIGHT = Taste(nodes=4, running=9)
DRIFT = Taste(nodes=6, per_node=4, jobs=6, running=2, windows=False, drift=True)
URGENT = Taste(nodes=5, running=12, families=False, nominations=False, windows=False, urgent=True)
HURRIED = Taste(nodes=4, running=9, hurried=True)
UNSAVED = Taste(nodes=4, jobs=8, running=12, families=False, windows=False, urgent=True, unsaved=True)


def some(dice: Random, *choices: T) -> T:
    """One of the choices."""
    return choices[dice.randrange(len(choices))]


def rarely(dice: Random, one_in: int) -> bool:
    """True once in so many times; the plain case is the one that examples shrink to."""
    return dice.randrange(one_in) == one_in - 1


def a_pool(dice: Random, taste: Taste) -> Pool:
    """Nodes in up to three racks; groups on one node, parts of groups over nodes, loose GPUs; mostly healthy."""
    nodes, boards = [], []
    uniform = some(dice, *SIZES) if dice.randrange(2) else None
    for place in range(max(1, taste.nodes - dice.randrange(4))):
        name, rack = f"n{place}", some(dice, "r0", "r0", "r1", "r2", "")
        state = some(dice, NodeState.CORDONED, NodeState.DRAINING) if rarely(dice, 12) else NodeState.READY
        nodes.append(Node(name, rack, some(dice, 100.0, 100.0, 400.0), state))
        layout = some(dice, ("own",), ("own",), ("a", "b"), (None,), ("own", None), (f"span {rack}",), ("span",))
        for index in range(max(0, taste.per_node - some(dice, 0, 0, 1, 1, 2, 3, taste.per_node))):
            part = layout[index % len(layout)]
            group = f"{name} {part}" if part in ("own", "a", "b") else part
            odd = (GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.QUARANTINED, GpuState.RETIRED)
            health = some(dice, *odd) if rarely(dice, 20) else GpuState.HEALTHY
            memory = uniform if uniform else some(dice, *SIZES)
            memory -= 361 * (len(boards) % 2) if taste.drift else 0
            model = some(dice, "A100", "A100", "H100")
            boards.append(Gpu(f"{name}/{index}", name, index, model, memory, group, health))
    return Pool(tuple(nodes), tuple(boards))


def a_request(dice: Random, taste: Taste, *, may_evict: bool) -> ResourceRequest:
    """One node, NVLink or not, exclusive or not; several nodes; or over any nodes."""
    memory = some(dice, 0, 0, 0, *SIZES)
    common = {"gpu_memory_min_mib": memory, "max_duration_s": 60 * some(dice, 1, 5, 10, 10, 60, 100)}
    if rarely(dice, 4):
        common["affinity"] = _terms(dice)
    if taste.families and rarely(dice, 5):
        rule = GroupRule(some(dice, *FAMILIES), some(dice, *PLACES))
        common["near" if dice.randrange(2) else "apart"] = rule
    kind = some(dice, "plain", "plain", "nvlink", "gang", "gang", "span")
    if kind == "gang" and may_evict and not taste.gangs_evict:
        kind = "nvlink"
    if kind == "gang":
        nodes, each = dice.randint(1, 3), dice.randint(1, 3)
        rest = dice.randrange(each) if nodes == 1 or rarely(dice, 3) else 0
        if nodes == 1 and rest == 0:
            nodes = 2
        level = some(dice, None, None, None, "rack", "nvlink_group")
        return ResourceRequest(
            nodes * each + rest,
            nodes,
            each,
            remainder=rest,
            nvlink_required=rarely(dice, 5),
            required_level=level,
            max_wait_for_level_s=some(dice, None, None, 0, 900),
            **common,
        )
    count = some(dice, 1, 1, 2, 3, 4)
    if kind == "span":
        return ResourceRequest(count + 2, allow_span=True, **common)
    exclusive = kind == "nvlink" and rarely(dice, 4)
    return ResourceRequest(count, nvlink_required=kind == "nvlink", nvlink_exclusive=exclusive, **common)


def _terms(dice: Random) -> tuple[AffinityTerm, ...]:
    found = []
    for _ in range(some(dice, 1, 1, 2)):
        key, values = some(
            dice, ("rack_id", ("r0",)), ("gpu_model", ("A100",)), ("node", ("n0", "n1")), ("nvlink_group_id", ("span",))
        )
        weight = some(dice, None, 5, 9)
        found.append(AffinityTerm(key, some(dice, "In", "NotIn"), values, weight, weight is None))
    return tuple(found)


def a_job(dice: Random, name: str, taste: Taste, *, now_ms: int = NOW) -> WaitingJob:
    """A waiting job of any queue and level."""
    queue = some(dice, "merge", "merge", "eval", "inference")
    level = some(dice, *LEVELS[queue])
    if taste.urgent and dice.randrange(2):
        queue, level = some(dice, ("merge", "Critical"), ("merge", "Critical"), ("inference", "Realtime"))
    project = some(dice, "A", "A", "B", "C")
    request = a_request(dice, taste, may_evict=level in ("Critical", "Realtime"))
    age_s = 10 * dice.randint(0, 120) + (90_000 if rarely(dice, 8) else 0)
    return WaitingJob(
        id=name,
        queue=queue,
        level=level,
        level_value=VALUES[level],
        project=project,
        user=f"{project}{dice.randrange(2)}",
        submitted_ms=now_ms - age_s * S,
        request=request,
        remaining_s=request.max_duration_s if not rarely(dice, 6) else request.max_duration_s // 2,
        eligible_at_ms=now_ms + 60 * S if rarely(dice, 20) else 0,
        avoid_gpus=frozenset({"n0/0", "n1/1"}) if rarely(dice, 10) else frozenset(),
        avoid_nodes=frozenset({"n0"}) if rarely(dice, 10) else frozenset(),
        not_before_ms=now_ms + 60 * S if rarely(dice, 20) else 0,
        start_by_ms=_latest_start(dice, taste, now_ms),
        group=some(dice, *FAMILIES) if taste.families and rarely(dice, 3) else None,
        preemptible=not rarely(dice, 8),
        recent_preemptions=some(dice, 0, 0, 0, 3),
    )


def _latest_start(dice: Random, taste: Taste, now_ms: int) -> int | None:
    """None mostly; where jobs are hurried, one around the time at which some of what runs has ended."""
    if taste.hurried:
        return now_ms + S * 10 * some(dice, dice.randint(0, 60), dice.randint(60, 600)) if dice.randrange(4) else None
    return now_ms + some(dice, 0, 600 * S) if rarely(dice, 20) else None


def running_jobs(dice: Random, pool: Pool, taste: Taste) -> list[LiveAttempt]:
    """Attempts on distinct GPUs, most of them of one node."""
    left = [gpu.uuid for gpu in pool.installed]
    found: list[LiveAttempt] = []
    for number in range(taste.running - dice.randrange(taste.running + 1)):
        if not left:
            break
        first = left[dice.randrange(len(left))]
        near = left if rarely(dice, 4) else [uuid for uuid in left if uuid.split("/")[0] == first.split("/")[0]]
        held = _sample(dice, near, dice.randint(1, 4))
        left = [uuid for uuid in left if uuid not in held]
        found.append(_attempt(dice, f"r{number}", held, taste))
    return found


def _sample(dice: Random, among: Sequence[str], count: int) -> tuple[str, ...]:
    rest, chosen = list(among), []
    while rest and len(chosen) < count:
        chosen.append(rest.pop(dice.randrange(len(rest))))
    return tuple(chosen)


def _attempt(dice: Random, name: str, held: tuple[str, ...], taste: Taste) -> LiveAttempt:
    queue = some(dice, "merge", "merge", "eval", "inference")
    level = some(dice, "Normal", "Low", *LEVELS[queue]) if queue != "inference" else some(dice, *LEVELS[queue])
    project = some(dice, "A", "B", "Z")
    granted = NOW - S * 10 * dice.randint(0, 300)
    state = some(dice, *[JobState.RUNNING] * 6, JobState.PREEMPTING, JobState.CANCELLING)
    found = LiveAttempt(
        attempt=f"attempt of {name}",
        job=name,
        epoch=1,
        number=1,
        queue=queue,
        project=project,
        user=f"{project}{dice.randrange(2)}",
        gpus=held,
        nodes=tuple(dict.fromkeys(uuid.split("/")[0] for uuid in held)),
        state=state,
        granted_ms=granted,
        started_ms=granted,
        end_ms=NOW + S * 10 * some(dice, dice.randint(-2, 30), dice.randint(30, 400), dice.randint(30, 400)),
        level=level,
        level_value=VALUES[level],
        preemptible=not rarely(dice, 8),
        saved_ms=some(dice, None, granted, NOW - 10 * S, ALWAYS_SAVED),
        checkpoint_interval_s=some(dice, 0, 0, 600),
        save_s=some(dice, None, None, 0.0, 30.0),
        restore_s=some(dice, 60, 120),
        recent_preemptions=some(dice, 0, 0, 0, 3),
        billing_micro=some(dice, None, None, 2_500_000),
        stop_by_ms=NOW + S * 10 * dice.randint(-1, 12) if state in LEAVING else None,
        group=some(dice, *FAMILIES) if taste.families and rarely(dice, 3) else None,
        apart=GroupRule(some(dice, *FAMILIES), some(dice, *PLACES)) if taste.families and rarely(dice, 8) else None,
    )
    return _asked(dice, found) if taste.unsaved and state in (JobState.RUNNING, JobState.PREEMPTING) else found


def _asked(dice: Random, attempt: LiveAttempt) -> LiveAttempt:
    """The attempt as one that was asked to leave: a running one in vain, of others a node may have left it."""
    if attempt.state is JobState.RUNNING and dice.randrange(3):
        asked = some(dice, None, NOW - 60 * S, NOW - 5 * S)
        return replace(attempt, asked_ms=None if asked is None else max(attempt.granted_ms, asked))
    left = attempt.nodes[:1] if len(attempt.nodes) > 1 and dice.randrange(2) else ()
    stop_by = NOW + S * some(dice, -10, -1, 0, 40)
    asked = max(attempt.granted_ms, stop_by - 120 * S)
    return replace(attempt, state=JobState.PREEMPTING, asked_ms=asked, stop_by_ms=stop_by, left=left)


def _nominations(
    dice: Random, jobs: Sequence[WaitingJob], running: Sequence[LiveAttempt], pool: Pool
) -> list[Nomination]:
    """For some of the jobs that may evict: GPUs of those that are being stopped and free ones, as many as they need."""
    held = {uuid for attempt in running for uuid in attempt.gpus}
    stopping = [uuid for attempt in running if attempt.state is JobState.PREEMPTING for uuid in attempt.gpus]
    free = [gpu.uuid for gpu in pool.installed if gpu.uuid not in held]
    found: list[Nomination] = []
    for job in jobs:
        able = [*stopping, *free]
        may_start = max(job.eligible_at_ms, job.not_before_ms) <= NOW
        if (
            may_start
            and job.level in ("Critical", "Realtime")
            and len(able) >= job.request.gpu_count
            and not rarely(dice, 2)
        ):
            gpus = _sample(dice, able, job.request.gpu_count)
            stopping, free = ([uuid for uuid in part if uuid not in gpus] for part in (stopping, free))
            found.append(Nomination(job.id, gpus, NOW + S * 10 * dice.randint(-1, 15), again=rarely(dice, 3)))
    if rarely(dice, 6) and free:
        found.append(Nomination("gone", (free[0],), NOW + 60 * S))
    return found


def _windows(dice: Random, pool: Pool) -> list[Window]:
    found = []
    for number in range(some(dice, 0, 0, 0, 1, 2)):
        nodes = _sample(dice, [node.name for node in pool.nodes], 2)
        start = NOW + S * 60 * dice.randint(-10, 60)
        end = start + S * 60 * dice.randint(1, 60)
        found.append(Window(f"w{number}", nodes, start, end, some(dice, None, "A")))
    return found


def a_policy(dice: Random, taste: Taste = Taste()) -> Policy:
    """The default with other numbers in it."""
    policy = replace(
        DEFAULT_POLICY,
        project_weights={"B": some(dice, 0.0, 1.0, 1.0, 3.0)},
        user_weights={("A", "A1"): some(dice, 1.0, 1.0, 2.0, 0.0)},
        billing={"H100": some(dice, 1.0, 1.0, 2.0)},
        half_life_s=some(dice, 604_800.0, 604_800.0, 0.0),
        ledgers=some(dice, ("queue", "project", "user"), ("queue", "project", "user"), ("project",)),
        in_flight=some(dice, "full", "full", "full", "cycle", "off"),
        nvlink_mode=some(dice, "shared", "shared", "shared", "exclusive"),
        prefer=some(dice, "whole_groups", "whole_groups", "smallest_memory", "best_fit"),
        backfill=Backfill(
            some(dice, 1, 1, 2, 0), aged_reservations=some(dice, 8, 1), rack_patience_s=some(dice, 0, 600)
        ),
    )
    if not taste.unsaved:
        return policy
    careful = tuple(replace(queue, never_without_checkpoint=dice.randrange(2) == 0) for queue in policy.queues)
    return replace(policy, queues=careful)


def a_world(dice: Random, taste: Taste = Taste()) -> Snapshot:
    """A whole snapshot at ``NOW``."""
    pool = a_pool(dice, taste)
    running = running_jobs(dice, pool, taste)
    jobs = [a_job(dice, f"j{number}", taste) for number in range(taste.jobs - dice.randrange(taste.jobs))]
    leases = [NodeLease(node.name, "boot", 0, some(dice, 0, 0, 40_000, 70_000)) for node in pool.nodes]
    return Snapshot(
        now_ms=NOW,
        policy=a_policy(dice, taste),
        pool=pool,
        waiting=tuple(jobs),
        live=tuple(running),
        leases=tuple(leases) if taste.silence and rarely(dice, 4) else (),
        usage=_usage(dice),
        nominations=tuple(_nominations(dice, jobs, running, pool)) if taste.nominations else (),
        windows=tuple(_windows(dice, pool)) if taste.windows else (),
        can_preempt=(taste.urgent and not taste.unsaved) or not rarely(dice, 8),
    )


def _usage(dice: Random) -> Usage:
    def account() -> Account:
        return Account(float(3_600_000 * dice.randint(0, 300)), NOW - 3_600_000 * dice.randint(0, 200))

    return Usage(
        {"merge": account(), "eval": account()},
        {"A": account(), "B": account()},
        {("A", "A0"): account(), ("B", "B1"): account()},
    )
