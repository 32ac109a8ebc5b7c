"""A job's group and its rules about other groups; when it may start: what is read, and every refusal."""

from __future__ import annotations

import pytest

from scheduling.core.instants import LATEST_MS, as_instant, parse_instant
from scheduling.core.resources import GroupRule
from scheduling.core.units import MAX_DURATION_S

from .build import gpus, loose, node, pool
from .submitting import NOW_MS, accepted, refused, the_error

RACKED = pool(gpus("n0", 4, group="g0"), nodes=[node("n0", rack="r0")])
UNRACKED = pool(gpus("n0", 4), nodes=[node("n0", rack="")])


def near(group: object = "ensemble-7", level: object = "node", **more: object) -> dict[str, object]:
    return {"with": {"group": group, "level": level, **more}}


def test_a_group_is_a_name():
    assert accepted(group="  ensemble 7 ").group == "ensemble 7"


@pytest.mark.parametrize(
    ("value", "code"), [("x" * 101, "too_long"), ("a/b", "bad_character"), (7, "not_text"), ("  ", "empty")]
)
def test_a_group_that_is_no_name_is_refused(value, code):
    assert refused(group=value) == [("group", code)]


@pytest.mark.parametrize("level", ["node", "nvlink_group", "rack"])
def test_d19_rules_about_a_group_are_read(level):
    asked = accepted(near(level=level), anti_affinity={"group": "other", "level": level}, the_pool=RACKED).request
    assert (asked.near, asked.apart) == (GroupRule("ensemble-7", level), GroupRule("other", level))


@pytest.mark.parametrize("field", ["with", "anti_affinity"])
@pytest.mark.parametrize(
    ("rule", "path", "code"),
    [
        ("ensemble-7", "", "not_an_object"),
        ([], "", "not_an_object"),
        ({"level": "node"}, ".group", "required"),
        ({"group": "", "level": "node"}, ".group", "required"),
        ({"group": "a/b", "level": "node"}, ".group", "bad_character"),
        ({"group": "g"}, ".level", "required"),
        ({"group": "g", "level": "racks"}, ".level", "unknown_level"),
        ({"group": "g", "level": ["rack"]}, ".level", "unknown_level"),
        ({"group": "g", "level": "node", "lvl": 1}, ".lvl", "unknown_field"),
    ],
)
def test_a_rule_about_a_group_of_the_wrong_shape_is_refused_by_its_path(field, rule, path, code):
    assert refused({field: rule}) == [(f"{field}{path}", code)]


def test_an_unknown_level_of_a_rule_is_refused_with_the_levels():
    error = the_error(near(level="racks"))
    assert error.limit == ("node", "nvlink_group", "rack")
    assert "did you mean 'rack'?" in error.message


@pytest.mark.parametrize(
    ("with_level", "away_level", "contradicts"),
    [("node", "node", True), ("node", "rack", True), ("rack", "rack", True), ("rack", "node", False)],
)
def test_near_and_apart_from_the_same_group_contradict_each_other_unless_there_is_room_between(
    with_level, away_level, contradicts
):
    body = {**near("g", with_level), "anti_affinity": {"group": "g", "level": away_level}}
    if contradicts:
        assert refused(body, the_pool=RACKED) == [("anti_affinity", "contradiction")]
    else:
        assert accepted(body, the_pool=RACKED)


@pytest.mark.parametrize(("level", "there"), [("nvlink_group", ("node",)), ("rack", ("node",))])
def test_near_a_group_in_a_kind_of_place_that_the_pool_does_not_have_is_refused_with_those_it_has(level, there):
    error = the_error(near(level=level), the_pool=UNRACKED)
    assert (error.field, error.code, error.limit) == ("with.level", "unsatisfiable_rule", there)


def test_apart_in_a_kind_of_place_that_the_pool_does_not_have_is_no_fault():
    assert accepted(anti_affinity={"group": "g", "level": "rack"}, the_pool=UNRACKED)


# ---------------------------------------------------------------- when


def test_instants_are_kept_in_utc():
    asked = accepted(not_before="2030-06-01T02:00+02:00", start_by="2030-06-01t00:00:00.5z")
    assert (asked.not_before, asked.start_by) == ("2030-06-01T00:00:00Z", "2030-06-01T00:00:00.500Z")


def test_a_start_that_has_passed_already_is_no_fault():
    assert accepted(not_before="2020-01-01T00:00:00Z").not_before == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize("field", ["not_before", "start_by"])
@pytest.mark.parametrize(
    "value",
    ["tomorrow", 1893456000, "2031-01-01", "2031-01-01T00:00:00", "2031-02-30T00:00Z", "2031-13-01T00:00Z",
     "2031-01-01T24:00Z", "2031-01-01T00:60Z", "2031-01-01T00:00:60Z", "2031-01-01T00:00+15:00", "1969-12-31T23:59Z",
     "2031-01-01T00:00:00Zulu", "٢٠٣١-01-01T00:00Z", True, []],
)  # fmt: skip
def test_an_instant_that_cannot_be_read_is_refused_with_an_example(field, value):
    error = the_error({field: value})
    assert (error.field, error.code, error.limit) == (field, "bad_instant", "2030-01-31T09:00:00Z")
    assert parse_instant(error.limit) > NOW_MS


@pytest.mark.parametrize("value", [as_instant(NOW_MS), as_instant(NOW_MS - 1)])
def test_a_latest_start_that_is_not_in_the_future_is_refused(value):
    error = the_error(start_by=value)
    assert (error.field, error.code) == ("start_by", "in_the_past")
    assert as_instant(NOW_MS) in error.message


def test_a_latest_start_just_after_now_is_accepted():
    assert accepted(start_by=as_instant(NOW_MS + 1))


@pytest.mark.parametrize("start_by", ["2031-01-01T00:00:00Z", "2030-12-31T23:59:59.999Z"])
def test_a_latest_start_that_is_not_after_the_earliest_is_refused(start_by):
    assert refused(not_before="2031-01-01T00:00:00Z", start_by=start_by) == [("start_by", "before_not_before")]


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        (7_258_118_399_999, "2199-12-31T23:59:59.999Z"),
    ],
)
def test_instants_go_to_text_and_back(instant_ms, text):
    assert (as_instant(instant_ms), parse_instant(text)) == (text, instant_ms)


@pytest.mark.parametrize("text", ["2200-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2199-12-31T23:30:00-01:00"])
def test_an_instant_later_than_anything_here_can_reckon_with_is_refused_with_the_last_year(text):
    assert the_error(not_before=text).message.startswith("not_before must lie in the years 1970 to 2199")


def test_the_longest_job_from_the_last_instant_on_ends_within_the_calendar():
    from datetime import UTC, datetime

    assert datetime.fromtimestamp((LATEST_MS - 1) / 1000 + MAX_DURATION_S, UTC).year <= 9999


def test_every_day_of_a_century_is_told_as_the_calendar_has_it():
    from datetime import UTC, datetime, timedelta

    first = datetime(1999, 12, 31, 12, tzinfo=UTC)
    days = [first + timedelta(days=n) for n in range(0, 36_525, 13)]
    assert [as_instant(round(day.timestamp() * 1000)) for day in days] == [f"{day:%Y-%m-%dT%H:%M:%SZ}" for day in days]


def test_a_job_without_any_of_these_has_none():
    asked = accepted(the_pool=loose(4))
    assert (asked.group, asked.not_before, asked.start_by, asked.request.near) == (None, None, None, None)
