"""All that is wrong is told at once: no fault hides another, and what is told as a limit is accepted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.request import FieldError

from .build import gpus, groups, node, pool
from .submitting import accepted, checked

MIXED = pool(
    gpus("node-1", 4, memory="80GB"),
    gpus("node-2", 4, memory="40GB"),
    gpus("n-a", 2, memory="80GB", group="na0"),
    gpus("n-a", 2, memory="80GB", group="na1", first=2),
    gpus("n-b", 2, memory="24GB"),
    nodes=[node("node-1", rack="r1"), node("node-2", rack="r2"), node("n-a", rack="r1"), node("n-b", rack="r2")],
)
FORTY, EIGHTY = "38147MiB", "76294MiB"
RULE = ("affinity.required", "unsatisfiable_rule", None)


def in_rack(name: str) -> dict[str, object]:
    return {"required": [{"key": "rack_id", "op": "In", "values": [name]}]}


def told(body: dict[str, object], the_pool: Pool = MIXED, **more) -> list[tuple[str, str, object]]:
    return [(each.field, each.code, each.limit) for each in checked(body, the_pool=the_pool, **more)[1]]


def too_many(limit: int, code: str = "no_capacity") -> tuple[str, str, object]:
    return ("gpu_count", code, limit)


def too_large(limit: str) -> tuple[str, str, object]:
    return ("gpu_memory_min", "no_such_memory", limit)


# ---------------------------------------------------------------- a rule beside the numbers


@pytest.mark.parametrize(
    ("body", "rack", "errors"),
    [
        ({"gpu_count": 4, "gpu_memory_min": "500GB"}, "r2", [too_large(FORTY)]),
        ({"gpu_count": 5, "gpu_memory_min": "500GB"}, "r2", [too_large(FORTY), RULE]),
        ({"gpu_count": 99, "gpu_memory_min": "500GB"}, "r2", [too_many(4, "no_node"), too_large(FORTY)]),
        ({"gpu_count": 99}, "r2", [too_many(6)]),
        ({"gpu_count": 99, "gpu_memory_min": "40GB"}, "r2", [too_many(4, "no_node")]),
        ({"gpu_count": 99, "gpu_memory_min": "80GB"}, "r2", [too_many(8), RULE]),
        ({"gpu_count": 4, "gpu_memory_min": "80GB"}, "r2", [RULE]),
        ({"gpu_count": 4, "gpu_memory_min": "lots"}, "r2", [("gpu_memory_min", "bad_memory", FORTY)]),
        ({"gpu_count": 4, "gpu_memory_min": 10**30}, "r2", [too_large(FORTY)]),
        ({"gpu_count": 99}, "zzz", [too_many(14), RULE]),
        ({"gpu_count": 99, "gpu_memory_min": "500GB"}, "zzz", [too_many(8), too_large(EIGHTY), RULE]),
        ({"gpu_count": 0}, "zzz", [("gpu_count", "out_of_range", 14), RULE]),
        ({"gpu_count": 99, "nvlink_required": True}, "zzz", [too_many(2, "no_nvlink_group"), RULE]),
        ({"gpu_count": 99, "nvlink_required": True}, "r2", [too_many(2, "no_nvlink_group"), RULE]),
        ({"gpu_count": 2, "nvlink_required": True}, "r2", [RULE]),
        ({"gpu_count": 99, "node_count": 9}, "zzz", [too_many(12), ("node_count", "no_capacity", 3), RULE]),
        ({"gpu_count": 99, "required_level": "rack"}, "zzz", [too_many(8), RULE]),
        ({"gpu_count": 3, "gpus_per_node": 2}, "zzz", [("gpu_count", "mismatch", 2), RULE]),
    ],
)
def test_a_rule_and_the_numbers_are_told_together_with_limits_that_count_it_where_it_holds(body, rack, errors):
    sent = {**body, "affinity": in_rack(rack)}
    assert told(sent) == errors
    mended = {**sent, **{field: limit for field, _, limit in errors if limit}}
    accepted(without_rules(mended) if RULE in errors else mended, the_pool=MIXED)


def without_rules(body: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name != "affinity"}


def messages(body: dict[str, object], the_pool: Pool = MIXED) -> dict[str, str]:
    return {each.field: each.message for each in checked(body, the_pool=the_pool)[1]}


def test_limits_that_count_no_rule_are_told_as_such():
    said = messages({"gpu_count": 99, "affinity": in_rack("zzz")})
    assert said["affinity.required"] == (
        "nothing installed could hold the job where its required rules hold (rack_id=zzz); loosen them; the limits "
        "that are told beside this are without them"
    )


def test_a_rule_alone_says_nothing_of_limits():
    assert messages({"gpu_count": 1, "affinity": in_rack("zzz")})["affinity.required"].endswith("; loosen them")


def test_memory_that_is_only_too_large_where_the_rules_hold_is_told_the_most_there():
    said = messages({"gpu_count": 1, "gpu_memory_min": "80GB", "affinity": in_rack("r2")})
    assert said["affinity.required"].endswith(
        "hold (rack_id=r2); the largest GPU there has 40 GB: ask for a gpu_memory_min of at most 38147MiB, or loosen "
        "them"
    )
    accepted({"gpu_count": 1, "gpu_memory_min": "38147MiB", "affinity": in_rack("r2")}, the_pool=MIXED)


def test_the_limit_of_the_memory_says_that_it_counts_the_rules():
    said = messages({"gpu_count": 1, "gpu_memory_min": "500GB", "affinity": in_rack("r2")})
    assert "the largest where the required rules and the topology hold has 40 GB (38147 MiB)" in said["gpu_memory_min"]


def test_a_rule_that_can_not_be_read_does_not_hide_one_that_holds_nowhere():
    rules = {"required": [{"key": "rack_id", "op": "In", "values": ["zzz"]}, {"key": "ssd", "op": "Is"}]}
    assert [each[:2] for each in told({"gpu_count": 99, "affinity": rules})] == [
        ("gpu_count", "no_capacity"),
        ("affinity.required.1.op", "unknown_operator"),
        ("affinity.required", "unsatisfiable_rule"),
    ]


# ---------------------------------------------------------------- other pairs


def test_a_place_to_be_near_in_that_there_is_none_of_is_told_beside_the_count():
    unnamed = pool(gpus("n0", 4), nodes=[node("n0", rack="")])
    sent = {"gpu_count": 99, "with": {"group": "a", "level": "rack"}}
    assert [each[:2] for each in told(sent, unnamed)] == [
        ("gpu_count", "no_node"),
        ("with.level", "unsatisfiable_rule"),
    ]


@pytest.mark.parametrize("body", [{"gpu_count": 9}, {"gpu_count": 0}, {"gpu_count": None, "node_count": 2}])
def test_patience_that_the_accepted_size_has_no_use_for_is_told_beside_the_count(body):
    said = messages({**body, "max_wait_for_level": "1h"}, groups(1, 4))
    assert "one of the size that is accepted lies on one node: leave it out" in said["max_wait_for_level"]


def test_no_whole_group_is_told_beside_a_count_that_is_too_large_without_it_too():
    spanning = pool(gpus("n0", 2, group="g"), gpus("n1", 2, group="g"))
    sent = {"gpu_count": 9, "nvlink_required": True, "nvlink_exclusive": True}
    assert told(sent, spanning) == [
        ("gpu_count", "no_nvlink_group", 4),
        ("nvlink_exclusive", "no_nvlink_group", None),
    ]


def test_a_memory_limit_is_one_that_the_nvlink_groups_have():
    some = pool(gpus("n0", 4, memory="80GB"), gpus("n1", 4, memory="40GB", group="g"))
    sent = {"gpu_count": 4, "nvlink_required": True, "gpu_memory_min": "500GB"}
    assert told(sent, some) == [too_large(FORTY)]
    accepted({**sent, "gpu_memory_min": FORTY}, the_pool=some)


def test_memory_in_a_pool_of_nodes_without_gpus_is_told_as_no_gpus():
    bare = Pool((node("n0"),), ())
    assert told({"gpu_count": 2, "gpu_memory_min": "40GB"}, bare) == [too_many(0, "no_node")]


@pytest.mark.parametrize(("sent", "code"), [("9999d", "above_cap"), (10**30, "above_cap"), ("soon", "bad_duration")])
def test_a_duration_that_no_queue_allows_is_told_beside_a_queue_there_is_not(sent, code):
    assert told({"queue": "x", "max_duration": sent})[1:] == [("max_duration", code, 7 * 86_400)]


@pytest.mark.parametrize("memory", ["banana", "0GB", "-3GB"])
@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ({"gpu_count": 8}, {"gpu_memory_min": EIGHTY}),
        ({"gpu_count": 9, "allow_span": True}, {"gpu_memory_min": FORTY}),
        ({"gpu_count": 15, "allow_span": True}, {"gpu_count": 14, "gpu_memory_min": "22889MiB"}),
        ({"gpu_count": None, "node_count": 2, "gpus_per_node": 4}, {"gpu_memory_min": EIGHTY}),
        ({"gpu_count": None, "node_count": 3, "gpus_per_node": 4}, {"gpu_memory_min": FORTY}),
    ],
)
def test_a_memory_that_can_not_be_read_is_told_the_most_with_which_the_counts_fit(body, limits, memory):
    sent = {**body, "gpu_memory_min": memory}
    assert {field: limit for field, _, limit in told(sent)} == limits
    accepted({**sent, **limits}, the_pool=MIXED)


# ---------------------------------------------------------------- of every refusal


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Up to four nodes of labelled racks, with memory of three sizes, and groups of their own or over nodes."""
    nodes, boards = [], []
    for place in range(draw(st.integers(0, 4))):
        name = f"n{place}"
        rack, gbps = draw(st.sampled_from(["", "r1", "r2"])), draw(st.sampled_from([10.0, 100.0]))
        nodes.append(Node(name, rack, gbps, labels=draw(st.sampled_from([(), (("ssd", "yes"),)]))))
        for index in range(draw(st.sampled_from([0, 1, 2, 4]))):
            group = draw(st.sampled_from([None, f"g{place}", "wide"]))
            boards.append(Gpu(f"{name}/{index}", name, index, "A100", draw(st.sampled_from([24, 40, 80])), group))
    return Pool(tuple(nodes), tuple(boards))


