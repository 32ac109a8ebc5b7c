"""Jobs of several nodes: D17 (counts, all or nothing), D18 (the ladder), and those that may spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.policy import DEFAULT_POLICY, Backfill
from scheduling.core.pool import Pool

from .build import gang, gpus, groups, job, live, node, order_of, places_of, pool, promised, rule, world
from .submitting import accepted


def racked(*racks: str, size: int = 2, gbps: dict[str, float] | None = None, group: str | None = None) -> Pool:
    """Nodes n0, n1, ... in these racks, each with so many GPUs."""
    nodes = [node(f"n{n}", rack=rack, gbps=(gbps or {}).get(f"n{n}", 100.0)) for n, rack in enumerate(racks)]
    return pool(*(gpus(f"n{n}", size, group=group) for n in range(len(racks))), nodes=nodes)


def nodes_of(the_pool: Pool, the_job, **more) -> tuple[str, ...]:
    """The nodes the job starts on, in order; none when it doesn't start."""
    starts = decide(world(the_pool, the_job, **more)).starts
    return starts[0].nodes if starts else ()


def test_d17_a_gang_gets_exactly_as_many_gpus_on_exactly_as_many_nodes():
    assert places_of(decide(world(racked("r0", "r0", "r0", size=4), gang("1", 2, 3)))) == {
        "1": ["n0/0", "n0/1", "n0/2", "n1/0", "n1/1", "n1/2"]
    }


def test_d17_all_or_nothing():
    assert nodes_of(racked("r0", "r0"), gang("1", 2, 2), running=[live("r", "n1/0")]) == ()


def test_d17_a_count_that_does_not_divide_has_its_remainder_on_one_node_more():
    plan = decide(world(racked("r0", "r0", size=4), gang("1", 1, 4, remainder=3)))
    assert places_of(plan) == {"1": ["n0/0", "n0/1", "n0/2", "n0/3", "n1/0", "n1/1", "n1/2"]}


def test_d17_the_remainder_lies_on_the_tightest_node_that_has_room():
    running = [live("r", "n1/0", "n1/1", "n1/2")]
    assert nodes_of(racked("r0", "r0", "r0", size=4), gang("1", 1, 4, remainder=1), running=running) == ("n0", "n1")


def test_in_a_group_too_the_remainder_lies_in_the_rack_of_a_full_part_if_it_can():
    the_pool, running = racked("r0", "r1", "r0", group="fabric"), [live("r", "n1/0")]
    assert nodes_of(the_pool, gang("1", 1, 2, remainder=1), running=running) == ("n0", "n2")


def test_d18_one_rack_comes_before_several():
    assert nodes_of(racked("r0", "r1", "r1"), gang("1", 2, 2)) == ("n1", "n2")


def test_d18_an_nvlink_domain_comes_before_a_rack():
    nodes = [node(f"n{n}", rack=f"r{n % 2}") for n in range(4)]
    parts = [gpus("n0", 2), gpus("n1", 2, group="fabric"), gpus("n2", 2, group="fabric"), gpus("n3", 2)]
    assert sorted(nodes_of(pool(*parts, nodes=nodes), gang("1", 2, 2))) == ["n1", "n2"]


def test_d18_several_racks_are_used_when_no_single_one_suffices():
    assert nodes_of(racked("r0", "r1"), gang("1", 2, 2)) == ("n0", "n1")


def test_d18_the_rack_with_the_better_bottleneck_comes_first():
    fast = {"n2": 400.0, "n3": 400.0}
    assert nodes_of(racked("r0", "r0", "r1", "r1", gbps=fast), gang("1", 2, 2)) == ("n2", "n3")


