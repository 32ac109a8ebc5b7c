"""What holds of every plan, whatever the world: tried on random small ones."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decide import decide
from scheduling.core.feasibility import placeable, suitable
from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.placement import fits
from scheduling.core.plan import Plan
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.snapshot import NodeLease, Snapshot, Usage, WaitingJob

from .build import DEFAULT_POLICY, job, live, rule

MEMORY = ("24GB", "40GB", "80GB")
MOSTLY_HEALTHY = [GpuState.HEALTHY] * 6 + [GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.RETIRED]
MOSTLY_READY = [NodeState.READY] * 5 + [NodeState.CORDONED, NodeState.DRAINING, NodeState.LOST]


@st.composite
def pools(draw) -> Pool:
    nodes, boards = [], []
    for place in range(draw(st.integers(0, 4))):
        name = f"n{place}"
        rack, gbps = draw(st.sampled_from(["r0", "r1"])), draw(st.sampled_from([100.0, 400.0]))
        nodes.append(Node(name, rack, gbps, draw(st.sampled_from(MOSTLY_READY))))
        for index in range(draw(st.integers(0, 5))):
            memory = draw(st.sampled_from([22889, 38147, 76294]))
            group = draw(st.sampled_from([None, f"{name}-a", f"{name}-a", f"{name}-b", "rack"]))
            state = draw(st.sampled_from(MOSTLY_HEALTHY))
            boards.append(Gpu(f"{name}/{index}", name, index, "A100", memory, group, state))
    return Pool(tuple(nodes), tuple(boards))


@st.composite
def waiting_jobs(draw, name: str) -> WaitingJob:
    nvlink = draw(st.booleans())
    rules = draw(st.sampled_from([(), (), (rule("rack_id", "In", "r0"),), (rule("rack_id", "In", "r1", wish=5),)]))
    return job(
        name,
        draw(st.integers(1, 4)),
        at=draw(st.integers(0, 9)),
        nvlink=nvlink,
        nvlink_exclusive=nvlink and draw(st.booleans()),
        memory=draw(st.sampled_from([None, *MEMORY])),
        level=draw(st.sampled_from(["High", "Normal", "Low"])),
        queue=draw(st.sampled_from(["merge", "eval"])),
        project=draw(st.sampled_from("AB")),
        seconds=draw(st.sampled_from([600, 3600])),
        rules=rules,
        eligible_at_ms=draw(st.sampled_from([0, 0, 0, 99_000])),
        avoid_nodes=draw(st.sampled_from([(), (), ("n0",)])),
    )


@st.composite
def worlds(draw) -> Snapshot:
    the_pool = draw(pools())
    jobs = [draw(waiting_jobs(f"j{n}")) for n in range(draw(st.integers(0, 8)))]
    running = [
        live(f"r{n}", gpu.uuid, seconds=draw(st.integers(0, 5000)), state=draw(st.sampled_from(LIVE_STATES)))
        for n, gpu in enumerate(the_pool.installed)
        if draw(st.integers(0, 3)) == 0
    ]
    leases = [
        NodeLease(each.name, "boot", 0, draw(st.sampled_from([0, 0, 0, 40_000, 70_000]))) for each in the_pool.nodes
    ]
    usage = Usage({"merge": draw(st.integers(0, 10**9))}, {"A": draw(st.integers(0, 10**9))}, {})
    weights = {"B": draw(st.sampled_from([0.0, 1.0, 3.0]))}
    policy = replace(DEFAULT_POLICY, project_weights=weights, billing={"A100": draw(st.sampled_from([1.0, 0.3]))})
    return Snapshot(100_000, policy, the_pool, tuple(jobs), tuple(running), tuple(leases), usage)


LIVE_STATES = [JobState.RUNNING, JobState.RUNNING, JobState.DISPATCHING, JobState.CANCELLING]
any_world = given(worlds())
thorough = settings(max_examples=60, deadline=None)


def held(snapshot: Snapshot) -> list[str]:
    return [gpu for attempt in snapshot.live for gpu in attempt.gpus]


def given_out(plan: Plan) -> list[str]:
    return [gpu for start in plan.starts for gpu in start.gpus]


def request_of(snapshot: Snapshot, name: str):
    return next(each.request for each in snapshot.waiting if each.id == name)


@thorough
@any_world
def test_no_gpu_is_handed_out_twice(snapshot):
    every = held(snapshot) + given_out(decide(snapshot))
    assert len(every) == len(set(every))


@thorough
@any_world
def test_every_waiting_job_is_started_or_held_with_a_reason_exactly_once(snapshot):
    plan = decide(snapshot)
    told = [start.job for start in plan.starts] + [hold.job for hold in plan.holds if hold.reasons]
    assert sorted(told) == sorted(each.id for each in snapshot.waiting)


@thorough
@any_world
def test_only_healthy_gpus_of_ready_nodes_get_work(snapshot):
    assert set(given_out(decide(snapshot))) <= placeable(snapshot.pool)


@thorough
@any_world
def test_each_start_has_as_many_suitable_gpus_of_one_node_as_it_asked_for(snapshot):
    for start in decide(snapshot).starts:
        request = request_of(snapshot, start.job)
        own = start.gpus[: request.gpu_count]
        assert len(own) == request.gpu_count
        assert set(own) <= suitable(snapshot.pool, request)
        assert {snapshot.pool.gpu_by_uuid[gpu].node for gpu in start.gpus} == {start.node}


@thorough
@any_world
def test_nvlink_jobs_lie_wholly_in_one_group(snapshot):
    for start in decide(snapshot).starts:
        if request_of(snapshot, start.job).nvlink_required:
            found = {snapshot.pool.group_of(snapshot.pool.gpu_by_uuid[gpu]) for gpu in start.gpus}
            assert len(found) == 1
            assert None not in found


@thorough
@any_world
def test_exclusive_jobs_hold_their_whole_group_and_other_jobs_no_more_than_they_asked_for(snapshot):
    for start in decide(snapshot).starts:
        request = request_of(snapshot, start.job)
        group = snapshot.pool.group_of(snapshot.pool.gpu_by_uuid[start.gpus[0]])
        whole = len(snapshot.pool.by_group[group]) if request.nvlink_exclusive else request.gpu_count
        assert len(start.gpus) == whole


@thorough
@any_world
def test_work_is_conserved_no_job_that_waits_on_fits_what_is_left(snapshot):
    plan = decide(snapshot)
    silent = frozenset(each.node for each in snapshot.leases if each.silent_ms >= 30_000)
    left = placeable(snapshot.pool, unreachable=silent) - set(held(snapshot)) - set(given_out(plan))
    for hold in plan.holds:
        waiting = next(each for each in snapshot.waiting if each.id == hold.job)
        if waiting.eligible_at_ms > snapshot.now_ms or waiting.avoid_nodes:
            continue
        assert not fits(snapshot.pool, waiting.request, free=left, eligible=suitable(snapshot.pool, waiting.request))


@thorough
@given(worlds(), st.integers(0, 2**32))
def test_the_order_of_what_is_known_does_not_change_the_plan(snapshot, seed):
    shuffle = random.Random(seed).sample

    def mixed(parts: tuple) -> tuple:
        return tuple(shuffle(parts, len(parts)))

    other = replace(
        snapshot,
        pool=Pool(mixed(snapshot.pool.nodes), mixed(snapshot.pool.gpus)),
        waiting=mixed(snapshot.waiting),
        live=mixed(snapshot.live),
        leases=mixed(snapshot.leases),
    )
    assert decide(other).to_json() == decide(snapshot).to_json()


@thorough
@any_world
def test_equal_snapshots_give_equal_plans(snapshot):
    assert (
        decide(replace(snapshot, pool=Pool(snapshot.pool.nodes, snapshot.pool.gpus))).digest()
        == decide(snapshot).digest()
    )


@thorough
@any_world
def test_the_order_of_a_pass_respects_the_levels_among_jobs_that_fit_alike(snapshot):
    by_id = {each.id: each for each in snapshot.waiting}
    plan = decide(snapshot)
    for hold in plan.holds:
        waits = by_id[hold.job]
        for start in plan.starts:
            starts = by_id[start.job]
            alike = (waits.request.shape, waits.avoid_nodes) == (starts.request.shape, starts.avoid_nodes)
            if alike and waits.eligible_at_ms <= snapshot.now_ms:
                assert starts.level_value >= waits.level_value


@thorough
@any_world
def test_what_is_offered_as_a_change_would_start(snapshot):
    plan = decide(snapshot)
    silent = frozenset(each.node for each in snapshot.leases if each.silent_ms >= 30_000)
    left = placeable(snapshot.pool, unreachable=silent) - set(held(snapshot)) - set(given_out(plan))
    for hold in plan.holds:
        request = request_of(snapshot, hold.job)
        for reason in hold.reasons:
            numbers = dict(reason.numbers)
            if "gpus_at_most" in numbers:
                count = numbers["gpus_at_most"]
                changed = replace(request, gpu_count=count, gpus_per_node=count)
                assert fits(snapshot.pool, changed, free=left, eligible=suitable(snapshot.pool, changed))
            if "memory_at_most_mib" in numbers:
                changed = replace(request, gpu_memory_min_mib=numbers["memory_at_most_mib"])
                assert fits(snapshot.pool, changed, free=left, eligible=suitable(snapshot.pool, changed))
