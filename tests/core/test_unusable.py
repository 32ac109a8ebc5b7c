"""Numbers beyond all bounds and texts that no database keeps: refused by the field, like any other wrong value."""

from __future__ import annotations

import pytest

from scheduling.core.unusable import BrokenText, HugeNumber, broken, broken_texts, huge_numbers

from .submitting import accepted, refused, the_error

HUGE = HugeNumber("1" + "0" * 400)
CODES = [
    ("kind", "unknown_kind"), ("project", "unknown_project"), ("queue", "unknown_queue"),
    ("purpose", "unknown_purpose"), ("priority", "unknown_level"),
]  # fmt: skip


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "a\udfff"], ids=["nul", "high", "low"])
def test_a_text_that_no_database_keeps_is_told_from_one_that_can_be_kept(text):
    assert broken(text)


@pytest.mark.parametrize("text", ["", "合并", "🧪", "a\nb", "\ufffd"])
def test_a_text_that_can_be_kept_is_not_broken(text):
    assert broken(text) is None


def test_a_huge_number_is_said_back_in_short():
    assert repr(HUGE) == "100000000000... (401 characters)"


@pytest.mark.parametrize("value", [HUGE, BrokenText("\x00")])
@pytest.mark.parametrize(("field", "code"), CODES)
def test_a_name_that_can_not_be_used_is_refused_by_its_field(field, code, value):
    assert (field, code) in refused({field: value})


@pytest.mark.parametrize(
    ("field", "code", "limit"),
    [
        ("gpu_count", "out_of_range", 12),
        ("gpu_memory_min", "no_such_memory", "76294MiB"),
        ("max_duration", "above_cap", 604_800),
        ("retries", "out_of_range", 10),
        ("node_count", "out_of_range", 2),
        ("name", "not_text", None),
    ],
)
def test_a_huge_number_is_refused_by_its_field_with_the_limit(field, code, limit):
    error = the_error({field: HUGE})
    assert (error.field, error.code, error.limit) == (field, code, limit)


def test_a_name_with_a_nul_says_what_to_remove():
    error = the_error(name=BrokenText("a\x00b"))
    assert (error.field, error.code) == ("name", "bad_character")
    assert "NUL character (\\u0000); remove it (not 'a\\x00b')" in error.message


@pytest.mark.parametrize("text", ["a\x00b", BrokenText("a\x00b"), "\ud800"])
def test_a_broken_text_in_the_parameters_is_refused_by_its_path(text):
    assert refused(params={"strategy": text, "models": ["a", text]}) == [
        ("params.strategy", "bad_character"),
        ("params.models.1", "bad_character"),
    ]


def test_a_body_of_broken_texts_is_answered_with_fifty_of_them():
    assert len(refused(params={"models": ["\x00"] * 1000})) == 50


def test_parameters_without_a_broken_text_are_accepted():
    assert accepted(params={"models": ["a", "合并"]})


def test_each_thing_that_can_not_be_used_is_found_by_its_path():
    body = {"a": [{"b": BrokenText("\x00")}, HUGE], "c": 1, "d": "x"}
    assert [path for path, _ in broken_texts(body, "")] == ["a.0.b"]
    assert list(huge_numbers(body, "")) == [("a.1", HUGE)]
