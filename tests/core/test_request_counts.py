"""How many GPUs, on how many nodes: what is read, and each refusal with both ends of what would be accepted."""

from __future__ import annotations

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Pool
from scheduling.core.request import validate
from scheduling.core.unusable import HugeNumber

from .submitting import BOARDS, KINDS, RESEARCHER, accepted, refused, the_error


@pytest.mark.parametrize(
    ("count", "code", "limit"),
    [
        (0, "out_of_range", 8),
        (-1, "out_of_range", 8),
        (1.5, "not_a_whole_number", 8),
        (2.0, "not_a_whole_number", 8),
        ("two", "not_a_whole_number", 8),
        ("1.5", "not_a_whole_number", 8),
        ("٢", "not_a_whole_number", 8),
        (True, "not_a_whole_number", 8),
        ([2], "not_a_whole_number", 8),
        (HugeNumber("1" + "0" * 400), "not_a_whole_number", 8),
        (10**9, "no_node", 8),
        (10**30, "no_node", 8),
        (9, "no_node", 8),
        (None, "required", None),
        ("", "required", None),
    ],
)
def test_a_bad_gpu_count_is_refused(count, code, limit):
    error = the_error(gpu_count=count)
    assert (error.field, error.code, error.limit) == ("gpu_count", code, limit)


@pytest.mark.parametrize("count", [0, -1, 1.5, "two", None])
def test_a_bad_gpu_count_is_told_both_ends_of_what_is_accepted(count):
    assert "a whole number from 1 to 8" in the_error(gpu_count=count).message


def test_a_bad_count_with_nvlink_is_told_the_largest_group():
    error = the_error(gpu_count=0, nvlink_required=True)
    assert (error.limit, "from 1 to 4" in error.message) == (4, True)


def test_a_bad_count_while_no_node_is_registered_is_told_the_bound_of_all_counts():
    assert "from 1 to 65536" in the_error(gpu_count=0, the_pool=Pool()).message


@pytest.mark.parametrize(
    ("field", "limit", "wanted"), [("node_count", 1, "must be 1,"), ("gpus_per_node", 8, "from 1 to 8,")]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
def test_bad_node_counts_are_told_the_upper_limit(field, limit, wanted, value):
    error = the_error({field: value})
    assert (error.field, error.limit, wanted in error.message) == (field, limit, True)


def test_a_missing_gpu_count_is_refused():
    body = {"kind": "merge", "project": "alpha"}
    _, errors = validate(body, policy=DEFAULT_POLICY, pool=BOARDS, rights=RESEARCHER, kinds=KINDS)
    assert [(error.field, error.code) for error in errors] == [("gpu_count", "required")]


def test_a_count_in_quotes_is_read_because_forms_post_text():
    assert accepted(gpu_count=" 2 ").request.gpu_count == 2


@pytest.mark.parametrize("field", ["node_count", "gpus_per_node"])
@pytest.mark.parametrize(("value", "code"), [(0, "out_of_range"), ("x", "not_a_whole_number")])
def test_bad_node_counts_are_refused(field, value, code):
    assert refused({field: value}) == [(field, code)]


def test_d17_a_count_that_is_not_the_product_is_refused_with_the_product():
    error = the_error(gpu_count=3, gpus_per_node=2)
    assert (error.field, error.code, error.limit) == ("gpu_count", "mismatch", 2)


def test_d17_several_nodes_that_disagree_are_told_both():
    assert refused(gpu_count=3, node_count=2, gpus_per_node=2) == [
        ("gpu_count", "mismatch"),
        ("node_count", "not_yet"),
    ]


def test_jobs_over_several_nodes_are_not_supported_yet():
    error = the_error(gpu_count=4, node_count=2, gpus_per_node=2)
    assert (error.field, error.code, error.limit) == ("node_count", "not_yet", 1)
