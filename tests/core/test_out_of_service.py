"""A job that only what is out of service could hold is told which nodes that are, and why each takes no work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.explain import holds_of
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.scheduler import Scheduler

from .build import gang, gpus, job, loose, node, pool, with_gpu_state, with_node_state, world


def single(count):
    """So many nodes with one GPU each."""
    return pool(*(gpus(f"n{place}", 1) for place in range(count)))


def told(the_pool, *jobs):
    """What the first job is told after the counts."""
    message = decide(world(the_pool, *jobs or (job("1"),))).holds[0].reasons[0].message
    return message.partition(" at most. ")[2]


def out(the_pool, **states):
    for name, state in states.items():
        the_pool = with_node_state(the_pool, name, state)
    return the_pool


def test_each_node_is_named_with_its_own_cause():
    the_pool = out(single(3), n0=NodeState.CORDONED, n1=NodeState.DRAINING, n2=NodeState.LOST)
    assert told(the_pool) == "Out of service: n0 (cordoned), n1 (draining), n2 (lost)."


def test_of_many_a_few_are_named_and_the_rest_counted():
    the_pool = out(single(5), **{f"n{i}": NodeState.LOST for i in range(5)})
    assert told(the_pool) == "Out of service: n0 (lost), n1 (lost), n2 (lost) and 2 more nodes."


def test_one_more_than_a_few_is_named_too():
    the_pool = out(single(4), **{f"n{i}": NodeState.LOST for i in range(4)})
    assert told(the_pool).endswith("n2 (lost), n3 (lost).")


def test_gpus_are_told_by_their_state():
    the_pool = with_gpu_state(loose(4), "n0/0", GpuState.UNHEALTHY)
    the_pool = with_gpu_state(with_gpu_state(the_pool, "n0/1", GpuState.QUARANTINED), "n0/2", GpuState.QUARANTINED)
    assert told(the_pool, job("1", 4)) == "Out of service: n0 (1 GPU unhealthy, 2 quarantined)."


@pytest.mark.parametrize("why", ["its agent is leaving", "short of disk"])
def test_a_node_that_nobody_cordoned_says_what_keeps_it_from_work(why):
    the_pool = out(loose(1), n0=NodeState.CORDONED)
    the_pool = replace(the_pool, nodes=tuple(replace(node, closed_by=why) for node in the_pool.nodes))
    assert told(the_pool) == f"Out of service: n0 ({why})."


def test_a_node_that_is_silent_but_not_lost_is_told_so():
    scheduler = Scheduler(world(loose(1), job("1")), unreachable=frozenset(["n0"]))
    scheduler.cycle(0)
    (hold,) = holds_of(scheduler)
    assert hold.reasons[0].message.endswith("Out of service: n0 (not heard of for a while).")


def test_nodes_that_would_not_suit_are_not_named():
    the_pool = out(pool(gpus("n0", 1, memory="40GB"), gpus("n1", 1)), n0=NodeState.LOST, n1=NodeState.CORDONED)
    assert told(the_pool, job("1", memory="60GB")) == "Out of service: n1 (cordoned)."


def test_for_nvlink_only_nodes_with_groups_are_named():
    the_pool = out(pool(gpus("n0", 2), gpus("n1", 2, group="g1")), n0=NodeState.LOST, n1=NodeState.CORDONED)
    assert told(the_pool, job("1", 2, nvlink=True)) == "Out of service: n1 (cordoned)."


@pytest.mark.parametrize(
    ("lost", "ready"), [(("n2",), "2 nodes with 1 GPU or more are"), (("n1", "n2"), "1 node with 1 GPU or more is")]
)
def test_a_gang_is_told_how_many_such_nodes_are_in_service(lost, ready):
    """Not how many GPUs: one node may have all of those, and be no help."""
    the_pool = out(pool(*(gpus(f"n{place}", 4) for place in range(3))), **dict.fromkeys(lost, NodeState.LOST))
    message = decide(world(the_pool, gang("1", 3, 1))).holds[0].reasons[0].message
    assert message.partition(" Out of")[0] == f"Needs 1 GPU on each of 3 nodes, and {ready} in service."


def test_a_gang_of_one_rack_is_told_that_there_are_nodes_but_not_together():
    nodes = [node(f"n{place}", rack=f"r{place % 2}") for place in range(4)]
    the_pool = out(
        pool(*(gpus(f"n{place}", 1) for place in range(4)), nodes=nodes), n0=NodeState.LOST, n1=NodeState.LOST
    )
    message = decide(world(the_pool, gang("1", 2, 1, required_level="rack"))).holds[0].reasons[0].message
    assert message.partition(" Out of")[0] == (
        "Needs 1 GPU on each of 2 nodes of one rack; 2 nodes with 1 GPU or more are in service, "
        "but not all that it needs together."
    )
