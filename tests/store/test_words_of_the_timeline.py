"""The words in which the timeline names nodes, times and what was lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.store.clock import past_in_words
from scheduling.store.commit.lost_work import Lost
from scheduling.store.node_names import named
from tests import builders as b


@pytest.mark.parametrize(("name", "words"), [("n1", "node n1"), ("node-1", "node-1"), ("Node7", "Node7")])
def test_the_word_node_is_not_said_twice(name: str, words: str) -> None:
    assert named(name) == words


def test_of_a_second_that_has_begun_the_time_before_is_said() -> None:
    assert past_in_words(b.NOON + timedelta(seconds=7.9)) == "2 Mar 2026, 12:00:07 UTC"


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (True, "; 59 s on 2 GPUs (2.0 GPU-minutes) are lost and given back"),
        (False, "; it never ran: 59 s on 2 GPUs (2.0 GPU-minutes) are given back"),
    ],
)
def test_lost_time_is_not_rounded_up_and_is_no_work_of_what_never_ran(ran: bool, words: str) -> None:
    assert Lost(redo=(b.NOON, b.later(59.9))).in_words(2, ran=ran) == words


def test_less_than_a_second_is_not_worth_a_word() -> None:
    assert Lost(redo=(b.NOON, b.later(0.9))).in_words(2, ran=True) == ""


def test_one_second_is_lost_and_more_are():
    told = "; 1 s on 1 GPU (1 GPU-second) is lost and given back"
    assert Lost(redo=(b.NOON, b.later(1.2))).in_words(1, ran=True) == told


@pytest.mark.parametrize(
    ("redo", "words"),
    [
        (None, "; 10 s of resuming on 2 GPUs (20 GPU-seconds) are lost and given back"),
        (
            (b.later(60), b.later(90)),
            "; 40 s, 10 s of it of resuming, on 2 GPUs (1.3 GPU-minutes) are lost and given back",
        ),
    ],
)
def test_what_resuming_took_is_told_as_that(redo, words) -> None:
    assert Lost(resume=(b.NOON, b.later(10)), redo=redo).in_words(2, ran=True) == words
