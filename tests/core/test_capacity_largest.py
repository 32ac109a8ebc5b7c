"""Laws about the largest that would fit: it agrees with placement, and sending it again is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.feasibility import could_hold
from scheduling.core.largest import rooms_for
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import ResourceRequest

from .build import gpus, pool
from .submitting import checked

SIZES = (1, 2, 3, 4, 8)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Up to six nodes in two racks: loose GPUs, groups of their own, and groups over several nodes."""
    nodes, boards = [], []
    for place in range(draw(st.integers(1, 6))):
        name = f"n{place}"
        nodes.append(Node(name, draw(st.sampled_from(["r0", "r1"])), 100.0))
        for index in range(draw(st.sampled_from(SIZES))):
            group = draw(st.sampled_from([None, f"g{place}", "rack-scale"]))
            boards.append(Gpu(f"{name}/{index}", name, index, "A100", draw(st.sampled_from([24, 80])), group))
    return Pool(tuple(nodes), tuple(boards))


topologies = st.sampled_from(
    [{}, {"nvlink_required": True}, {"required_level": "rack"}, {"required_level": "nvlink_group"}]
)


@settings(max_examples=60, deadline=None)
@given(pools(), topologies, st.sampled_from([0, 80]), st.integers(1, 5), st.integers(1, 9))
def test_what_is_counted_agrees_with_what_placement_finds(the_pool, topology, memory, nodes, per_node):
    if topology.get("required_level") == "nvlink_group" and nodes == 1:
        topology = {"nvlink_required": True}
    request = ResourceRequest(
        nodes * per_node, node_count=nodes, gpus_per_node=per_node, gpu_memory_min_mib=memory, **topology
    )
    assert rooms_for(the_pool, request).holds(nodes, per_node) == could_hold(the_pool, request)


@settings(max_examples=60, deadline=None)
@given(pools(), topologies)
def test_the_largest_count_is_split_and_held_and_one_more_is_not_split(the_pool, topology):
    rooms = rooms_for(the_pool, ResourceRequest(1, **topology))
    assert rooms.split(rooms.most() + 1) is None
    for count in range(1, rooms.most() + 1):
        split = rooms.split(count)
        if (split.nodes, split.remainder) == (1, 0) and "required_level" in topology:
            continue
        request = ResourceRequest(
            count, node_count=split.nodes, gpus_per_node=split.per_node, remainder=split.remainder, **topology
        )
        assert could_hold(the_pool, request)


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
            "gpu_memory_min": st.sampled_from(["50MiB", "90MiB"]),
        },
    ),
)
def test_sending_the_limits_again_is_accepted(the_pool, topology, numbers):
    body = {"kind": "merge", "gpu_count": None, **topology, **numbers}
    submission, errors = checked(body, the_pool=the_pool)
    if submission is None and all(error.limit for error in errors):
        again, left = checked({**body, **{error.field: error.limit for error in errors}}, the_pool=the_pool)
        assert left == ()
        assert again is not None


@pytest.mark.parametrize("nodes", [1250])
def test_the_largest_of_ten_thousand_gpus_is_counted_once(nodes):
    the_pool = Pool(
        tuple(Node(f"n{place}", f"r{place % 40}") for place in range(nodes)),
        tuple(Gpu(f"n{p}/{i}", f"n{p}", i, "A100", 80_000, f"g{p}") for p in range(nodes) for i in range(8)),
    )
    first = rooms_for(the_pool, ResourceRequest(1))
    assert rooms_for(the_pool, ResourceRequest(12, node_count=3)) is first
    assert first.most() == 10_000


UNEVEN = pool(gpus("n0", 8), gpus("n1", 8), gpus("n2", 2), gpus("n3", 2))


@pytest.mark.parametrize(("count", "is_told"), [(19, True), (20, True), (21, False)])
def test_a_count_that_only_fits_spread_out_is_refused_with_the_field_that_spreads_it(count, is_told):
    (error,) = checked(gpu_count=count, the_pool=UNEVEN)[1]
    assert (error.field, error.limit) == ("gpu_count", 18)
    assert ("with allow_span, where each gives what it has, there is room for 20" in error.message) is is_told
    assert (checked(gpu_count=count, allow_span=True, the_pool=UNEVEN)[1] == ()) is is_told
