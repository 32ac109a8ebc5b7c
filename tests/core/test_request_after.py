"""The jobs that a request waits for: which lists are none, and what a reference to an output looks like."""

from __future__ import annotations

import pytest

from scheduling.core.after import MAX_AFTER, output_meant

from .submitting import accepted, refused, the_error

ONE, OTHER = "0f9f0e5e-1111-4aaa-8aaa-000000000001", "0f9f0e5e-1111-4aaa-8aaa-000000000002"


def ids(count):
    return [f"0f9f0e5e-1111-4aaa-8aaa-{i:012d}" for i in range(count)]


def test_the_ids_are_read_each_once_and_in_their_order():
    asked = accepted(after=[OTHER, ONE.upper(), OTHER.replace("-", "")])
    assert (asked.after, asked.after_any) == ((OTHER, ONE), False)
    assert accepted(after=[ONE], after_any=True).after_any


@pytest.mark.parametrize("value", [ONE, {"job": ONE}, 7, True, 10**400])
def test_what_is_no_list_is_refused_with_the_limit(value):
    error = the_error(after=value)
    assert (error.field, error.code, error.limit) == ("after", "not_a_list", 64)
    assert error.message.startswith("after must be a list of the ids of at most 64 jobs, not ")


@pytest.mark.parametrize("value", [None, 7, True, "", "job", [ONE], "@" + ONE, ONE + "x", "\ud800", "x" * 10_000])
def test_what_is_no_id_is_refused_by_its_place(value):
    error = the_error(after=[ONE, value])
    assert (error.field, error.code) == ("after.1", "not_a_job_id")
    assert len(error.message) < 200


def test_as_many_as_the_limit_are_taken_and_one_more_is_refused_with_it():
    assert len(accepted(after=ids(MAX_AFTER)).after) == 64
    error = the_error(after=ids(MAX_AFTER + 1))
    assert (error.field, error.code, error.limit) == ("after", "too_many", 64)
    assert "at most 64 jobs, not 65; put a job between" in error.message


def test_after_any_says_nothing_without_after():
    assert refused(after_any=True) == [("after_any", "without_after")]
    assert refused(after=[], after_any=True) == [("after_any", "without_after")]
    assert not accepted(after_any=False).after_any


def test_after_any_is_true_or_false():
    assert refused(after=[ONE], after_any="yes") == [("after_any", "not_a_boolean")]


@pytest.mark.parametrize(
    ("reference", "means"),
    [
        (f"@{ONE}", (ONE, "")),
        (f"@{ONE.upper()}/net", (ONE, "net")),
        (f"@{ONE}/a/b", (ONE, "a/b")),
        (ONE, None),
        ("@", None),
        ("@net", None),
        (f"@@{ONE}", None),
        (f"@{ONE}x", None),
        ("", None),
    ],
)
def test_a_reference_to_an_output_is_an_at_sign_and_an_id(reference, means):
    assert output_meant(reference) == means
