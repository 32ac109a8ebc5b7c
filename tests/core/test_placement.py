"""Where a job of one node is placed: D15, D16, what it avoids (D13) and the rules of D19."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Pool
from scheduling.core.preference import memory_classes

from .build import (
    codes_of,
    gpus,
    groups,
    job,
    live,
    loose,
    node,
    order_of,
    places_of,
    pool,
    rule,
    with_gpu_state,
    with_node_state,
    world,
)


def placed(the_pool: Pool, *jobs, **more) -> dict[str, list[str]]:
    return places_of(decide(world(the_pool, *jobs, **more)))


def test_a_whole_small_group_is_broken_before_a_larger_one():
    the_pool = pool(gpus("n0", 8, group="g0"), gpus("n1", 2, group="g1"))
    assert placed(the_pool, job("1")) == {"1": ["n1/0"]}


def test_a_whole_small_group_is_broken_before_a_larger_one_even_of_less_memory():
    the_pool = pool(gpus("n0", 8, memory="24GB", group="g0"), gpus("n1", 2, memory="80GB", group="g1"))
    assert placed(the_pool, job("1")) == {"1": ["n1/0"]}


def test_of_equally_large_whole_groups_that_of_less_memory_is_broken():
    the_pool = pool(gpus("n0", 2, memory="80GB", group="g0"), gpus("n1", 2, memory="24GB", group="g1"))
    assert placed(the_pool, job("1")) == {"1": ["n1/0"]}


def test_a_group_that_a_job_fills_exactly_is_not_broken_by_it():
    the_pool = pool(gpus("n0", 4, group="g0"), gpus("n1", 2, group="g1"))
    assert placed(the_pool, job("1", 2, nvlink=True), running=[live("r", "n0/0")]) == {"1": ["n1/0", "n1/1"]}


@pytest.mark.parametrize(
    ("first_s", "second_s", "lies_on"),
    [(600, 900, "n1"), (900, 600, "n0"), (3600, 3000, "n1"), (3000, 3600, "n0"), (600, 600, "n0")],
    ids=["outlasts it less", "outlasts it less there", "ends sooner after it", "ends sooner after it there", "equal"],
)
def test_of_equally_tight_groups_that_is_taken_whose_jobs_end_with_it(first_s, second_s, lies_on):
    running = [live("a", "n0/0", seconds=first_s), live("b", "n1/0", seconds=second_s)]
    assert placed(groups(2, 4), job("1", seconds=1800), running=running) == {"1": [f"{lies_on}/1"]}


def test_the_tightest_group_comes_before_the_one_that_ends_with_it():
    running = [live("a", "n0/0", "n0/1", seconds=60), live("b", "n1/0", seconds=1800)]
    assert placed(groups(2, 4), job("1", seconds=1800), running=running) == {"1": ["n0/2"]}


def test_where_small_groups_take_the_single_gpus_ends_are_not_lined_up():
    the_pool = pool(*(gpus(f"n{n}", 8, group=f"g{n}") for n in (0, 1)), gpus("n2", 2, group="g2"))
    running = [live("a", "n0/0", seconds=60), live("b", "n1/0", seconds=1800), live("c", "n2/0", "n2/1")]
    assert placed(the_pool, job("1", seconds=1800), running=running) == {"1": ["n0/1"]}


def test_d15_several_jobs_share_a_group():
    jobs = [job("1", 2, at=1, nvlink=True), job("2", 2, at=2, nvlink=True)]
    assert placed(groups(1, 4), *jobs) == {"1": ["n0/0", "n0/1"], "2": ["n0/2", "n0/3"]}


def test_d15_the_tightest_group_comes_first():
    running = [live("r", "n0/0"), live("s", "n1/0", "n1/1")]
    assert placed(groups(2, 4), job("1", 2, nvlink=True), running=running) == {"1": ["n1/2", "n1/3"]}


def test_d15_an_nvlink_job_is_never_split_over_groups_of_one_node():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 2, group="g1", first=2))
    running = [live("r", "n0/0"), live("s", "n0/2")]
    assert codes_of(decide(world(the_pool, job("1", 2, nvlink=True), running=running))) == {"1": ["FRAGMENTED"]}


def test_d15_an_exclusive_job_holds_the_whole_group_its_own_gpus_first():
    plan = decide(world(groups(1, 4), job("1", 2, nvlink=True, nvlink_exclusive=True)))
    assert plan.starts[0].gpus == ("n0/0", "n0/1", "n0/2", "n0/3")


def test_d15_an_exclusive_job_waits_for_a_group_nobody_is_in():
    plan = decide(world(groups(1, 4), job("1", 2, nvlink=True, nvlink_exclusive=True), running=[live("r", "n0/0")]))
    assert order_of(plan) == []


def test_d15_an_exclusive_job_is_charged_the_whole_group():
    plan = decide(world(groups(1, 4), job("1", 2, nvlink=True, nvlink_exclusive=True), job("2", at=1)))
    assert plan.scores["2"].project.in_flight_gpu_h == 4.0


def test_d16_gpus_outside_groups_come_first():
    the_pool = pool(gpus("a", 4, group="g0"), gpus("b", 1))
    assert placed(the_pool, job("1"), running=[live("r", "a/0")]) == {"1": ["b/0"]}


def test_d16_gpus_outside_groups_come_first_even_with_more_memory():
    the_pool = pool(gpus("a", 4, group="g0", memory="24GB"), gpus("b", 1, memory="80GB"))
    assert placed(the_pool, job("1", memory="10GB"), running=[live("r", "a/0")]) == {"1": ["b/0"]}


def test_d16_then_the_fullest_group_that_fits():
    running = [live("r", "n0/0"), live("s", "n1/0", "n1/1")]
    assert placed(groups(3, 4), job("1"), running=running) == {"1": ["n1/2"]}


def test_d16_several_gpus_without_nvlink_may_cross_groups_of_one_node():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 2, group="g1", first=2))
    assert placed(the_pool, job("1", 3)) == {"1": ["n0/0", "n0/1", "n0/2"]}


def test_d16_a_job_that_must_cross_groups_takes_most_from_the_one_with_the_most():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 3, group="g1", first=2))
    assert placed(the_pool, job("1", 4)) == {"1": ["n0/0", "n0/2", "n0/3", "n0/4"]}


def test_d16_several_gpus_stay_in_one_group_when_one_has_them():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 3, group="g1", first=2))
    assert placed(the_pool, job("1", 3)) == {"1": ["n0/2", "n0/3", "n0/4"]}


def test_a_job_of_one_node_never_spans_two():
    assert order_of(decide(world(groups(2, 2), job("1", 3)))) == []


def test_memory_sizes_are_mixed_only_when_no_single_size_suffices():
    the_pool = pool(gpus("n0", 1, memory="40GB"), gpus("n0", 2, memory="80GB", first=1))
    assert placed(the_pool, job("1", 2)) == {"1": ["n0/1", "n0/2"]}


def test_gpus_whose_memory_differs_by_little_are_taken_as_one_size():
    the_pool = pool(*(gpus("n0", 1, memory=f"{mib}MiB", first=n) for n, mib in enumerate((81920, 81559, 81559))))
    assert placed(the_pool, job("1", 2)) == {"1": ["n0/0", "n0/1"]}


def test_the_minimum_of_memory_is_exact_among_gpus_whose_memory_differs_by_little():
    the_pool = pool(*(gpus("n0", 1, memory=f"{mib}MiB", first=n) for n, mib in enumerate((81559, 81559, 81920))))
    assert placed(the_pool, job("1", memory="81560MiB")) == {"1": ["n0/2"]}


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [
        ((81_559, 81_920, 40_960), (81_559, 81_559, 40_960)),
        ((46_068, 49_140), (46_068, 46_068)),
        ((40_960, 49_140), (40_960, 49_140)),
        ((1000, 1090, 1101, 1190, 1300), (1000, 1000, 1101, 1101, 1300)),
        ((0, 1), (0, 1)),
    ],
)
def test_memory_within_a_tenth_of_the_smallest_of_its_class_is_of_one_class(sizes, classes):
    assert memory_classes(sizes) == dict(zip(sizes, classes, strict=True))


def test_memory_sizes_are_mixed_when_they_must_be():
    the_pool = pool(gpus("n0", 1, memory="40GB"), gpus("n0", 1, memory="80GB", first=1))
    assert placed(the_pool, job("1", 2)) == {"1": ["n0/0", "n0/1"]}


def test_single_gpu_jobs_take_nodes_of_low_bandwidth():
    the_pool = pool(gpus("a", 1), gpus("b", 1), nodes=[node("a", gbps=400.0), node("b", gbps=100.0)])
    assert placed(the_pool, job("1")) == {"1": ["b/0"]}


def test_a_gpu_alone_in_its_group_is_in_no_group():
    the_pool = pool(gpus("n0", 1, group="g0"), gpus("n1", 2, group="g1"))
    assert placed(the_pool, job("1", 1, nvlink=True)) == {"1": ["n1/0"]}


@pytest.mark.parametrize("state", [state for state in GpuState if state is not GpuState.HEALTHY])
def test_only_healthy_gpus_get_work(state):
    assert order_of(decide(world(with_gpu_state(loose(1), "n0/0", state), job("1")))) == []


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.READY])
def test_only_ready_nodes_get_work(state):
    assert order_of(decide(world(with_node_state(loose(1), "n0", state), job("1")))) == []


def test_an_allocated_gpu_is_not_given_out_again():
    assert placed(loose(2), job("1"), running=[live("r", "n0/0")]) == {"1": ["n0/1"]}


def test_d13_the_gpu_a_job_was_lost_on_is_avoided():
    assert placed(loose(2), job("1", avoid_gpus=["n0/0"])) == {"1": ["n0/1"]}


def test_d13_the_node_a_job_was_lost_on_is_avoided():
    assert placed(groups(2, 2), job("1", avoid_nodes=["n0"])) == {"1": ["n1/0"]}


def test_d13_a_job_waits_for_a_busy_node_rather_than_go_back_to_the_one_it_was_lost_on():
    running = [live("r", "n1/0", "n1/1")]
    assert placed(groups(2, 2), job("1", avoid_nodes=["n0"]), running=running) == {}


def test_d13_what_is_avoided_is_used_when_the_others_are_too_few_to_hold_the_job_ever():
    assert placed(loose(2), job("1", 2, avoid_gpus=["n0/0"])) == {"1": ["n0/0", "n0/1"]}


def test_d13_what_is_avoided_is_used_when_the_others_are_not_healthy():
    the_pool = with_gpu_state(loose(2), "n0/1", GpuState.UNHEALTHY)
    assert placed(the_pool, job("1", avoid_gpus=["n0/0"])) == {"1": ["n0/0"]}


def test_d13_what_is_avoided_is_used_when_nothing_else_could_ever_hold_the_job():
    assert placed(groups(1, 2), job("1", avoid_nodes=["n0"])) == {"1": ["n0/0"]}


def two_racks() -> Pool:
    nodes = [
        node("a", rack="r1", gbps=100.0, labels=(("disk", "nvme"),)),
        node("b", rack="r2", gbps=400.0, labels=(("zone", "7"),)),
    ]
    return pool(gpus("a", 2, model="A100", group="ga"), gpus("b", 2, model="H100"), nodes=nodes)


@pytest.mark.parametrize(
    ("the_rule", "where"),
    [
        (rule("rack_id", "In", "r2"), "b"),
        (rule("rack_id", "NotIn", "r1"), "b"),
        (rule("node", "In", "a", "c"), "a"),
        (rule("gpu_model", "In", "H100"), "b"),
        (rule("gpu_model", "NotIn", "H100"), "a"),
        (rule("network_bandwidth_gbps", "Gt", "100"), "b"),
        (rule("network_bandwidth_gbps", "Lt", "400"), "a"),
        (rule("network_bandwidth_gbps", "In", "100.0"), "a"),
        (rule("nvlink_group_id", "Exists"), "a"),
        (rule("nvlink_group_id", "DoesNotExist"), "b"),
        (rule("nvlink_group_id", "In", "ga"), "a"),
        (rule("disk", "Exists"), "a"),
        (rule("disk", "DoesNotExist"), "b"),
        (rule("disk", "NotIn", "nvme"), "b"),
        (rule("zone", "Gt", "6"), "b"),
    ],
)
def test_d19_a_required_rule_decides_where(the_rule, where):
    the_job = job("1", rules=[the_rule])
    assert placed(two_racks(), the_job)["1"] == [f"{where}/0"]


def test_d19_required_rules_must_all_hold():
    rules = [rule("rack_id", "In", "r1"), rule("gpu_model", "In", "H100")]
    assert placed(two_racks(), job("1", rules=rules)) == {}


def test_d19_a_comparison_with_a_label_that_is_no_number_is_false():
    assert placed(two_racks(), job("1", rules=[rule("disk", "Gt", "1")])) == {}


@pytest.mark.parametrize("where", ["a", "b"])
def test_d19_a_preferred_rule_is_followed_where_it_can_be(where):
    assert placed(two_racks(), job("1", rules=[rule("node", "In", where, wish=1)])) == {"1": [f"{where}/0"]}


def test_d19_a_preferred_rule_never_keeps_a_job_waiting():
    assert placed(two_racks(), job("1", rules=[rule("node", "In", "nowhere", wish=100)])) == {"1": ["b/0"]}


def test_d19_the_weightier_of_two_wishes_wins():
    rules = [rule("node", "In", "b", wish=1), rule("node", "In", "a", wish=2)]
    assert placed(two_racks(), job("1", rules=rules)) == {"1": ["a/0"]}


def test_d19_labels_are_per_gpu_with_the_nodes_as_default():
    the_pool = two_racks()
    own = tuple(replace(gpu, labels=(("zone", "9"),)) if gpu.uuid == "b/1" else gpu for gpu in the_pool.gpus)
    assert placed(Pool(the_pool.nodes, own), job("1", rules=[rule("zone", "In", "9")])) == {"1": ["b/1"]}
