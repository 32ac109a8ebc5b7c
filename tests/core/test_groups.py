"""Rules between jobs: beside, or apart from, the running jobs of a group (D19)."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.pool import Pool
from scheduling.core.resources import GroupRule

from .build import codes_of, gpus, job, live, node, order_of, places_of, pool, promised, world


def rule(level: str, group: str = "red") -> GroupRule:
    return GroupRule(group, level)


def two_racks() -> Pool:
    """n0 and n1 in rack r0, n2 in r1; two GPUs each, in a group of their own."""
    nodes = [node("n0"), node("n1"), node("n2", rack="r1")]
    return pool(*(gpus(f"n{n}", 2, group=f"g{n}") for n in range(3)), nodes=nodes)


RED = [live("red one", "n0/0", family="red")]


@pytest.mark.parametrize(("level", "where"), [("node", ["n1/0"]), ("nvlink_group", ["n1/0"]), ("rack", ["n2/0"])])
def test_d19_a_job_that_keeps_apart_is_in_no_place_where_the_group_runs(level, where):
    assert places_of(decide(world(two_racks(), job("1", apart=rule(level)), running=RED))) == {"1": where}


@pytest.mark.parametrize("level", ["node", "nvlink_group", "rack"])
def test_d19_a_job_runs_beside_its_group(level):
    beside = ["n0/1"]
    assert places_of(decide(world(two_racks(), job("1", near=rule(level)), running=RED))) == {"1": beside}


def test_d19_beside_in_a_rack_is_any_node_of_it():
    running = [*RED, live("other", "n0/1")]
    assert places_of(decide(world(two_racks(), job("1", near=rule("rack")), running=running))) == {"1": ["n1/0"]}


def test_d19_a_job_waits_for_a_partner():
    plan = decide(world(two_racks(), job("1", near=rule("node"))))
    assert codes_of(plan) == {"1": ["NO_PARTNER"]}


def test_d19_the_first_job_of_a_group_that_stays_together_may_start_anywhere():
    assert order_of(decide(world(two_racks(), job("1", near=rule("node"), family="red")))) == ["1"]


def test_d19_the_others_of_a_group_that_stays_together_follow_it():
    jobs = [job(f"{n}", at=n, near=rule("node"), family="red") for n in range(3)]
    assert places_of(decide(world(two_racks(), *jobs))) == {"0": ["n0/0"], "1": ["n0/1"]}


def test_d19_apart_from_its_own_group_spreads_a_family():
    jobs = [job(f"{n}", at=n, apart=rule("node"), family="red") for n in range(4)]
    assert places_of(decide(world(two_racks(), *jobs))) == {"0": ["n0/0"], "1": ["n1/0"], "2": ["n2/0"]}


def test_d19_a_running_job_that_keeps_apart_keeps_the_group_away():
    running = [live("keeper", "n0/0", apart=rule("node"))]
    assert places_of(decide(world(two_racks(), job("1", family="red"), running=running))) == {"1": ["n1/0"]}


def test_d19_a_job_of_no_group_is_kept_away_by_nobody():
    running = [live("keeper", "n0/0", apart=rule("node"))]
    assert places_of(decide(world(two_racks(), job("1"), running=running))) == {"1": ["n0/1"]}


def test_d19_a_gpu_outside_groups_is_in_no_nvlink_domain():
    the_pool = pool(gpus("n0", 2))
    plan = decide(world(the_pool, job("1", apart=rule("nvlink_group")), running=[live("red", "n0/0", family="red")]))
    assert places_of(plan) == {"1": ["n0/1"]}


@pytest.mark.parametrize("partner_level", ["High", "Normal", "Low"])
def test_d19_a_job_starts_in_the_pass_in_which_its_partner_does_unless_that_one_ranks_lower(partner_level):
    jobs = [job("near", at=1, near=rule("node")), job("partner", at=2, level=partner_level, family="red")]
    started = order_of(decide(world(two_racks(), *jobs)))
    assert ("near" in started) == (partner_level != "Low")


def test_d19_a_job_of_several_gpus_is_looked_at_again_when_its_partner_starts():
    jobs = [job("near", 2, at=1, near=rule("rack")), job("partner", at=2, family="red")]
    assert places_of(decide(world(two_racks(), *jobs))) == {"partner": ["n0/0"], "near": ["n1/0", "n1/1"]}


def test_d19_a_job_that_may_evict_is_looked_at_again_when_its_partner_starts():
    jobs = [
        job("near", at=1, near=rule("node"), level="Critical"),
        job("partner", at=2, family="red", level="Critical"),
    ]
    assert places_of(decide(world(two_racks(), *jobs))) == {"partner": ["n0/0"], "near": ["n0/1"]}


def test_d19_a_job_that_is_looked_at_again_and_still_does_not_fit_gets_its_reservation():
    jobs = [job("near", 2, at=1, near=rule("node")), job("partner", at=2, family="red", seconds=900)]
    plan = decide(world(pool(gpus("n0", 3)), *jobs, running=[live("x", "n0/2", ends=600)]))
    assert promised(plan) == {"near": (600, ["n0/1", "n0/2"])}


def test_d19_a_waiting_job_of_the_group_is_no_partner():
    jobs = [job("near", near=rule("node")), job("partner", 3, family="red")]
    assert order_of(decide(world(two_racks(), *jobs))) == []


def test_d19_a_reservation_given_before_the_partner_came_is_not_given_twice():
    jobs = [job("near", 2, at=1, near=rule("rack")), job("partner", at=2, family="red")]
    running = [live("red", "n2/0", family="red", ends=9000), live("x", "n0/0", ends=9000), live("y", "n1/0", ends=9000)]
    three = pool(*(gpus(f"n{n}", 3 if n == 2 else 2) for n in range(3)), nodes=two_racks().nodes)
    plan = decide(world(three, *jobs, running=[*running, live("z", "n2/2", ends=5000)]))
    assert promised(plan) == {"near": (5000, ["n2/1", "n2/2"])}


def test_d19_a_job_that_starts_after_all_keeps_no_reservation():
    jobs = [job("near", 2, at=1, near=rule("node")), job("partner", at=2, family="red")]
    running = [live("red", "n0/0", family="red", ends=5000), live("x", "n0/1", ends=5000), live("y", "n1/0", ends=9000)]
    three = pool(*(gpus(f"n{n}", 3 if n == 2 else 2) for n in range(3)))
    plan = decide(world(three, *jobs, running=[*running, live("z", "n1/1", ends=9000)]))
    assert (order_of(plan), promised(plan)) == (["partner", "near"], {})
