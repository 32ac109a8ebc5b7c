"""How many GPUs, on how many nodes: what is read, and each refusal with both ends of what would be accepted."""

from __future__ import annotations

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Pool
from scheduling.core.request import validate
from scheduling.core.unusable import HugeNumber

from .build import gpus, groups, loose, node, pool
from .submitting import BOARDS, KINDS, NOW_MS, RESEARCHER, accepted, checked, refused, the_error

EIGHTS = pool(*(gpus(f"n{place}", 8) for place in range(4)))
RACKS = pool(
    *(gpus(f"n{place}", 4) for place in range(5)),
    nodes=[node(f"n{place}", rack="r0" if place < 2 else "r1") for place in range(5)],
)
# Two racks whose NVLink reaches over all nodes of the rack, as in the rack-scale machines.
NVL = pool(*(gpus(f"n{place}", 4, group=f"nvl{place // 4}") for place in range(8)))


@pytest.mark.parametrize(
    ("count", "code", "limit"),
    [
        (0, "out_of_range", 12),
        (-1, "out_of_range", 12),
        (1.5, "not_a_whole_number", 12),
        (2.0, "not_a_whole_number", 12),
        ("two", "not_a_whole_number", 12),
        ("1.5", "not_a_whole_number", 12),
        ("٢", "not_a_whole_number", 12),
        (True, "not_a_whole_number", 12),
        ([2], "not_a_whole_number", 12),
        (HugeNumber("1" + "0" * 400), "out_of_range", 12),
        (HugeNumber("-1" + "0" * 400), "out_of_range", 12),
        (HugeNumber("1e400"), "not_a_whole_number", 12),
        ("9" * 5000, "out_of_range", 12),
        (10**9, "no_capacity", 12),
        (10**30, "no_capacity", 12),
        (13, "no_capacity", 12),
        (None, "required", 12),
        ("", "not_a_whole_number", 12),
    ],
)
def test_a_bad_gpu_count_is_refused(count, code, limit):
    error = the_error(gpu_count=count)
    assert (error.field, error.code, error.limit) == ("gpu_count", code, limit)


@pytest.mark.parametrize("count", [0, -1, 1.5, "two", None, "", HugeNumber("9" * 40)])
def test_a_bad_gpu_count_is_told_both_ends_of_what_is_accepted(count):
    assert "a whole number from 1 to 12" in the_error(gpu_count=count).message


def test_a_bad_count_with_nvlink_is_told_the_largest_group():
    error = the_error(gpu_count=0, nvlink_required=True)
    assert (error.limit, "from 1 to 4" in error.message) == (4, True)


def test_a_bad_count_with_memory_is_told_the_most_that_have_it():
    assert the_error(gpu_count=0, gpu_memory_min="40GB").limit == 4


def test_a_bad_count_while_no_node_is_registered_is_told_the_bound_of_all_counts():
    assert "from 1 to 65536" in the_error(gpu_count=0, the_pool=Pool()).message


@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
@pytest.mark.parametrize(
    ("field", "others", "limit"),
    [
        ("node_count", {"gpu_count": 12}, 4),
        ("node_count", {"gpu_count": 7}, 1),
        ("node_count", {"gpu_count": None, "gpus_per_node": 8}, 4),
        ("gpus_per_node", {"gpu_count": 18}, 6),
        ("gpus_per_node", {"gpu_count": None, "node_count": 2}, 8),
        ("gpu_count", {"node_count": 3}, 24),
        ("gpu_count", {"gpus_per_node": 3}, 12),
        ("gpu_count", {"node_count": 2, "gpus_per_node": 3}, 6),
    ],
)
def test_a_bad_number_is_told_the_largest_that_fits_the_others(value, field, others, limit):
    body = {**others, field: value}
    error = the_error(body, the_pool=EIGHTS)
    assert (error.field, error.limit) == (field, limit)
    assert accepted({**body, field: error.limit}, the_pool=EIGHTS)


@pytest.mark.parametrize("body", [{}, {"node_count": 2}])
def test_a_missing_gpu_count_is_refused(body):
    sent = {"kind": "merge", "project": "alpha", **body}
    _, errors = validate(sent, policy=DEFAULT_POLICY, pool=BOARDS, rights=RESEARCHER, kinds=KINDS, now_ms=NOW_MS)
    assert [(error.field, error.code) for error in errors] == [("gpu_count", "required")]


def test_a_count_in_quotes_is_read_because_forms_post_text():
    assert accepted(gpu_count=" 2 ").request.gpu_count == 2


@pytest.mark.parametrize("field", ["node_count", "gpus_per_node"])
@pytest.mark.parametrize(("value", "code"), [(0, "out_of_range"), ("x", "not_a_whole_number")])
def test_bad_node_counts_are_refused(field, value, code):
    assert refused({field: value}) == [(field, code)]


