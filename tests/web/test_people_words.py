"""Pages say in people's words what REST says with the names of its fields."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduling.web.people_words import label, parts, said


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("max_duration may be at most 7200 seconds", "Time limit may be at most 2 h"),
        ("ask for at most 4, or leave nvlink_required out", "ask for at most 4, or leave NVLink required out"),
        ("gpu_count must be a whole number", "GPUs must be a whole number"),
        ("ask without max_duration", "ask without Time limit"),
        ("so gpu_count is too large", "so GPUs is too large"),
        ("there is no field 'gpu_count'", "there is no field 'gpu_count'"),
        ("node In n0", "node In n0"),
    ],
)
def test_fields_and_seconds_are_said_as_on_the_form(message, words):
    assert said(message) == words


@pytest.mark.parametrize(
    ("field", "words"),
    [("max_duration", "Time limit"), ("params.t", "t"), ("retries", "Retries"), ("with.level", "Run beside, level")],
)
def test_a_field_has_a_label(field, words):
    assert label(field) == words


def test_an_instant_in_a_sentence_is_shown_in_the_readers_own_zone():
    found = list(parts("Closed until 2 Mar 2026, 14:00 UTC."))
    assert found == [{"text": "Closed until "}, {"at": datetime(2026, 3, 2, 14, tzinfo=UTC)}, {"text": "."}]


def test_a_sentence_without_an_instant_is_one_piece():
    assert list(parts("Needs 2 GPUs.")) == [{"text": "Needs 2 GPUs."}]