@pytest.mark.parametrize(
    ("racks", "gbps", "the_job", "nodes"),
    [
        (("r0", "r1", "r2"), (100.0, 400.0, 200.0), gang("1", 2, 2), ("n1", "n2")),
        (("r0", "r0", "r1", "r2"), (100.0, 100.0, 200.0, 400.0), gang("1", 2, 2), ("n0", "n1")),
        (
            ("r0", "r0", "r1", "r1", "r2", "r3"),
            (100.0, 400.0, 200.0, 200.0, 100.0, 400.0),
            gang("1", 3, 2),
            ("n1", "n2", "n3"),
        ),
        (("r0", "r0", "r1", "r1"), (100.0, 400.0, 400.0, 400.0), gang("1", 1, 2, remainder=1), ("n2", "n3")),
        (("r0", "r1", "r2"), (100.0, 400.0, 200.0), gang("1", 1, 2, remainder=1), ("n1", "n2")),
        (("r0", "r1", "r2"), (100.0, 400.0, 200.0), job("1", 3, allow_span=True), ("n1", "n2")),
    ],
    ids=["three racks", "one rack of slow nodes", "two racks of four", "remainder in one rack", "remainder", "spread"],
)
def test_d18_of_equally_few_racks_those_are_taken_whose_slowest_node_is_fastest(racks, gbps, the_job, nodes):
    speeds = {f"n{place}": speed for place, speed in enumerate(gbps)}
    assert sorted(nodes_of(racked(*racks, gbps=speeds), the_job)) == sorted(nodes)


def test_d18_of_equally_fast_racks_the_one_with_fewest_spare_nodes_comes_first():
    assert nodes_of(racked("r0", "r0", "r0", "r1", "r1"), gang("1", 2, 2)) == ("n3", "n4")


def test_d18_required_level_rack_is_hard():
    assert nodes_of(racked("r0", "r1"), gang("1", 2, 2, required_level="rack")) == ()


@pytest.mark.parametrize(
    ("level", "split", "nodes"), [(None, (2, 6, 0), ("n0", "n2")), ("rack", (1, 8, 4), ("n0", "n1"))]
)
def test_d17_a_count_is_split_evenly_over_racks_unless_one_rack_is_required(level, split, nodes):
    racks = {"n0": "r0", "n1": "r0", "n2": "r1"}
    the_pool = pool(
        *(gpus(name, 4 if name == "n1" else 8) for name in racks), nodes=[node(n, rack=r) for n, r in racks.items()]
    )
    asked = accepted(gpu_count=12, required_level=level, the_pool=the_pool).request
    assert (asked.node_count, asked.gpus_per_node, asked.remainder) == split
    assert nodes_of(the_pool, replace(job("1"), request=asked)) == nodes


def test_d18_required_level_nvlink_group_is_hard():
    assert nodes_of(racked("r0", "r0"), gang("1", 2, 2, required_level="nvlink_group")) == ()


def test_d18_nvlink_over_several_nodes_lies_in_one_group():
    two = pool(gpus("n0", 2, group="a"), gpus("n1", 2, group="b"), gpus("n2", 2, group="b"))
    assert nodes_of(two, gang("1", 2, 2, nvlink=True)) == ("n1", "n2")


def test_d18_nvlink_over_several_nodes_waits_rather_than_leave_its_group():
    assert nodes_of(groups(2, 2), gang("1", 2, 2, nvlink=True)) == ()


@pytest.mark.parametrize(("waited", "nodes"), [(299, ()), (300, ("n0", "n1"))])
def test_d18_max_wait_for_level_says_how_long_to_hold_out_for_a_better_rung(waited, nodes):
    the_pool, running = racked("r0", "r1", "r1"), [live("r", "n2/0")]
    the_gang = gang("1", 2, 2, at=0, max_wait_for_level_s=300)
    assert nodes_of(the_pool, the_gang, running=running, now_ms=waited * 1000) == nodes


def test_d18_a_gang_does_not_hold_out_for_a_rung_the_pool_does_not_have():
    assert nodes_of(racked("r0", "r1"), gang("1", 2, 2, max_wait_for_level_s=300)) == ("n0", "n1")


