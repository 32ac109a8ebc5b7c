"""A change that would help says all that it gives up: GPUs by fewer nodes, and fields that only more nodes can have."""

from __future__ import annotations

import pytest

from scheduling.services import given_up
from tests import builders as b

from .asking import planned

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("words", "numbers", "lost", "told"),
    [
        ("at most 1 node", (12, 6), [], "at most 1 node, so 6 GPUs instead of 12"),
        ("at most 1 GPU on each node", (12, 2), [], "at most 1 GPU on each node, so 2 GPUs instead of 12"),
        ("at most 2 GPUs on each node", (6, 2), [], "at most 2 GPUs on each node, so 2 GPUs instead of 6"),
        ("at most 2 GPUs", (4, 2), [], "at most 2 GPUs"),
        ("at most 4 GPUs and at most 1 node", (8, 4), ["a"], "at most 4 GPUs and at most 1 node, and without a"),
        ("at most 1 node", (None, 4), ["a", "b"], "at most 1 node, and without a and b"),
        ("a time limit of at most 9 min", (4, 4), [], "a time limit of at most 9 min"),
        (
            "at most 1 node and by evicting 1 job",
            (8, 4),
            ["a"],
            "at most 1 node, so 4 GPUs instead of 8, and without a, and by evicting 1 job",
        ),
    ],
)
def test_the_words_are_made_whole(words, numbers, lost, told):
    asked, gpus = numbers
    assert given_up.whole(words, asked=asked, gpus=gpus, lost=lost) == told
    assert given_up.says_more(told) == (told != words)


def test_a_gang_that_holds_out_is_told_what_it_gives_up_on_one_node(who, models):
    for name in ("n2", "n3"):
        b.node(name, rack="r2", wide="of two nodes")
    b.running(who["alice"], models, gpu_count=4)
    b.running(who["alice"], models, gpu_count=4, node="n2")
    body = b.command_body(gpu_count=8, node_count=2, required_level="rack", max_wait_for_level="1h")
    found = planned(who["alice"], body).alternatives[0]
    assert found.change == "at most 1 node, so 4 GPUs instead of 8, and without required_level and max_wait_for_level"
    assert planned(who["alice"], {**body, **found.fields}).verdict == "now"


def test_no_need_for_nvlink_gives_up_a_whole_group_too(who, models):
    b.running(who["alice"], models, gpu_count=2)
    changes = [each.change for each in planned(who["alice"], b.merge_body(models, nvlink_exclusive=True)).alternatives]
    assert "no need for NVLink, and without nvlink_exclusive" in changes


def test_nor_does_that_go_unsaid_where_no_group_could_ever_hold_it(who):
    b.node("n2")
    body = b.command_body(gpu_count=8, nvlink_required=True, nvlink_exclusive=True)
    changes = {each.change: each.fields for each in planned(who["alice"], body).alternatives}
    fields = {"nvlink_required": False, "nvlink_exclusive": False}
    assert changes["no need for NVLink, and without nvlink_exclusive"] == fields