# ---------------------------------------------------------------- what the numbers mean (D17)


@pytest.mark.parametrize(
    ("body", "nodes"),
    [
        ({"gpu_count": None, "node_count": 2, "gpus_per_node": 3}, (2, 3)),
        ({"gpu_count": 6, "node_count": 2}, (2, 3)),
        ({"gpu_count": 6, "gpus_per_node": 3}, (2, 3)),
        ({"gpu_count": 6, "node_count": 2, "gpus_per_node": 3}, (2, 3)),
        ({"gpu_count": None, "gpus_per_node": 3}, (1, 3)),
        ({"gpu_count": 3, "node_count": 1}, (1, 3)),
    ],
)
def test_d17_any_two_of_the_three_numbers_say_the_third(body, nodes):
    asked = accepted(body, the_pool=EIGHTS).request
    assert (asked.node_count, asked.gpus_per_node, asked.remainder) == (*nodes, 0)


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({"gpu_count": 3, "gpus_per_node": 2}, 2),
        ({"gpu_count": 1, "gpus_per_node": 2}, 2),
        ({"gpu_count": 7, "node_count": 2}, 6),
        ({"gpu_count": 1, "node_count": 2}, 2),
        ({"gpu_count": 5, "node_count": 2, "gpus_per_node": 2}, 4),
    ],
)
def test_d17_a_count_that_is_not_the_product_is_refused_with_the_product(body, limit):
    error = the_error(body, the_pool=EIGHTS)
    assert (error.field, error.code, error.limit) == ("gpu_count", "mismatch", limit)
    assert accepted({**body, "gpu_count": limit}, the_pool=EIGHTS)


@pytest.mark.parametrize(
    ("body", "words", "without"),
    [
        (
            {"gpu_count": 5, "gpus_per_node": 2},
            "a multiple of gpus_per_node, which is 2: ask for 4 instead of 5, or leave gpus_per_node out",
            "gpus_per_node",
        ),
        (
            {"gpu_count": 7, "node_count": 2},
            "a multiple of node_count, which is 2: ask for 6 instead of 7, or leave node_count out",
            "node_count",
        ),
        (
            {"gpu_count": 5, "node_count": 2, "gpus_per_node": 2},
            "node_count * gpus_per_node: 5 is not 2 * 2 = 4; give numbers that agree, or leave gpu_count out",
            "gpu_count",
        ),
    ],
)
def test_d17_numbers_that_disagree_are_told_in_the_words_of_those_that_were_sent(body, words, without):
    assert the_error(body, the_pool=EIGHTS).message == f"gpu_count must be {words}"
    assert accepted({**body, without: None}, the_pool=EIGHTS)


def test_d17_to_leave_a_number_out_is_not_told_where_the_count_alone_is_refused():
    pairs = pool(gpus("n0", 2), gpus("n1", 2))
    error = the_error(gpu_count=5, gpus_per_node=2, the_pool=pairs)
    assert error.message == "gpu_count must be a multiple of gpus_per_node, which is 2: ask for 4 instead of 5"
    assert refused(gpu_count=5, the_pool=pairs) == [("gpu_count", "no_capacity")]


def test_a_mismatch_and_rules_that_nothing_satisfies_are_both_told():
    rules = {"required": [{"key": "node", "op": "In", "values": ["n9"]}]}
    assert refused(gpu_count=3, gpus_per_node=2, affinity=rules) == [
        ("gpu_count", "mismatch"),
        ("affinity.required", "unsatisfiable_rule"),
    ]


# ---------------------------------------------------------------- the scheduler chooses the nodes


@pytest.mark.parametrize(
    ("count", "nodes"),
    [
        (8, (1, 8, 0)),
        (10, (2, 5, 0)),
        (16, (2, 8, 0)),
        (9, (1, 8, 1)),
        (17, (2, 8, 1)),
        (24, (3, 8, 0)),
        (31, (3, 8, 7)),
    ],
)
def test_a_count_larger_than_any_node_goes_to_the_fewest_nodes_evenly_if_that_divides(count, nodes):
    asked = accepted(gpu_count=count, the_pool=EIGHTS).request
    assert (asked.gpu_count, asked.node_count, asked.gpus_per_node, asked.remainder) == (count, *nodes)


def test_a_count_that_divides_but_does_not_fit_evenly_fills_the_larger_nodes():
    asked = accepted(gpu_count=12).request
    assert (asked.node_count, asked.gpus_per_node, asked.remainder) == (1, 8, 4)


def test_a_count_that_fits_one_node_stays_on_it():
    assert not accepted(gpu_count=8, the_pool=EIGHTS).request.is_gang


