"""A job that its required rules and rules about groups keep away together is told of both."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.resources import GroupRule

from .build import codes_of, gpus, job, live, node, numbers_of, pool, rule, world

RACKS = {"c0": "r0", "c1": "r1", "c2": "r1"}
THE_POOL = pool(*(gpus(name, 2) for name in RACKS), nodes=[node(name, rack=rack) for name, rack in RACKS.items()])
APART = GroupRule("red", "rack")
IN_C2 = rule("node", "In", "c2")


def told(the_job, *running) -> str:
    """The first reason why the job waits."""
    return decide(world(THE_POOL, the_job, running=running)).holds[0].reasons[0].message


@pytest.mark.parametrize("also", [(), (live("s", "c2/0", "c2/1"),)], ids=["free", "in use"])
def test_a_job_whose_rule_leaves_a_node_that_a_group_keeps_it_from_is_told_of_both(also):
    running = (live("r", "c1/0", family="red"), *also)
    assert told(job("1", rules=[IN_C2], apart=APART), *running).startswith(
        "Free GPUs would do, but the required rules (node=c2) leave only c2, and it must keep out of every rack "
        "with a job of group red (1 runs, on c1). It would start now without "
    )


def test_the_numbers_name_the_rules_the_group_and_each_change_that_would_help():
    running = [live("r", "c1/0", family="red")]
    plan = decide(world(THE_POOL, job("1", rules=[IN_C2], apart=APART), running=running))
    assert numbers_of(plan, "1", "RULE").items() >= {
        "rules": "node=c2", "group": "red", "level": "rack", "running": 1, "without_rule": 1,
        "without_anti_affinity": 1,
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "left"), [(("c1", "c2"), "c1 and c2"), (("c0", "c1", "c2"), "3 nodes")], ids=["two", "three"]
)
def test_what_the_rules_leave_is_named_or_counted(nodes, left):
    running = [live("r", *(f"{name}/0" for name in nodes), family="red")]
    the_pool = pool(*(gpus(name, 2) for name in ("c0", "c1", "c2", "c3")))
    the_job = job("1", rules=[rule("node", "In", *nodes)], apart=GroupRule("red", "node"))
    message = decide(world(the_pool, the_job, running=running)).holds[0].reasons[0].message
    assert f"leave only {left}, and it must keep out of every node" in message


def test_where_a_group_leaves_gpus_that_are_in_use_only_the_rules_are_told():
    running = [live("r", "c0/0", family="red"), live("s", "c2/0", "c2/1")]
    assert told(job("1", rules=[IN_C2], apart=APART), *running).startswith(
        "Free GPUs would do, but the required rules don't hold there: node=c2."
    )


def test_a_job_that_a_group_keeps_away_and_no_rule_is_told_of_the_group_alone():
    running = [live("r", "c1/0", family="red")]
    the_job = job("1", 2, rules=[rule("node", "In", "c1", "c2")], apart=APART)
    plan = decide(world(THE_POOL, the_job, running=[*running, live("s", "c0/0")]))
    assert codes_of(plan) == {"1": ["RULE"]}
    assert plan.holds[0].reasons[0].message.startswith("GPUs that suit it are free, but it must keep out of every rack")
