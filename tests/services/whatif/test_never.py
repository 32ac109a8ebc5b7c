"""What helps a job that would be refused: every change is taken, and starts when it says."""

from __future__ import annotations

import pytest

from tests import builders as b

from .asking import planned

pytestmark = pytest.mark.django_db

ONE_OF_3 = ", so 1 GPU instead of 3"
ON_N2 = {"affinity": {"required": [{"key": "node", "op": "In", "values": ["n2"]}]}}


def offered(who, body) -> list[tuple[str, dict]]:
    """(words, fields) of the changes, each of which was planned and starts at once."""
    plan = planned(who["alice"], body)
    assert plan.verdict == "never"
    assert [each.starts_at for each in plan.alternatives] == [b.NOON] * len(plan.alternatives)
    again = [planned(who["alice"], {**body, **each.fields}).verdict for each in plan.alternatives]
    assert again == ["now"] * len(again)
    return [(each.change, dict(each.fields)) for each in plan.alternatives]


@pytest.fixture
def nodes(who):
    """n1 has 4 GPUs, n2 and n3 have 2 each."""
    b.node("n2", gpus=2)
    b.node("n3", gpus=2)


@pytest.mark.parametrize(
    ("counts", "words", "fields"),
    [
        ({"gpu_count": 4}, "at most 2 GPUs", {"gpu_count": 2}),
        ({"gpu_count": "4"}, "at most 2 GPUs", {"gpu_count": 2}),
        ({"gpus_per_node": 3, "node_count": 1, "gpu_count": 3}, "at most 2 GPUs", {"gpu_count": 2, "gpus_per_node": 2}),
        ({"node_count": 3, "gpus_per_node": 1, "gpu_count": None}, f"at most 1 node{ONE_OF_3}", {"node_count": 1}),
        ({"node_count": 3, "gpu_count": 3}, f"at most 1 node{ONE_OF_3}", {"node_count": 1, "gpu_count": 1}),
    ],
)
def test_as_many_as_there_are_where_the_required_rules_hold_are_offered(who, nodes, counts, words, fields):
    assert (words, fields) in offered(who, b.command_body(**ON_N2, **counts))


def test_fewer_nodes_or_fewer_gpus_on_each_are_offered_where_the_rules_hold_on_small_ones(who, nodes):
    b.node("n4")
    rule = {"affinity": {"required": [{"key": "node", "op": "In", "values": ["n1", "n2"]}]}}
    found = offered(who, b.command_body(gpu_count=8, node_count=2, **rule))
    assert found[:2] == [
        ("at most 1 node, so 4 GPUs instead of 8", {"gpu_count": 4, "node_count": 1}),
        ("at most 2 GPUs on each node, so 4 GPUs instead of 8", {"gpu_count": 4}),
    ]


def test_gpus_over_any_nodes_are_offered_where_no_even_split_holds_the_count(who, nodes):
    assert ("GPUs spread over any nodes", {"allow_span": True}) in offered(who, b.command_body(gpu_count=8))


def test_gpus_over_any_nodes_are_not_offered_to_a_kind_that_lies_on_one(who, models, nodes):
    found = offered(who, b.merge_body(models, gpu_count=8, nvlink_required=False))
    assert found == [("at most 4 GPUs", {"gpu_count": 4})]
