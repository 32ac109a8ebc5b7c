"""Where jobs over several nodes are not taken yet, no refusal names a limit that is refused in its turn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.pool import Pool

from .build import gpus, node, pool
from .submitting import checked
from .test_capacity_largest import pools, topologies

FOURS = pool(*(gpus(f"n{place}", 4, group=f"g{place}") for place in range(2)))
RACK_OF_TWO = pool(gpus("n0", 4), gpus("n1", 4), nodes=[node("n0", rack="r0"), node("n1", rack="r0")])
RACKS_OF_ONE = pool(gpus("n0", 4), gpus("n1", 4), nodes=[node("n0", rack="r0"), node("n1", rack="r1")])


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"gpu_count": 5}, [("gpu_count", "one_node_only", 4)]),
        ({"gpu_count": 99}, [("gpu_count", "no_node", 4)]),
        ({"gpu_count": "many"}, [("gpu_count", "not_a_whole_number", 4)]),
        ({"gpu_count": 0}, [("gpu_count", "out_of_range", 4)]),
        ({"gpu_count": 4, "node_count": 2}, [("node_count", "one_node_only", 1)]),
        ({"gpu_count": 8, "node_count": 2}, [("gpu_count", "one_node_only", 4), ("node_count", "one_node_only", 1)]),
        ({"gpu_count": 7, "node_count": 2}, [("gpu_count", "one_node_only", 4), ("node_count", "one_node_only", 1)]),
        ({"gpu_count": None, "node_count": 9, "gpus_per_node": 2}, [("node_count", "one_node_only", 1)]),
        ({"gpu_count": 4, "node_count": "x"}, [("node_count", "not_a_whole_number", 1)]),
        ({"gpu_count": 8, "nvlink_required": True}, [("gpu_count", "no_nvlink_group", 4)]),
    ],
)
def test_a_count_is_refused_with_what_one_node_has(body, errors):
    found = checked(body, the_pool=FOURS, over_nodes=False)[1]
    assert [(error.field, error.code, error.limit) for error in found] == errors
    again = {**body, **{error.field: error.limit for error in found}}
    assert checked(again, the_pool=FOURS, over_nodes=False)[1] == ()


def test_a_count_over_several_nodes_says_that_it_is_the_nodes_that_can_not_run_it_yet():
    (error,) = checked(gpu_count=8, the_pool=FOURS, over_nodes=False)[1]
    assert error.message == ("a job of this kind lies on one node, and no node has room for 8 GPUs: ask for at most 4")


def test_spreading_is_refused_where_it_may_mean_several_nodes():
    (error,) = checked(gpu_count=2, allow_span=True, the_pool=FOURS, over_nodes=False)[1]
    assert (error.field, error.code) == ("allow_span", "one_node_only")
    assert checked(gpu_count=1, allow_span=True, the_pool=FOURS, over_nodes=False)[1] == ()


def test_while_no_node_is_registered_several_nodes_are_refused_with_a_number_that_is_accepted():
    body = {"gpu_count": 6, "node_count": 2}
    (error,) = checked(body, the_pool=Pool(), over_nodes=False)[1]
    assert (error.field, error.code, error.limit) == ("node_count", "one_node_only", 1)
    assert checked({**body, "node_count": 1}, the_pool=Pool(), over_nodes=False)[1] == ()


@settings(max_examples=60, deadline=None)
@given(
    pools(),
    topologies,
    st.fixed_dictionaries(
        {},
        optional={
            "gpu_count": st.integers(1, 60),
            "node_count": st.integers(1, 9),
            "gpus_per_node": st.integers(1, 12),
            "allow_span": st.just(True),
        },
    ),
)
def test_sending_the_limits_of_one_node_again_is_accepted(the_pool, topology, numbers):
    body = {"kind": "merge", "gpu_count": None, **topology, **numbers}
    submission, errors = checked(body, the_pool=the_pool, over_nodes=False)
    assert submission is None or not submission.request.is_gang
    if submission is None and all(error.limit for error in errors):
        again, left = checked(
            {**body, **{error.field: error.limit for error in errors}}, the_pool=the_pool, over_nodes=False
        )
        assert left == ()
        assert again is not None


@pytest.mark.parametrize("over_nodes", [True, False])
def test_a_limit_of_counts_is_one_where_the_required_rules_hold(over_nodes):
    rules = {"required": [{"key": "node", "op": "In", "values": ["n1"]}]}
    the_pool = pool(gpus("n0", 8), gpus("n1", 2))
    (error,) = checked(gpu_count=99, affinity=rules, the_pool=the_pool, over_nodes=over_nodes)[1]
    assert (error.field, error.limit) == ("gpu_count", 2)
    assert checked(gpu_count=2, affinity=rules, the_pool=the_pool, over_nodes=over_nodes)[1] == ()


# ---------------------------------------------------------------- one rack


def test_a_count_that_no_rack_holds_is_told_of_the_rack_and_that_leaving_it_out_would_do():
    (error,) = checked(gpu_count=8, required_level="rack", the_pool=RACKS_OF_ONE)[1]
    assert (error.code, error.limit) == ("no_capacity", 4)
    assert error.message == "no rack has room for 8 GPUs: ask for at most 4, or leave required_level out"


def test_nodes_that_no_rack_holds_are_told_of_the_rack_and_that_leaving_it_out_would_do():
    body = {"gpu_count": None, "node_count": 2, "gpus_per_node": 4, "required_level": "rack"}
    (error,) = checked(body, the_pool=RACKS_OF_ONE)[1]
    assert error.message.startswith("no rack has 2 nodes with 4 GPUs each")
    assert error.message.endswith(", or leave required_level out")
    assert checked({**body, "required_level": None}, the_pool=RACKS_OF_ONE)[1] == ()


@pytest.mark.parametrize("count", [8, 99])
def test_leaving_the_rack_out_is_not_proposed_where_that_is_refused_too(count):
    found = [
        error.message
        for the_pool in (RACK_OF_TWO, RACKS_OF_ONE)
        for error in checked(gpu_count=count, required_level="rack", the_pool=the_pool, over_nodes=False)[1]
    ]
    assert len(found) == 2
    assert not any("leave" in message for message in found)