def test_nvlink_over_several_nodes_stays_in_one_group():
    asked = accepted(gpu_count=16, nvlink_required=True, the_pool=NVL).request
    assert (asked.node_count, asked.gpus_per_node) == (4, 4)


def test_nvlink_that_no_group_holds_is_refused_with_the_largest_group_of_several_nodes():
    error = the_error(gpu_count=17, nvlink_required=True, the_pool=NVL)
    assert (error.field, error.code, error.limit) == ("gpu_count", "no_nvlink_group", 16)


def test_d18_a_gang_that_needs_nvlink_is_refused_where_groups_end_at_the_node():
    errors = checked(gpu_count=None, node_count=2, gpus_per_node=4, nvlink_required=True, the_pool=groups(2, 4))[1]
    assert [(e.field, e.code, e.limit) for e in errors] == [("node_count", "no_nvlink_group", 1)]


# ---------------------------------------------------------------- what doesn't fit, with the largest that would


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"gpu_count": None, "gpus_per_node": 9}, [("gpus_per_node", "no_node", 8)]),
        ({"gpu_count": 9, "node_count": 1}, [("gpu_count", "no_node", 8)]),
        ({"gpu_count": None, "node_count": 5, "gpus_per_node": 2}, [("node_count", "no_capacity", 4)]),
        ({"gpu_count": None, "node_count": 2, "gpus_per_node": 9}, [("gpus_per_node", "no_node", 8)]),
        (
            {"gpu_count": None, "node_count": 5, "gpus_per_node": 9},
            [("node_count", "no_capacity", 4), ("gpus_per_node", "no_node", 8)],
        ),
        ({"gpu_count": 20, "node_count": 2}, [("gpu_count", "no_capacity", 16)]),
        ({"gpu_count": 10, "node_count": 5}, [("gpu_count", "no_capacity", 8), ("node_count", "no_capacity", 4)]),
        ({"gpu_count": 40, "gpus_per_node": 4}, [("gpu_count", "no_capacity", 16)]),
        (
            {"gpu_count": 18, "gpus_per_node": 9},
            [("gpu_count", "no_capacity", 16), ("gpus_per_node", "no_node", 8)],
        ),
        (
            {"gpu_count": 10, "node_count": 5, "gpus_per_node": 2},
            [("gpu_count", "no_capacity", 8), ("node_count", "no_capacity", 4)],
        ),
        ({"gpu_count": 40, "allow_span": True}, [("gpu_count", "no_capacity", 32)]),
    ],
)
def test_numbers_that_no_place_holds_are_refused_with_the_largest_that_pass_together(body, errors):
    found = checked(body, the_pool=EIGHTS)[1]
    assert [(e.field, e.code, e.limit) for e in found] == errors
    assert accepted({**body, **{e.field: e.limit for e in found}}, the_pool=EIGHTS)


def test_a_gang_bound_to_one_rack_is_refused_with_the_nodes_of_the_largest_rack():
    error = the_error(gpu_count=None, node_count=4, gpus_per_node=4, required_level="rack", the_pool=RACKS)
    assert (error.field, error.code, error.limit) == ("node_count", "no_capacity", 3)
    assert error.message.startswith("no rack has 4 nodes with 4 GPUs each")


def test_a_count_bound_to_one_rack_is_refused_with_what_the_largest_rack_holds():
    error = the_error(gpu_count=13, required_level="rack", the_pool=RACKS)
    assert (error.field, error.code, error.limit) == ("gpu_count", "no_capacity", 12)


def test_a_count_that_only_the_required_rules_make_too_large_names_the_rules_and_what_they_leave():
    rules = {"required": [{"key": "node", "op": "In", "values": ["n0", "n1"]}]}
    error = the_error(gpu_count=20, affinity=rules, the_pool=EIGHTS)
    assert (error.field, error.code) == ("affinity.required", "unsatisfiable_rule")
    assert error.message.endswith("; ask for gpu_count of at most 16, or loosen them")
    assert accepted(gpu_count=16, affinity=rules, the_pool=EIGHTS)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"gpu_count": 6, "node_count": 6}, "ask for gpu_count of at most 4 and node_count of at most 4 together"),
        (
            {"node_count": 5, "gpus_per_node": 9, "gpu_count": None},
            "ask for node_count of at most 4 and gpus_per_node of at most 8 together",
        ),
        ({"gpu_count": 40, "node_count": 4}, "ask for gpu_count of at most 32"),
    ],
)
def test_advice_that_only_helps_together_says_so(body, told):
    _, errors = checked(body, the_pool=EIGHTS)
    assert {error.message.split(": ")[1] for error in errors} == {told}


