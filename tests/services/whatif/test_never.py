"""What helps a job that would be refused: every change is taken, and starts when it says."""

from __future__ import annotations

import pytest

from scheduling.core.units import gb
from tests import builders as b

from .asking import planned

pytestmark = pytest.mark.django_db

SMALL_MIB = 38147
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


def test_what_the_refusal_of_the_rules_asks_for_together_is_offered(who):
    b.node("n5", gpus=2, memory_gb=40)
    on_n5 = {"affinity": {"required": [{"key": "node", "op": "In", "values": ["n5"]}]}}
    words = f"a need for at most {gb(SMALL_MIB)} of memory per GPU"
    less = {"gpu_memory_min": f"{SMALL_MIB}MiB"}
    found = offered(who, b.command_body(gpu_count=4, gpu_memory_min="70GB", **on_n5))
    assert (f"{words} and at most 2 GPUs", {**less, "gpu_count": 2}) in found
    assert (words, less) in offered(who, b.command_body(gpu_count=2, gpu_memory_min="70GB", **on_n5))


def test_what_is_offered_together_says_that_patience_is_left_out(who, nodes):
    found = offered(
        who, b.command_body(gpu_count=4, node_count=2, gpu_memory_min="1GB", **ON_N2, max_wait_for_level=60)
    )
    assert found[0][0] == "at most 1 node, so 2 GPUs instead of 4, and without max_wait_for_level"


@pytest.mark.parametrize(
    ("counts", "fields"),
    [
        ({"gpu_per_node": 3, "gpu_count": None}, {"gpu_per_node": 2}),
        (
            {"gpu_per_node": 3, "gpus_per_node": 3, "gpu_count": 3},
            {"gpu_per_node": 2, "gpus_per_node": 2, "gpu_count": 2},
        ),
    ],
)
def test_a_change_has_the_fields_as_the_body_spells_them(who, nodes, counts, fields):
    assert fields in [each for _, each in offered(who, b.command_body(**ON_N2, **counts))]
    large = {name: value and 9 for name, value in counts.items()}
    assert dict.fromkeys(fields, 4) in [each for _, each in offered(who, b.command_body(**large))]
