"""The specification's sentences that the decision alone can keep, one test each, in its words."""

from __future__ import annotations

from scheduling.core.decide import decide
from scheduling.core.lifecycle import GpuState, JobEvent
from scheduling.core.policy import DEFAULT_POLICY

from .build import (
    gpus,
    groups,
    job,
    lease,
    live,
    loose,
    order_of,
    places_of,
    pool,
    used,
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
