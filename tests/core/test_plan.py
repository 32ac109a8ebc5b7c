"""The canonical text of a plan."""

from __future__ import annotations

import json

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Plan, Start
from scheduling.core.resources import ResourceRequest

from .build import groups, job, world


def test_equal_plans_have_one_text_whatever_the_order_of_their_mappings():
    plan = decide(world(groups(1, 2), job("a"), job("b", 2)))
    turned = Plan(**{**vars(plan), "scores": dict(reversed(list(plan.scores.items())))})
    assert turned.to_json() == plan.to_json()


def test_different_plans_have_different_digests():
    assert (
        Plan(0, starts=(Start("a", ("x",), ("n",)),)).digest() != Plan(0, starts=(Start("b", ("x",), ("n",)),)).digest()
    )


def test_the_text_is_json_that_says_what_starts():
    plan = decide(world(groups(1, 2), job("a")))
    assert json.loads(plan.to_json())["starts"] == [{"job": "a", "gpus": ["n0/0"], "nodes": ["n0"]}]


def test_the_shape_of_a_request_is_everything_but_its_duration():
    short, long = ResourceRequest(2, max_duration_s=60), ResourceRequest(2, max_duration_s=600)
    assert short.shape == long.shape != ResourceRequest(2, nvlink_required=True).shape


@pytest.mark.parametrize(("count", "nodes", "per_node"), [(0, 1, 0), (3, 2, 0), (4, 2, 1), (-1, 1, -1)])
def test_a_request_whose_counts_disagree_cannot_be_made(count, nodes, per_node):
    with pytest.raises(ValueError, match="gpu_count"):
        ResourceRequest(count, nodes, per_node)


def test_a_plan_of_an_empty_world_does_nothing():
    assert decide(world(groups(1, 2))) == Plan(10_000)
