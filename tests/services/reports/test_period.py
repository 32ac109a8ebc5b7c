"""The time of a report: days of a zone, cut without gap or overlap, and every wrong value told at once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduling.services.reports import period
from tests import builders as b


def read(**given):
    found, wrong = period.read({name.rstrip("_"): value for name, value in given.items()}, b.NOON)
    assert not wrong
    return found


def wrongs(**given):
    found, wrong = period.read({name.rstrip("_"): value for name, value in given.items()}, b.NOON)
    assert found is None
    return {each["field"]: (each["code"], each["message"]) for each in wrong}


def test_without_a_word_it_is_this_month_by_day_in_utc():
    found = read()
    assert (found.first.isoformat(), found.last.isoformat(), found.each, found.zone) == (
        "2026-03-01", "2026-03-02", "day", "UTC",
    )  # fmt: skip
    assert found.start == datetime(2026, 3, 1, tzinfo=UTC)
    assert found.end == datetime(2026, 3, 3, tzinfo=UTC)


def test_today_is_the_day_in_the_zone_that_is_asked_for():
    assert read(zone="Pacific/Kiritimati").last.isoformat() == "2026-03-03"
    assert read(zone="Pacific/Pago_Pago").last.isoformat() == "2026-03-02"


@pytest.mark.parametrize(
    ("zone", "hours"), [("Europe/Berlin", [24, 23, 24]), ("UTC", [24, 24, 24]), ("America/New_York", [24, 24, 24])]
)
def test_a_day_is_as_long_as_its_zone_has_it(zone, hours):
    pieces = read(from_="2026-03-28", to="2026-03-30", zone=zone).pieces
    assert [(p.end - p.start).total_seconds() / 3600 for p in pieces] == hours


@pytest.mark.parametrize(
    ("each", "firsts"),
    [
        ("day", None),
        ("week", ["2026-01-29", "2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23", "2026-03-02"]),
        ("month", ["2026-01-29", "2026-02-01", "2026-03-01"]),
    ],
)
def test_the_pieces_follow_each_other_from_the_first_day_to_the_last(each, firsts):
    found = read(from_="2026-01-29", to="2026-03-05", each=each, zone="Asia/Kathmandu")
    assert found.pieces[0].start == found.start
    assert found.pieces[-1].end == found.end
    assert all(a.end == b.start for a, b in zip(found.pieces, found.pieces[1:], strict=False))
    assert len(found.pieces) == 36 if firsts is None else [p.first.isoformat() for p in found.pieces] == firsts


@pytest.mark.parametrize(
    ("first", "each"),
    [("2026-01-30", "day"), ("2025-12-31", "day"), ("2025-12-30", "week"), ("2025-08-15", "week"),
     ("2025-08-14", "month"), ("2020-01-01", "month")],
)  # fmt: skip
def test_left_open_it_is_told_in_as_many_pieces_as_read_well(first, each):
    assert read(from_=first, to="2026-03-02").each == each


def test_every_wrong_value_is_told_at_once_with_what_may_be_given():
    found = wrongs(from_="2026-02-30", to="tomorrow", each="mnth", zone="Europe/Berln")
    years = "of the years 2000 to 9998"
    assert found == {
        "from": ("bad_day", f"from must be a day like 2026-11-30, {years}, not '2026-02-30'; or leave it out"),
        "to": ("bad_day", f"to must be a day like 2026-11-30, {years}, not 'tomorrow'; or leave it out"),
        "each": (
            "unknown_each",
            "each must be one of day, week, month, not 'mnth' (did you mean 'month'?); or leave it out",
        ),
        "zone": (
            "unknown_zone",
            "there is no zone 'Europe/Berln' (did you mean 'Europe/Berlin'?); give one like Europe/Berlin or UTC",
        ),
    }


@pytest.mark.parametrize("day", ["1999-12-31", "9999-01-01", "20260101", "2026-W01-1", "٢٠٢٦-٠١-٠١"])
def test_days_beyond_the_years_that_are_kept_or_written_otherwise_are_refused(day):
    assert wrongs(from_=day)["from"][0] == "bad_day"


@pytest.mark.parametrize("zone", ["../etc/passwd", "/etc/localtime", "Europe", "utc "])
def test_only_names_of_zones_are_taken(zone):
    assert wrongs(zone=zone)["zone"][0] == "unknown_zone"


def test_the_first_day_comes_before_the_last():
    assert wrongs(from_="2026-03-02", to="2026-03-01")["from"] == (
        "from_after_to", "from (2026-03-02) must not be after to (2026-03-01): swap them, or leave one out",
    )  # fmt: skip


@pytest.mark.parametrize(("first", "each"), [("2025-01-25", "day"), ("2018-06-28", "week"), ("2000-01-01", "day")])
def test_a_report_has_at_most_400_pieces(first, each):
    assert wrongs(from_=first, to="2026-03-01", each=each)["from"] == (
        "too_long",
        f"a report has at most 400 pieces, and {first} to 2026-03-01 has more by {each}: "
        "ask for fewer days, or for weeks or months",
    )


def test_400_pieces_are_taken():
    assert len(read(from_="2025-01-26", to="2026-03-01", each="day").pieces) == 400
