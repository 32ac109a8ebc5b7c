"""The specification's sentences that the decision alone can keep, one test each, in its words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import GpuState, JobEvent
from scheduling.core.policy import DEFAULT_POLICY

from .build import (
    HOUR_MS,
    gang,
    gpus,
    groups,
    job,
    lease,
    live,
    loose,
    node,
    nominated,
    order_of,
    places_of,
    pool,
    promised,
    rule,
    used,
    victims,
    weighted,
    with_gpu_state,
    world,
)

NOW = 100_000


def test_the_queue_table_is_that_of_the_specification():
    table = {queue.name: (queue.weight, [level.name for level in queue.levels]) for queue in DEFAULT_POLICY.queues}
    assert table == {
        "merge": (2.0, ["Critical", "High", "Normal", "Low"]),
        "eval": (1.0, ["High", "Normal", "Low"]),
        "inference": (3.0, ["Realtime", "Normal"]),
    }


def test_d2_one_number_per_level():
    numbers = {level.name: level.value for queue in DEFAULT_POLICY.queues for level in queue.levels}
    assert numbers == {"Critical": 4, "Realtime": 4, "High": 3, "Normal": 2, "Low": 1}


def test_d7_critical_preempts_normal_and_low():
    victims = {(rule.victim_queue, rule.victim_level) for rule in DEFAULT_POLICY.preemption if rule.level == "Critical"}
    assert victims == {
        ("merge", "Normal"), ("merge", "Low"), ("eval", "Normal"), ("eval", "Low"), ("inference", "Normal"),
    }  # fmt: skip


def test_d7_realtime_preempts_normal():
    rules = [rule for rule in DEFAULT_POLICY.preemption if rule.level == "Realtime"]
    assert [(rule.queue, rule.victim_queue, rule.victim_level) for rule in rules] == [
        ("inference", "inference", "Normal")
    ]


def test_d7_eval_never_preempts():
    assert not [rule for rule in DEFAULT_POLICY.preemption if rule.queue == "eval"]


def test_the_scheduler_sorts_by_priority():
    assert order_of(decide(world(loose(1), job("low", level="Low"), job("high", at=9, level="High")))) == ["high"]


def test_then_by_fair_share_deficit():
    jobs = [job("rich", at=1, project="A"), job("poor", at=2, project="B")]
    assert order_of(decide(world(loose(1), *jobs, usage=used(project={"A": 10})))) == ["poor"]


def test_then_by_submission_time():
    assert order_of(decide(world(loose(1), job("second", at=2), job("first", at=1)))) == ["first"]


def test_preempted_jobs_are_requeued_at_their_original_priority_and_so_keep_their_place():
    again, later = job("preempted before", at=999), job("later", at=1500)
    assert order_of(decide(world(loose(1), later, again, now_ms=2_000_000))) == ["preempted before"]


def test_entities_below_their_fair_share_target_receive_scheduling_preference():
    jobs = [job("above", at=1, project="A"), job("below", at=2, project="B")]
    assert order_of(decide(world(loose(1), *jobs, usage=used(project={"A": 200, "B": 100})))) == ["below"]


def test_weights_are_configurable_per_project():
    jobs = [job("light", at=1, project="A"), job("heavy", at=2, project="B")]
    both = used(project={"A": 50, "B": 50})
    assert order_of(decide(world(loose(1), *jobs, usage=both, policy=weighted(B=2.0)))) == ["heavy"]


def test_score_is_priority_times_one_plus_target_minus_consumed_over_target():
    plan = decide(world(loose(1), job("1", level="High"), usage=used(project={"A": 50})))
    score = plan.scores["1"].project
    assert score.score == 3 * (1 + (score.target_gpu_h - score.consumed_gpu_h) / score.target_gpu_h)


def test_jobs_requesting_nvlink_are_placed_entirely_within_one_group():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 4, group="g1", first=2))
    assert places_of(decide(world(the_pool, job("1", 3, nvlink=True)))) == {"1": ["n0/2", "n0/3", "n0/4"]}


def test_find_nvlink_group_of_size_two():
    assert places_of(decide(world(groups(1, 4), job("1", 2, nvlink=True), running=[live("r", "n0/0", "n0/1")]))) == {
        "1": ["n0/2", "n0/3"]
    }


def test_gpu_available_no_wait():
    assert decide(world(loose(1), job("1"), running=[live("r", "n0/0")])).starts == ()


def test_place_on_any_gpu():
    assert places_of(decide(world(loose(1), job("1")))) == {"1": ["n0/0"]}


def test_stale_allocations_are_reclaimed_if_a_worker_fails_to_heartbeat_for_60_seconds():
    silent = [lease("n0", silent_s=60, now_ms=NOW)]
    plan = decide(world(loose(1), running=[live("r", "n0/0")], leases=silent, now_ms=NOW))
    assert [(reclaim.job, reclaim.event) for reclaim in plan.reclaims] == [("r", JobEvent.REQUEUE)]


def test_no_new_work_goes_to_an_unhealthy_gpu():
    assert places_of(decide(world(with_gpu_state(loose(2), "n0/0", GpuState.UNHEALTHY), job("1")))) == {"1": ["n0/1"]}


def test_preempt_lower_priority_when_no_gpu_is_available():
    plan = decide(world(loose(1), job("1", level="Critical"), running=[live("r", "n0/0", granted_ms=-(10**6))]))
    assert (victims(plan), nominated(plan)) == (["r"], {"1": ["n0/0"]})


@pytest.mark.parametrize(("level", "stopped"), [("High", []), ("Normal", ["r"]), ("Low", ["r"])])
def test_critical_jobs_can_preempt_normal_and_low_jobs(level, stopped):
    running = [live("r", "n0/0", level=level, granted_ms=-(10**6))]
    assert victims(decide(world(loose(1), job("1", level="Critical"), running=running))) == stopped


def test_realtime_preempts_normal():
    running = [live("r", "n0/0", queue="inference", granted_ms=-(10**6))]
    plan = decide(world(loose(1), job("1", level="Realtime", queue="inference"), running=running))
    assert victims(plan) == ["r"]


def test_preempted_jobs_are_checkpointed_so_they_are_asked_and_given_time():
    running = [live("r", "n0/0", granted_ms=-(10**6))]
    (preempt,) = decide(world(loose(1), job("1", level="Critical"), running=running)).preempts
    assert preempt.grace_s == DEFAULT_POLICY.grace_s("merge") > 0


def test_multi_node_jobs_request_node_count_times_gpu_per_node():
    plan = decide(world(groups(3, 4), gang("1", 2, 3)))
    assert places_of(plan) == {"1": ["n0/0", "n0/1", "n0/2", "n1/0", "n1/1", "n1/2"]}


def test_the_scheduler_attempts_to_place_all_gpus_within_the_same_rack():
    nodes = [node("n0"), node("n1", rack="r1"), node("n2", rack="r1")]
    plan = decide(world(pool(*(gpus(f"n{n}", 2) for n in range(3)), nodes=nodes), gang("1", 2, 2)))
    assert plan.starts[0].nodes == ("n1", "n2")


def test_or_within_the_same_nvlink_domain():
    parts = [gpus("n0", 2), gpus("n1", 2, group="fabric"), gpus("n2", 2, group="fabric")]
    assert decide(world(pool(*parts), gang("1", 2, 2))).starts[0].nodes == ("n1", "n2")


def test_gpus_connected_via_nvlink_are_treated_as_a_single_scheduling_unit():
    policy = replace(DEFAULT_POLICY, nvlink_mode="exclusive")
    jobs = [job("1", 2, at=1, nvlink=True), job("2", 2, at=2, nvlink=True)]
    assert [len(start.gpus) for start in decide(world(groups(1, 4), *jobs, policy=policy)).starts] == [4]


def test_gpus_connected_via_nvlink_are_a_boundary_no_nvlink_job_crosses():
    the_pool = pool(gpus("n0", 2, group="a"), gpus("n0", 2, group="b", first=2))
    assert order_of(decide(world(the_pool, job("1", 3, nvlink=True)))) == []


def test_jobs_specify_gpu_memory_min():
    the_pool = pool(gpus("n0", 1, memory="24GB"), gpus("n1", 1, memory="80GB"))
    assert places_of(decide(world(the_pool, job("1", memory="40GB")))) == {"1": ["n1/0"]}


def test_jobs_specify_max_duration_and_what_runs_is_expected_to_end_by_it():
    plan = decide(world(loose(2), job("1", 2), running=[live("r", "n0/0", ends=600)]))
    assert promised(plan) == {"1": (600, ["n0/0", "n0/1"])}


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [("nvlink_group_id", "b", "n1/0"), ("rack_id", "r1", "n1/0"), ("network_bandwidth_gbps", "400", "n1/0")],
)
@pytest.mark.parametrize("op", ["In", "NotIn"])
def test_the_scheduler_uses_these_labels_for_affinity_and_anti_affinity_rules(key, value, where, op):
    nodes = [node("n0"), node("n1", rack="r1", gbps=400.0)]
    the_pool = pool(gpus("n0", 2, group="a"), gpus("n1", 2, group="b"), nodes=nodes)
    plan = decide(world(the_pool, job("1", rules=[rule(key, op, value)])))
    assert places_of(plan) == {"1": [where if op == "In" else "n0/0"]}


def test_the_scheduler_tracks_gpu_hours_consumed_per_entity():
    running = [live("r", "n0/0", "n0/1", project="A", granted_ms=0, seconds=0, now_ms=HOUR_MS)]
    score = decide(world(loose(2), job("1"), running=running, now_ms=HOUR_MS)).scores["1"]
    assert [each.consumed_gpu_h for each in (score.queue, score.project)] == pytest.approx([2.0, 2.0], abs=0.01)


def test_each_user_or_project_receives_a_fair_share_weight():
    policy = replace(weighted(A=3.0), user_weights={("A", "x"): 2.0})
    jobs = [job("x", user="x"), job("y", user="y"), job("b", project="B")]
    scores = decide(
        world(loose(1), *(replace(each, not_before_ms=NOW * 2) for each in jobs), policy=policy, now_ms=NOW)
    ).scores
    x, y = scores["x"].user.target_gpu_h, scores["y"].user.target_gpu_h
    assert (x / y, scores["x"].project.target_gpu_h / scores["b"].project.target_gpu_h) == pytest.approx((2.0, 3.0))