def test_one_node_and_fewer_gpus_are_asked_for_together_where_a_job_lies_on_one_node():
    _, errors = checked({"gpu_count": 16, "node_count": 2}, the_pool=EIGHTS, over_nodes=False)
    told = "ask for gpu_count of at most 8 and node_count of at most 1 together"
    assert {error.message.split(": ")[1] for error in errors} == {told}


# ---------------------------------------------------------------- topology


@pytest.mark.parametrize(("level", "patience"), [("nvlink_group", None), ("rack", 7200), (None, 7200)])
def test_d18_a_required_level_is_kept_for_a_job_of_several_nodes(level, patience):
    asked = accepted(gpu_count=8, required_level=level, max_wait_for_level=patience, the_pool=NVL)
    assert (asked.request.required_level, asked.request.max_wait_for_level_s) == (level, patience)
    assert asked.max_wait_for_level == patience


def test_a_job_of_one_node_is_in_one_rack_anyway():
    assert accepted(gpu_count=4, required_level="rack", the_pool=RACKS).request.required_level is None


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"gpu_count": 4}, "this one lies on one node"),
        ({"gpu_count": 4, "required_level": "rack"}, "this one lies on one node"),
        ({"gpu_count": 8, "required_level": "nvlink_group"}, "this one lies in one NVLink group anyway"),
        ({"gpu_count": 8, "nvlink_required": True}, "this one lies in one NVLink group anyway"),
    ],
)
def test_holding_out_for_a_better_level_is_refused_where_there_is_none(asked, why):
    error = the_error(max_wait_for_level="1h", the_pool=NVL, **asked)
    assert (error.field, error.code, error.message) == (
        "max_wait_for_level",
        "no_effect",
        f"max_wait_for_level lets a job of several nodes hold out for a better level, and {why}: leave it out",
    )


def test_a_job_of_one_node_in_one_nvlink_group_needs_nvlink():
    asked = accepted(gpu_count=4, required_level="nvlink_group", the_pool=groups(1, 4)).request
    assert (asked.required_level, asked.nvlink_required) == (None, True)


@pytest.mark.parametrize("value", ["nod", 7, [], True])
def test_an_unknown_required_level_is_refused_with_the_known_ones(value):
    error = the_error(required_level=value)
    assert (error.field, error.code, error.limit) == ("required_level", "unknown_level", ("nvlink_group", "rack"))


@pytest.mark.parametrize("value", [0, "soon", True, []])
def test_a_max_wait_for_level_that_cannot_be_read_is_refused(value):
    assert refused(gpu_count=12, max_wait_for_level=value) == [("max_wait_for_level", "bad_duration")]


@pytest.mark.parametrize("value", [0, "soon", True, []])
def test_a_max_wait_for_level_that_would_have_no_effect_is_told_so_though_it_cannot_be_read(value):
    found = [("max_wait_for_level", "bad_duration"), ("max_wait_for_level", "no_effect")]
    assert refused(gpu_count=3, max_wait_for_level=value) == found


def test_a_job_may_be_spread_over_any_nodes():
    asked = accepted(gpu_count=12, allow_span=True).request
    assert (asked.allow_span, asked.node_count, asked.gpus_per_node) == (True, 1, 12)


def test_a_single_gpu_can_not_be_spread():
    assert not accepted(gpu_count=1, allow_span=True).request.allow_span


@pytest.mark.parametrize(
    "also",
    [
        {"node_count": 2, "gpu_count": 2},
        {"gpus_per_node": 2},
        {"nvlink_required": True},
        {"required_level": "rack"},
        {"max_wait_for_level": "1h", "gpu_count": 12},
    ],
)
def test_spreading_and_what_binds_together_contradict_each_other(also):
    assert refused(also, allow_span=True) == [("allow_span", "contradiction")]


def test_a_whole_group_for_itself_is_for_jobs_of_one_node():
    body = {"gpu_count": None, "node_count": 2, "gpus_per_node": 4, "nvlink_required": True, "nvlink_exclusive": True}
    assert refused(body, the_pool=NVL) == [("nvlink_exclusive", "one_node_only")]


def test_an_exclusive_count_larger_than_every_group_is_refused_with_the_largest():
    error = the_error(gpu_count=6, nvlink_required=True, nvlink_exclusive=True, the_pool=groups(2, 4))
    assert (error.field, error.code, error.limit) == ("gpu_count", "no_nvlink_group", 4)


def test_while_no_node_is_registered_a_count_is_taken_for_one_node():
    asked = accepted(gpu_count=500, the_pool=Pool()).request
    assert (asked.node_count, asked.gpus_per_node) == (1, 500)


def test_a_pool_of_nodes_without_gpus_holds_nothing():
    error = the_error(the_pool=Pool(loose(1).nodes))
    assert (error.field, error.limit, "the pool has no GPUs" in error.message) == ("gpu_count", 0, True)