RULES = (
    {"key": "rack_id", "op": "In", "values": ["r1"]},
    {"key": "rack_id", "op": "NotIn", "values": ["r1", "r2"]},
    {"key": "rack_id", "op": "In", "values": ["zzz"]},
    {"key": "network_bandwidth_gbps", "op": "Gt", "values": [50]},
    {"key": "network_bandwidth_gbps", "op": "Lt", "values": [5]},
    {"key": "nvlink_group_id", "op": "Exists"},
    {"key": "ssd", "op": "Exists"},
    {"key": "sdd", "op": "Is"},
)
PLACE = st.sampled_from(["node", "nvlink_group", "rack"])
BODIES = st.fixed_dictionaries(
    {"gpu_count": st.sampled_from([None, 0, 1, 2, 4, 7, 99])},
    optional={
        "node_count": st.sampled_from([0, 1, 2, 3, 9]),
        "gpus_per_node": st.sampled_from([0, 1, 2, 3, 9]),
        "gpu_memory_min": st.sampled_from(["lots", "30MiB", "50MiB", "90MiB", 10**30]),
        "nvlink_required": st.booleans(),
        "nvlink_exclusive": st.booleans(),
        "required_level": st.sampled_from(["nvlink_group", "rack", "pod"]),
        "max_wait_for_level": st.sampled_from(["1h", "soon"]),
        "allow_span": st.booleans(),
        "affinity": st.builds(lambda rules: {"required": rules}, st.lists(st.sampled_from(RULES), max_size=2)),
        "with": st.builds(lambda level: {"group": "a", "level": level}, PLACE),
        "anti_affinity": st.builds(lambda level: {"group": "a", "level": level}, PLACE),
        "queue": st.just("x"),
        "max_duration": st.sampled_from(["soon", "9999d"]),
    },
)
LIMITED = ("gpu_count", "node_count", "gpus_per_node", "gpu_memory_min", "max_duration")


