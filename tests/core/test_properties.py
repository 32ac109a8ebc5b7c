"""The properties of every plan, by their numbers in the design (6 and 16 are in ``test_agreement``)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.plan import Plan
from scheduling.core.pool import Pool
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob

from .agreement import essence
from .random_worlds import NOW, ROOMY, TIGHT, URGENT, Taste, a_pool, a_world
from .reference import Cycle
from .reference_places import Ground
from .reference_victims import Scene, could_hold

TASTES = (Taste(silence=True), ROOMY, TIGHT, URGENT)
Case = tuple[int, Snapshot, Plan]


@cache
def cases() -> tuple[Case, ...]:
    """Worlds of all tastes with their plans."""
    found = []
    for seed in range(160):
        snapshot = a_world(Random(7000 + seed), TASTES[seed % len(TASTES)])
        found.append((seed, snapshot, decide(snapshot)))
    return tuple(found)


def jobs_of(snapshot: Snapshot) -> dict[str, WaitingJob]:
    return {job.id: job for job in snapshot.waiting}


def waits_on(snapshot: Snapshot, plan: Plan) -> Iterator[WaitingJob]:
    """The jobs that took part and are neither started nor nominated nor gone."""
    done = {each.job for each in (*plan.starts, *plan.nominations, *plan.expired)}
    done |= {each.job for each in snapshot.nominations} - {each.job for each in plan.unnominations}
    for job in snapshot.waiting:
        if job.id not in done and max(job.eligible_at_ms, job.not_before_ms) <= snapshot.now_ms:
            yield job


def was_kept_for(snapshot: Snapshot, job: str) -> bool:
    return any(each.job == job for each in snapshot.nominations)


def test_property_1_no_gpu_has_two_owners():
    for seed, snapshot, plan in cases():
        gone = {each.job for each in (*plan.starts, *plan.unnominations, *plan.expired)}
        waiting = set(jobs_of(snapshot)) - gone
        kept = [each for each in (*snapshot.nominations, *plan.nominations) if each.job in waiting]
        owners = Counter(uuid for each in (*snapshot.live, *plan.starts) for uuid in each.gpus)
        promised = Counter(uuid for each in kept for uuid in each.gpus)
        assert max(owners.values(), default=1) == max(promised.values(), default=1) == 1, f"seed {seed}"
        started = {uuid for start in plan.starts for uuid in start.gpus}
        assert started.isdisjoint(promised), f"seed {seed}"


def test_property_1_only_healthy_gpus_of_ready_nodes_get_work():
    for seed, snapshot, plan in cases():
        ready = {node.name for node in snapshot.pool.nodes if node.state is NodeState.READY}
        for uuid in (uuid for start in plan.starts for uuid in start.gpus):
            gpu = snapshot.pool.gpu_by_uuid[uuid]
            assert gpu.state is GpuState.HEALTHY, f"seed {seed}"
            assert gpu.node in ready, f"seed {seed}"


def test_property_2_work_is_conserved():
    for seed, snapshot, plan in cases():
        after = Cycle(snapshot).carry_out(plan)
        for job in waits_on(snapshot, plan):
            if job.request.near is None:  # a partner of a lower level may have come after its turn
                assert after.place(job) is None, f"seed {seed}: {job.id} fits what is left"


def test_property_3_gangs_are_whole():
    for seed, snapshot, plan in cases():
        for start in plan.starts:
            job = jobs_of(snapshot)[start.job]
            request = job.request
            per_node = Counter(snapshot.pool.gpu_by_uuid[uuid].node for uuid in start.gpus)
            assert set(per_node) == set(start.nodes), f"seed {seed}"
            if not request.is_gang or was_kept_for(snapshot, job.id):
                continue
            wanted = [request.gpus_per_node] * request.node_count + [request.remainder] * (request.remainder > 0)
            assert [per_node[node] for node in start.nodes] == wanted, f"seed {seed}: {job.id}"


def test_property_3_nvlink_jobs_lie_in_one_group():
    for seed, snapshot, plan in cases():
        for start in plan.starts:
            job = jobs_of(snapshot)[start.job]
            if job.request.nvlink_required and not was_kept_for(snapshot, job.id):
                groups = {snapshot.pool.group_of(snapshot.pool.gpu_by_uuid[uuid]) for uuid in start.gpus}
                assert len(groups - {None}) == len(groups) == 1, f"seed {seed}: {job.id}"


def test_property_3_a_start_has_the_count_the_memory_and_the_rules():
    for seed, snapshot, plan in cases():
        ground = Ground(snapshot.pool)
        for start in plan.starts:
            job = jobs_of(snapshot)[start.job]
            if was_kept_for(snapshot, job.id):
                continue
            own = start.gpus[: job.request.gpu_count]
            assert len(own) == job.request.gpu_count, f"seed {seed}: {job.id}"
            assert ground.where(own, job.request.required_terms) == set(own), f"seed {seed}: {job.id}"
            assert min(ground.gpu[uuid].memory_mib for uuid in own) >= job.request.gpu_memory_min_mib


def racks_needed(snapshot: Snapshot, free: set[str], job: WaitingJob) -> int:
    """The fewest racks in which that many nodes have enough free GPUs of one memory size, by trying all sets."""
    pool, request = snapshot.pool, job.request
    best = len(pool.nodes) + 1
    racks = sorted({node.rack_id for node in pool.nodes})
    for count, size in ((n, m) for n in range(1, len(racks) + 1) for m in [*pool_sizes(pool, request), None]):
        for chosen in combinations(racks, count):
            on: Counter[str] = Counter()
            for uuid in free:
                gpu = pool.gpu_by_uuid[uuid]
                if pool.node_by_name[gpu.node].rack_id in chosen and size in (gpu.memory_mib, None):
                    on[gpu.node] += 1
            if sum(n >= request.gpus_per_node for n in on.values()) >= request.node_count:
                best = min(best, count)
    return best


def pool_sizes(pool: Pool, request) -> list[int]:
    return sorted({gpu.memory_mib for gpu in pool.installed if gpu.memory_mib >= request.gpu_memory_min_mib})


def test_property_3_gangs_lie_in_the_fewest_racks():
    tried = 0
    for seed in range(150):
        dice = Random(seed)
        pool = a_pool(dice, Taste(nodes=8, per_node=3))
        pool = Pool(pool.nodes, tuple(replace(gpu, memory_mib=40_000, nvlink_group_id=None) for gpu in pool.gpus))
        job = WaitingJob("g", "merge", "Normal", 2, "A", "a", 0, _gang(dice.randint(2, 4), dice.randint(1, 2)), 60)
        snapshot = Snapshot(NOW, a_world(Random(1)).policy, pool, (job,))
        for start in decide(snapshot).starts:
            tried += 1
            racks = {pool.node_by_name[node].rack_id for node in start.nodes}
            assert len(racks) == racks_needed(snapshot, Cycle(snapshot).free, job), f"seed {seed}"
    assert tried > 50


def _gang(nodes: int, each: int):
    template = next(job.request for _, world, _ in cases() for job in world.waiting if job.request.is_gang)
    return replace(
        template, gpu_count=nodes * each, node_count=nodes, gpus_per_node=each, remainder=0, affinity=(), near=None,
        apart=None, gpu_memory_min_mib=0, nvlink_required=False, required_level=None, max_wait_for_level_s=None,
    )  # fmt: skip


def holder_of(snapshot: Snapshot, uuid: str) -> LiveAttempt | None:
    return next((attempt for attempt in snapshot.live if uuid in attempt.gpus), None)


def test_property_4_reserved_gpus_are_free_by_the_start_unless_the_job_may_evict_their_holder():
    for seed, snapshot, plan in cases():
        after = Cycle(snapshot).carry_out(plan)
        for promise in plan.reservations:
            job = jobs_of(snapshot)[promise.job]
            for uuid in promise.gpus:
                holder = holder_of(snapshot, uuid)
                if holder in after._evictable(job):
                    continue
                assert after._release(uuid) <= promise.start_ms, f"seed {seed}: {job.id} {uuid}"


def test_property_4_reservations_do_not_overlap():
    for seed, _, plan in cases():
        for one, other in combinations(plan.reservations, 2):
            apart_in_time = one.end_ms <= other.start_ms or other.end_ms <= one.start_ms
            assert apart_in_time or set(one.gpus).isdisjoint(other.gpus), f"seed {seed}"


def test_property_5_the_order_of_what_is_known_does_not_change_the_plan():
    for seed, snapshot, plan in cases():
        dice = Random(seed)

        def mixed(parts: tuple, dice: Random = dice) -> tuple:
            return tuple(dice.sample(parts, len(parts)))

        other = replace(
            snapshot,
            pool=Pool(mixed(snapshot.pool.nodes), mixed(snapshot.pool.gpus)),
            waiting=mixed(snapshot.waiting),
            live=mixed(snapshot.live),
            leases=mixed(snapshot.leases),
            nominations=mixed(snapshot.nominations),
            windows=mixed(snapshot.windows),
        )
        assert decide(other).to_json() == plan.to_json(), f"seed {seed}"


def alike(job: WaitingJob) -> tuple[object, ...]:
    owner = (job.level_value, job.queue, job.project, job.user)
    return (*owner, job.request.shape, job.avoid_gpus, job.avoid_nodes, job.group, job.level)


def test_property_7_of_jobs_alike_the_one_submitted_first_starts_first():
    for seed, snapshot, plan in cases():
        started = {start.job for start in plan.starts}
        late = [job for job in snapshot.waiting if job.id in started and not was_kept_for(snapshot, job.id)]
        for early in waits_on(snapshot, plan):
            for job in late:
                same = alike(early) == alike(job) and early.remaining_s <= job.remaining_s
                assert not (same and (early.submitted_ms, early.id) < (job.submitted_ms, job.id)), f"seed {seed}"


def test_property_8_no_eviction_is_useless():
    for seed, snapshot, plan in cases():
        after = Cycle(snapshot).carry_out(plan)
        for each in plan.nominations:
            job = jobs_of(snapshot)[each.job]
            stopped = {preempt.job for preempt in plan.preempts if preempt.nominee == job.id}
            scene = after._scene(job)
            mine = frozenset(each.gpus)
            held = {uuid: holder.job for uuid in mine if (holder := holder_of(snapshot, uuid)) is not None}
            assert set(held.values()) == stopped, f"seed {seed}: {job.id} gets nothing of one it evicts"
            for victim in stopped:
                left = (mine - {uuid for uuid, name in held.items() if name == victim}) | scene.available
                assert not could_lie(scene, left, after), f"seed {seed}: {job.id} evicts {victim} for nothing"


def could_lie(scene: Scene, gpus: frozenset[str], after: Cycle) -> bool:
    if scene.request.is_gang:
        return could_hold(scene, gpus)
    return after.place_on(scene.job, gpus | scene.unpinned_free) is not None


def test_property_8_a_nominee_gets_exactly_what_it_needs():
    for seed, snapshot, plan in cases():
        for each in plan.nominations:
            job = jobs_of(snapshot)[each.job]
            exclusive = Cycle(snapshot)._is_exclusive(job)
            count = len(set(each.gpus))
            assert count == len(each.gpus), f"seed {seed}"
            assert count >= job.request.gpu_count if exclusive else count == job.request.gpu_count, f"seed {seed}"


def test_property_9_only_the_rule_table_evicts():
    evicted = 0
    for seed, snapshot, plan in cases():
        running = {attempt.job: attempt for attempt in snapshot.live}
        for preempt in plan.preempts:
            evicted += 1
            job, victim = jobs_of(snapshot)[preempt.nominee], running[preempt.job]
            rules = {
                (rule.queue, rule.level, rule.victim_queue, rule.victim_level) for rule in snapshot.policy.preemption
            }
            assert (job.queue, job.level, victim.queue, victim.level) in rules, f"seed {seed}"
            assert victim.preemptible, f"seed {seed}"
            assert victim.level not in ("High", "Critical", "Realtime"), f"seed {seed}"
            assert job.queue != "eval", f"seed {seed}"
    assert evicted > 20


def lone_job(seed: int) -> Snapshot | None:
    """A world with one plain job that starts."""
    taste = Taste(nodes=4, running=5, jobs=1, families=False, windows=False, nominations=False)
    snapshot = a_world(Random(seed), taste)
    (job,) = snapshot.waiting
    request = replace(job.request, max_wait_for_level_s=None)
    job = replace(job, request=request, avoid_gpus=frozenset(), avoid_nodes=frozenset(), level="High", level_value=3)
    snapshot = replace(snapshot, waiting=(job,))
    return snapshot if decide(snapshot).starts else None


def starts_with(snapshot: Snapshot, **changed) -> bool:
    (job,) = snapshot.waiting
    return bool(decide(replace(snapshot, waiting=(replace(job, request=replace(job.request, **changed)),))).starts)


def test_property_10_a_smaller_need_never_turns_a_fit_into_none():
    for seed in range(150):
        snapshot = lone_job(seed)
        if snapshot is None:
            continue
        request = snapshot.waiting[0].request
        assert starts_with(snapshot, gpu_memory_min_mib=0), f"seed {seed}: memory"
        assert starts_with(snapshot, affinity=()), f"seed {seed}: rules"
        assert starts_with(snapshot, required_level=None), f"seed {seed}: level"
        assert starts_with(snapshot, nvlink_exclusive=False), f"seed {seed}: exclusive"
        if not request.is_gang:
            assert starts_with(snapshot, nvlink_required=False, nvlink_exclusive=False), f"seed {seed}: NVLink"
        if not request.is_gang and request.gpu_count > 1:
            fewer = request.gpu_count - 1
            assert starts_with(snapshot, gpu_count=fewer, gpus_per_node=fewer), f"seed {seed}: count"


def test_property_10_one_more_free_gpu_never_turns_a_fit_into_none():
    for seed in range(150):
        snapshot = lone_job(seed)
        for attempt in snapshot.live if snapshot else ():
            assert snapshot is not None
            fewer = tuple(each for each in snapshot.live if each is not attempt)
            assert decide(replace(snapshot, live=fewer)).starts, f"seed {seed}: without {attempt.job}"


def test_property_11_nobody_overtakes_a_higher_level_on_gpus_it_could_use():
    for seed, snapshot, plan in cases():
        for start in plan.starts:
            low = jobs_of(snapshot)[start.job]
            for high in waits_on(snapshot, plan):
                if high.level_value <= low.level_value or high.request.near or was_kept_for(snapshot, low.id):
                    continue
                others = tuple(each for each in plan.starts if each is not start)
                without = Cycle(snapshot).carry_out(replace(plan, starts=others))
                assert without.place(high) is None, f"seed {seed}: {low.id} before {high.id}"


SCRIPT = """
from random import Random
from scheduling.core.decide import decide
from tests.core.random_worlds import TIGHT, URGENT, a_world
for seed in range(12):
    print(decide(a_world(Random(seed), (TIGHT, URGENT)[seed % 2])).digest())
"""


def test_the_plan_does_not_depend_on_the_seed_of_the_hashes():
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("seed", range(4))
def test_equal_worlds_give_equal_plans(seed):
    one, other = (decide(a_world(Random(seed), TIGHT)) for _ in range(2))
    assert (one.digest(), essence(one)) == (other.digest(), essence(other))
