"""Names and rules of a submission: what is kept as it is, and what is refused; and a law about all bodies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.fields import KNOWN
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Pool
from scheduling.core.request import validate

from .build import rule
from .submitting import BOARDS, KINDS, NOW_MS, RESEARCHER, accepted, refused, the_error


@pytest.mark.parametrize(
    "name",
    ["a", "x" * 100, "slerp a+b (t=0.5)", "合并", "👩‍👩‍👧", "🧪 run 7", "دمج النماذج", "מיזוג", "é", "a..b", "1.5"],
)
def test_names_of_any_language_and_emoji_are_kept_as_they_are(name):
    assert accepted(name=name).name == name


def test_space_around_a_name_is_dropped():
    assert accepted(name="  a b ").name == "a b"


@pytest.mark.parametrize(
    ("name", "code", "limit"),
    [
        ("x" * 101, "too_long", 100),
        ("x" * 10_000, "too_long", 100),
        ("   ", "empty", 100),
        ("\u200d\u200b", "empty", 100),
        ("a\nb", "bad_character", None),
        ("a\n", "bad_character", None),
        ("a\rb", "bad_character", None),
        ("a\x00b", "bad_character", None),
        ("a\x1b[31m", "bad_character", None),
        ("a\u2028b", "bad_character", None),
        ("a\u202eb", "bad_character", None),
        ("a\u2066b", "bad_character", None),
        ("a\ud800b", "bad_character", None),
        ("../x", "bad_character", None),
        ("a/b", "bad_character", None),
        ("a\\b", "bad_character", None),
        (".", "bad_start", None),
        ("..", "bad_start", None),
        (".hidden", "bad_start", None),
        (7, "not_text", None),
        (["a"], "not_text", None),
    ],
)
def test_names_that_deceive_a_reader_or_a_file_system_are_refused(name, code, limit):
    error = the_error(name=name)
    assert (error.field, error.code, error.limit) == ("name", code, limit)


def with_rules(*required: object, preferred: object = None) -> dict[str, object]:
    return {"affinity": {"required": list(required), "preferred": preferred}}


IN_G0 = {"key": "nvlink_group_id", "op": "In", "values": ["g0"]}


def test_d19_rules_are_read_with_their_weights():
    wish = {"key": "network_bandwidth_gbps", "op": "Gt", "values": [99.5], "weight": 7}
    asked = accepted(with_rules(IN_G0, preferred=[wish])).request
    assert asked.affinity == (rule("nvlink_group_id", "In", "g0"), rule("network_bandwidth_gbps", "Gt", "99.5", wish=7))


def test_d19_a_wish_without_a_weight_weighs_one():
    wish = {"key": "disk", "op": "Exists"}
    assert accepted(with_rules(preferred=[wish])).request.affinity == (rule("disk", "Exists", wish=1),)


@pytest.mark.parametrize(("name", "right"), [("operator", "op"), ("Label", "key"), ("wieght", "weight")])
def test_what_a_field_of_a_rule_is_called_elsewhere_is_refused_with_its_name_here(name, right):
    error = the_error(with_rules({**IN_G0, name: "x"}))
    assert f"did you mean {right!r}?" in error.message


@pytest.mark.parametrize(
    ("term", "field", "code"),
    [
        ("rack", "affinity.required.0", "not_an_object"),
        ({**IN_G0, "vals": 1}, "affinity.required.0.vals", "unknown_field"),
        ({**IN_G0, "key": 7}, "affinity.required.0.key", "bad_key"),
        ({**IN_G0, "key": ""}, "affinity.required.0.key", "bad_key"),
        ({**IN_G0, "key": "a\x00"}, "affinity.required.0.key", "bad_key"),
        ({**IN_G0, "op": "in"}, "affinity.required.0.op", "unknown_operator"),
        ({**IN_G0, "op": None}, "affinity.required.0.op", "unknown_operator"),
        ({"key": "rack_id", "values": ["r1"]}, "affinity.required.0.op", "required"),
        ({"op": "In", "values": ["r1"]}, "affinity.required.0.key", "required"),
        ({**IN_G0, "values": "g0"}, "affinity.required.0.values", "not_a_list"),
        ({**IN_G0, "values": ["x"] * 65}, "affinity.required.0.values", "not_a_list"),
        ({**IN_G0, "values": []}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "values": [None]}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "values": ["\ud800"]}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "values": [float("nan")]}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "op": "Exists"}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "op": "Gt"}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "op": "Lt", "values": [1, 2]}, "affinity.required.0.values", "bad_value"),
        ({**IN_G0, "weight": 1}, "affinity.required.0.weight", "bad_value"),
    ],
)
def test_d19_a_rule_of_the_wrong_shape_is_refused_by_its_path(term, field, code):
    assert refused(with_rules(term)) == [(field, code)]


@pytest.mark.parametrize("weight", [0, 101, 1.5, "1", True])
def test_d19_a_weight_outside_one_to_a_hundred_is_refused(weight):
    error = the_error(with_rules(preferred=[{**IN_G0, "weight": weight}]))
    assert (error.field, error.code, error.limit) == ("affinity.preferred.0.weight", "out_of_range", 100)


@pytest.mark.parametrize(
    ("value", "field", "code"),
    [
        ("rack", "affinity", "not_an_object"),
        ([IN_G0], "affinity", "not_an_object"),
        ({"require": []}, "affinity.require", "unknown_field"),
        ({"required": IN_G0}, "affinity.required", "not_a_list"),
        ({"required": [IN_G0] * 17}, "affinity.required", "not_a_list"),
    ],
)
def test_d19_rules_that_are_no_lists_of_rules_are_refused(value, field, code):
    assert refused(affinity=value) == [(field, code)]


def test_required_rules_that_nothing_installed_satisfies_are_refused():
    error = the_error(with_rules({**IN_G0, "values": ["g9"]}))
    assert (error.field, error.code) == ("affinity.required", "unsatisfiable_rule")


def test_preferred_rules_that_nothing_satisfies_are_accepted():
    assert accepted(with_rules(preferred=[{**IN_G0, "values": ["g9"]}]))


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.sampled_from(["merge", "High", "40GB", "2h"]),
)  # fmt: skip
bodies = st.dictionaries(st.one_of(st.sampled_from(KNOWN), st.text()), values)


@settings(max_examples=100, deadline=None)
@given(bodies, st.booleans())
def test_whatever_is_sent_the_answer_is_a_submission_or_errors_that_can_be_written(body, on_pool):
    the_pool = BOARDS if on_pool else Pool()
    submission, errors = validate(
        body, policy=DEFAULT_POLICY, pool=the_pool, rights=RESEARCHER, kinds=KINDS, now_ms=NOW_MS
    )
    assert (submission is None) == bool(errors)
    for error in errors:
        assert (error.field + error.code + error.message).encode()
