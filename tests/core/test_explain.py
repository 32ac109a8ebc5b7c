"""Why a job waits: every reason with its numbers, and worked examples 12 and 23."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.explain import starting_soon
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Pool

from .build import (
    codes_of,
    gpus,
    groups,
    job,
    live,
    loose,
    numbers_of,
    order_of,
    pool,
    rule,
    with_gpu_state,
    with_node_state,
    world,
)

TEN_S = 10_000


def example_12():
    """Two groups of four; two GPUs of g0 are busy until 6000 s, two of g1 until 9000 s."""
    running = [live("r", "n0/0", "n0/1", seconds=5990), live("s", "n1/0", "n1/1", seconds=8990)]
    return decide(world(groups(2, 4), job("1", 4, nvlink=True), running=running, now_ms=TEN_S))


def test_example_12_enough_gpus_in_total_but_none_together_is_fragmented():
    numbers = numbers_of(example_12(), "1", "FRAGMENTED")
    assert [numbers[key] for key in ("need", "free", "best_free", "short")] == [4, 4, 2, 2]


def test_example_12_says_that_two_gpus_would_start_now():
    assert numbers_of(example_12(), "1", "FRAGMENTED")["gpus_at_most"] == 2


def test_example_12_says_which_group_frees_first_and_when():
    numbers = numbers_of(example_12(), "1", "FRAGMENTED")
    assert (numbers["earliest_domain"], numbers["earliest_at_ms"]) == ("g0", 6_000_000)


def example_23():
    the_pool = pool(gpus("n0", 2, memory="80GB", group="g0"), gpus("n1", 2, memory="24GB", group="g1"))
    running = [live("r", "n0/0", "n0/1", seconds=8000)]
    return decide(world(the_pool, job("1", 2, nvlink=True, memory="40GB"), running=running, now_ms=1_000_000))


def test_example_23_too_few_suitable_gpus_is_busy():
    assert numbers_of(example_23(), "1", "BUSY")["short"] == 2


def test_example_23_says_that_less_memory_would_start_now():
    assert numbers_of(example_23(), "1", "BUSY")["memory_at_most_mib"] == 22889


def test_example_23_says_when_the_group_is_free():
    numbers = numbers_of(example_23(), "1", "BUSY")
    assert (numbers["earliest_domain"], numbers["earliest_at_ms"]) == ("g0", 9_000_000)


def test_busy_says_in_words_what_is_short_and_what_would_start():
    message = decide(world(loose(2), job("1", 2), running=[live("r", "n0/0")])).holds[0].reasons[0].message
    assert message == (
        "Needs 2 GPUs in one node; 1 suitable free. The nearest node is n0, 1 short. "
        "It would start now with at most 1 GPU."
    )


def test_without_nvlink_is_offered_when_that_would_start_now():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 2, group="g1", first=2))
    running = [live("r", "n0/0"), live("s", "n0/2")]
    plan = decide(world(the_pool, job("1", 2, nvlink=True), running=running))
    assert numbers_of(plan, "1", "FRAGMENTED")["without_nvlink"] == 1


@pytest.mark.parametrize("key", ["gpus_at_most", "without_nvlink", "memory_at_most_mib"])
def test_nothing_is_offered_that_would_not_start(key):
    running = [live("r", "n0/0", "n0/1", "n1/0", "n1/1")]
    plan = decide(world(groups(2, 2), job("1", 2, nvlink=True, memory="10GB"), running=running))
    assert key not in numbers_of(plan, "1", "BUSY")


def test_a_job_that_runs_over_its_time_is_expected_to_end_in_a_minute_and_never_in_the_past():
    plan = decide(world(loose(1), job("1"), running=[live("r", "n0/0", seconds=0)], now_ms=60_000))
    assert numbers_of(plan, "1", "BUSY")["earliest_at_ms"] == 120_000


def test_d14_while_no_node_is_registered_all_jobs_wait():
    assert codes_of(decide(world(Pool(), job("1"), job("2", 500)))) == {"1": ["NO_NODES"], "2": ["NO_NODES"]}


def test_d14_a_job_that_the_pool_can_no_longer_hold_stays_queued_with_no_inventory():
    plan = decide(world(groups(1, 2), job("1", 4, nvlink=True)))
    assert numbers_of(plan, "1", "NO_INVENTORY") == {"need": 4, "installed": 2}


def test_d14_retired_gpus_are_not_installed():
    assert codes_of(decide(world(with_gpu_state(loose(1), "n0/0", GpuState.RETIRED), job("1")))) == {
        "1": ["NO_INVENTORY"]
    }


@pytest.mark.parametrize("state", [GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.QUARANTINED])
def test_d14_unhealthy_gpus_are_installed_but_the_job_waits_for_them(state):
    plan = decide(world(with_gpu_state(loose(2), "n0/0", state), job("1", 2)))
    assert numbers_of(plan, "1", "UNHEALTHY_CAPACITY") == {"need": 2, "healthy": 1, "installed": 2}


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING, NodeState.LOST])
def test_d14_a_node_that_takes_no_work_is_installed_but_the_job_waits_for_it(state):
    assert codes_of(decide(world(with_node_state(loose(2), "n0", state), job("1")))) == {"1": ["UNHEALTHY_CAPACITY"]}


def test_a_rule_is_the_reason_when_it_is_the_only_obstacle():
    the_job = job("1", rules=[rule("node", "In", "n0")])
    plan = decide(world(groups(2, 1), the_job, running=[live("r", "n0/0")]))
    assert numbers_of(plan, "1", "RULE") == {"rules": "node In n0"}


def test_a_rule_is_not_the_reason_when_without_it_the_job_would_wait_too():
    the_job = job("1", rules=[rule("node", "In", "n0")])
    plan = decide(world(groups(2, 1), the_job, running=[live("r", "n0/0"), live("s", "n1/0")]))
    assert codes_of(plan) == {"1": ["BUSY"]}


def test_a_rule_is_the_reason_when_nothing_installed_satisfies_it_any_more():
    assert codes_of(decide(world(loose(1), job("1", rules=[rule("rack_id", "In", "r9")])))) == {"1": ["RULE"]}


def test_a_job_whose_gpus_went_to_jobs_ahead_of_it_is_behind_them():
    plan = decide(world(loose(1), job("1", at=1), job("2", at=2)))
    assert numbers_of(plan, "2", "BEHIND") == {"first": "1"}


def test_a_job_that_is_behind_is_also_told_what_is_short():
    assert codes_of(decide(world(loose(1), job("1", at=1), job("2", at=2)))) == {"2": ["BEHIND", "BUSY"]}


def test_a_job_that_did_not_fit_before_either_is_not_behind():
    plan = decide(world(loose(2), job("1", at=1), job("2", 2, at=2), running=[live("r", "n0/0")]))
    assert codes_of(plan) == {"2": ["BUSY"]}


def test_a_job_that_backs_off_says_until_when():
    plan = decide(world(loose(1), job("1", eligible_at_ms=70_000)))
    assert numbers_of(plan, "1", "BACKOFF") == {"until_ms": 70_000}


def test_jobs_of_one_shape_have_the_same_reason_and_different_ranks():
    plan = decide(world(loose(1), job("1", at=1), job("2", at=2), running=[live("r", "n0/0")]))
    assert [(hold.job, hold.rank) for hold in plan.holds] == [("1", 1), ("2", 2)]
    assert plan.holds[0].reasons is plan.holds[1].reasons


def test_an_exclusive_job_is_told_how_many_gpus_keep_it_from_a_whole_group():
    running = [live("r", "n0/0", seconds=600)]
    plan = decide(world(groups(1, 4), job("1", 2, nvlink=True, nvlink_exclusive=True), running=running, now_ms=0))
    numbers = numbers_of(plan, "1", "FRAGMENTED")
    assert (numbers["short"], numbers["earliest_at_ms"]) == (1, 600_000)


def test_a_counterfactual_is_true():
    running = [live("r", "n0/0", "n0/1"), live("s", "n1/0", "n1/1")]
    assert order_of(decide(world(groups(2, 4), job("1", 2, nvlink=True), running=running))) == ["1"]


def test_a_change_is_not_offered_on_gpus_the_job_avoids():
    the_pool = pool(gpus("n0", 2, memory="24GB"), gpus("n1", 2, memory="80GB"))
    waiting = job("1", memory="40GB", avoid_nodes=["n0"])
    plan = decide(world(the_pool, waiting, running=[live("r", "n1/0"), live("s", "n1/1")]))
    assert "memory_at_most_mib" not in numbers_of(plan, "1", "BUSY")


def test_a_job_no_tick_has_seen_yet_starts_soon():
    assert starting_soon().code == "STARTING"


def test_every_waiting_job_has_a_reason_with_a_message():
    jobs = [job("1", at=1), job("2", 2, at=2), job("3", 9, at=3), job("4", at=4, eligible_at_ms=10**9)]
    plan = decide(world(loose(2), *jobs))
    assert {hold.job: bool(hold.reasons and all(reason.message for reason in hold.reasons)) for hold in plan.holds} == {
        "2": True, "3": True, "4": True,
    }  # fmt: skip