COUNTS = ("gpu_count", "node_count", "gpus_per_node")


def has_limit(error: FieldError, errors: tuple[FieldError, ...]) -> bool:
    """Whether its limit can be taken: that of a number that can't be read counts rules that are refused beside it, and
    the other numbers don't."""
    ruled = any(each.field == "affinity.required" for each in errors)
    unread = error.field in COUNTS and error.code in ("out_of_range", "not_a_whole_number", "required")
    return error.field in LIMITED and bool(error.limit) and not (ruled and unread)


def with_limits(body: dict[str, object], errors: tuple[FieldError, ...]) -> dict[str, object]:
    """The body with every limit that was told in the place of what was sent, and without what was to be left out: a
    memory of no meaning, a whole group that nobody can have, spreading or the patience that contradicts it."""
    left_out = {each.field for each in errors if each.code == "bad_memory"}
    left_out |= {each.field for each in errors if each.field == "nvlink_exclusive"}
    if any(each.field == "allow_span" for each in errors):
        left_out |= {"allow_span", "max_wait_for_level"}
    limits = {each.field: each.limit for each in errors if has_limit(each, errors)}
    return {**body, **limits, **dict.fromkeys(left_out)}


def reasons(errors: Iterable[FieldError]) -> set[tuple[str, str]]:
    """What is refused and why; that the pool has no GPUs is told at any of the counts."""
    return {
        ("counts", "none") if each.limit == 0 and each.field in COUNTS else (each.field, each.code) for each in errors
    }


def without_a_limit(errors: tuple[FieldError, ...]) -> set[tuple[str, str]]:
    return reasons(each for each in errors if not has_limit(each, errors))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(pools(), BODIES, st.booleans())
def test_whoever_takes_all_limits_at_once_is_refused_for_nothing_that_was_not_told(the_pool, body, over_nodes):
    # While no node bounds a number, one that can't be read has no largest beside a whole group that is refused.
    assume(the_pool.nodes or 0 not in (body.get(name) for name in COUNTS))
    errors = checked(body, the_pool=the_pool, over_nodes=over_nodes)[1]
    left = checked(with_limits(body, errors), the_pool=the_pool, over_nodes=over_nodes)[1]
    assert reasons(left) <= without_a_limit(errors)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(pools(), BODIES, st.booleans())
def test_whoever_leaves_out_rules_that_hold_nowhere_and_takes_the_limits_is_refused_for_nothing_else(
    the_pool, body, over_nodes
):
    # While no node bounds a number, one that can't be read has no largest beside a whole group that is refused.
    assume(the_pool.nodes or 0 not in (body.get(name) for name in COUNTS))
    errors = checked(body, the_pool=the_pool, over_nodes=over_nodes)[1]
    ruled = ("affinity.required", "unsatisfiable_rule") in reasons(errors)
    mended = with_limits(without_rules(body) if ruled else body, errors)
    left = checked(mended, the_pool=the_pool, over_nodes=over_nodes)[1]
    assert reasons(left) <= without_a_limit(errors)
