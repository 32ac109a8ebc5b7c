"""Requests, counts, durations and instants in words: exact, and in the right number."""

from __future__ import annotations

import pytest

from scheduling.core.words import (
    agree,
    duration_in_words,
    gpus_in_words,
    instant_in_words,
    jobs_in_words,
    nodes_in_words,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (40, "40 s"), (540, "9 min"), (7200, "2 h"), (5400, "1 h 30 min"), (90_061, "1 d 1 h 1 min 1 s")],
)
def test_a_duration_in_words_is_exact(seconds, words):
    assert duration_in_words(seconds) == words


@pytest.mark.parametrize(
    ("instant_ms", "words"),
    [
        (1_772_460_000_000, "2 Mar 2026, 14:00 UTC"),
        (1_772_460_010_000, "2 Mar 2026, 14:00:10 UTC"),
        (1_772_459_999_001, "2 Mar 2026, 14:00 UTC"),
    ],
)
def test_an_instant_in_words_is_never_before_the_instant(instant_ms, words):
    assert instant_in_words(instant_ms) == words


@pytest.mark.parametrize("count_in_words", [gpus_in_words, nodes_in_words, jobs_in_words])
def test_one_is_singular_and_any_other_number_plural(count_in_words):
    one, none, two = count_in_words(1), count_in_words(0), count_in_words(2)
    assert (one[-1] == "s", none[-1], two[-1]) == (False, "s", "s")


def test_the_verb_goes_with_the_number():
    assert [agree(count, "has", "have") for count in (0, 1, 2)] == ["have", "has", "have"]