def test_a_gang_takes_the_smallest_sufficient_memory_on_all_nodes():
    sizes = {"n0": "80GB", "n1": "40GB", "n2": "40GB", "n3": "80GB"}
    the_pool = pool(*(gpus(name, 2, memory=memory) for name, memory in sizes.items()))
    assert nodes_of(the_pool, gang("1", 2, 2)) == ("n1", "n2")


@pytest.mark.parametrize(
    ("least", "nodes"), [("40GB", ("n1", "n2")), ("81560MiB", ("n3", "n2")), ("81921MiB", ())], ids=str
)
def test_a_gang_stays_in_one_rack_where_memory_differs_by_little_but_never_below_its_minimum(least, nodes):
    sizes = {"n0": ("81559MiB", "r0"), "n1": ("81559MiB", "r1"), "n2": ("81920MiB", "r1"), "n3": ("81920MiB", "r0")}
    the_pool = pool(
        *(gpus(name, 2, memory=memory) for name, (memory, _) in sizes.items()),
        nodes=[node(name, rack=rack, gbps=100.0 if name != "n0" else 50.0) for name, (_, rack) in sizes.items()],
    )
    assert nodes_of(the_pool, gang("1", 2, 2, memory=least)) == nodes


def test_a_gang_mixes_memory_sizes_only_when_it_must():
    the_pool = pool(gpus("n0", 2, memory="40GB"), gpus("n1", 2, memory="80GB"))
    assert nodes_of(the_pool, gang("1", 2, 2)) == ("n0", "n1")


def test_a_gang_prefers_one_nvlink_group_on_each_node():
    the_pool = pool(gpus("n0", 1), gpus("n0", 2, group="a", first=1), gpus("n1", 2, group="b"))
    assert places_of(decide(world(the_pool, gang("1", 2, 2))))["1"] == ["n0/1", "n0/2", "n1/0", "n1/1"]


def test_d19_a_gang_keeps_to_its_rules():
    the_gang = gang("1", 2, 2, rules=[rule("rack_id", "NotIn", "r0")])
    assert nodes_of(racked("r0", "r0", "r1", "r1"), the_gang) == ("n2", "n3")


def test_a_job_that_may_spread_takes_one_node_when_one_suffices():
    assert nodes_of(racked("r0", "r0"), job("1", 2, allow_span=True)) == ("n0",)


def test_a_job_that_may_spread_takes_the_fewest_nodes():
    the_pool = pool(gpus("n0", 1), gpus("n1", 4), gpus("n2", 2))
    assert nodes_of(the_pool, job("1", 5, allow_span=True)) == ("n1", "n0")


def test_a_job_that_may_not_spread_waits_for_one_node():
    assert order_of(decide(world(racked("r0", "r0"), job("1", 3)))) == []


def test_d29_a_blocked_gang_is_promised_the_nodes_that_are_ready_first():
    running = [live("r", "n0/0", ends=300), live("s", "n1/0", ends=100), live("t", "n2/0", ends=200)]
    plan = decide(world(racked("r0", "r0", "r0"), gang("1", 2, 2), running=running))
    assert promised(plan) == {"1": (200, ["n1/0", "n1/1", "n2/0", "n2/1"])}


@pytest.mark.parametrize(("patience_s", "start", "where"), [(0, 100, ["n0", "n1"]), (500, 600, ["n1", "n2"])])
def test_d29_a_rack_is_promised_when_it_is_ready_little_later_than_several(patience_s, start, where):
    running = [live("r", "n0/0", ends=100), live("s", "n2/0", ends=600)]
    policy = replace(DEFAULT_POLICY, backfill=Backfill(rack_patience_s=patience_s))
    plan = decide(world(racked("r0", "r1", "r1"), gang("1", 2, 2), running=running, policy=policy))
    assert promised(plan) == {"1": (start, [f"{name}/{index}" for name in where for index in (0, 1)])}
