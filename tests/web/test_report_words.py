"""Reports as sentences, and as pictures that a person without scripts sees too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from uuid import uuid4

import pytest

from scheduling.services.reports.capacity import Capacity, CapacityReport
from scheduling.services.reports.idle import IdleJob, IdleReport
from scheduling.services.reports.lost import Loss
from scheduling.services.reports.period import Period
from scheduling.services.reports.usage import HOUR_MS, Amount, Key, Usage
from scheduling.services.reports.waits import WaitReport, of
from scheduling.web import report_chart, report_words

TODAY = date(2026, 12, 5)
NOVEMBER = Period(date(2026, 11, 1), date(2026, 11, 30), "day", "Europe/Berlin")
OF_OLD = datetime(2026, 1, 1, tzinfo=UTC)


def used(**projects: float) -> Usage:
    amounts = {Key(0, name, "alice", "merge", "merge"): Amount(round(h * HOUR_MS)) for name, h in projects.items()}
    return Usage(NOVEMBER, amounts)


def pool(since: datetime | None = OF_OLD, **hours: float) -> CapacityReport:
    total = Capacity(**{name: round(value * HOUR_MS) for name, value in hours.items()})
    return CapacityReport([total], total, since, {})


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("2026-11-01", "2026-11-30", "In November 2026"),
        ("2026-12-01", "2026-12-05", "In December 2026 so far"),
        ("2026-12-01", "2026-12-31", "In December 2026 so far"),
        ("2026-12-01", "2026-12-03", "From 1 to 3 Dec 2026"),
        ("2026-03-02", "2026-03-02", "On 2 Mar 2026"),
        ("2026-10-30", "2026-11-02", "From 30 Oct to 2 Nov 2026"),
        ("2025-12-30", "2026-01-02", "From 30 Dec 2025 to 2 Jan 2026"),
    ],
)
def test_a_time_is_named_as_people_name_it(first, last, said):
    period = Period(date.fromisoformat(first), date.fromisoformat(last), "day", "UTC")
    assert report_words.when(period, TODAY) == said


@pytest.mark.parametrize(
    ("each", "labels"),
    [
        ("day", ["30 Oct", "31 Oct", "1 Nov"]),
        ("week", ["30 Oct to 1 Nov"]),
        ("month", ["30 to 31 Oct", "1 Nov"]),
    ],
)
def test_a_piece_is_named_by_its_days(each, labels):
    period = Period(date(2026, 10, 30), date(2026, 11, 1), each, "UTC")
    assert [report_words.piece(piece, each) for piece in period.pieces] == labels


def test_a_whole_month_is_named_as_one():
    assert [report_words.piece(piece, "month") for piece in Period(
        date(2026, 10, 1), date(2026, 11, 30), "month", "UTC").pieces] == ["October 2026", "November 2026"]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "there", "jobs", "said"),
    [
        (used(alpha=493.845, beta=710.655), pool(installed=1696.5, held=1204.5), {},
         "In November 2026, 1,204.50 GPU-hours were held, 71 % of what was there; beta took 59 %."),
        (used(alpha=2), pool(datetime(2026, 11, 5, tzinfo=UTC), installed=10, held=2), {},
         "In November 2026, 2.00 GPU-hours were held (20 % of what was there since 5 Nov 2026); all by alpha."),
        (used(alpha=2), pool(None), {}, "In November 2026, 2.00 GPU-hours were held; all by alpha."),
        (used(alpha=2), pool(installed=9, held=9), {"project": "alpha", "kind": "merge"},
         "In November 2026, 2.00 GPU-hours were held by jobs of kind merge in alpha; all by alice."),
        (used(alpha=2), pool(installed=9, held=9), {"user": "alice", "queue": "eval"},
         "In November 2026, 2.00 GPU-hours were held by jobs in queue eval by alice; all by alpha."),
        (used(), pool(installed=9), {}, "In November 2026, no GPU was held."),
        (Usage(NOVEMBER, {Key(0, "alpha", "", "merge", "merge"): Amount(4 * HOUR_MS, HOUR_MS)}), pool(None), {},
         "In November 2026, 4.00 GPU-hours were held; 1.00 of them were lost and given back; all by alpha."),
    ],
)  # fmt: skip
def test_the_headline_says_how_much_of_what_was_there_and_who_took_the_most(found, there, jobs, said):
    assert report_words.headline(found, there, jobs, TODAY) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"), [(0, 0, "–"), (0, 5, "0 %"), (1, 1000, "under 1 %"), (41, 100, "41 %"), (5, 5, "100 %")]
)
def test_a_part_is_told_in_percent(part, whole, said):
    assert report_words.percent(part, whole) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ([], "No job began to run."),
        ([61.0], "One job began to run; it had waited 1m 01s."),
        ([float(n) for n in range(1, 101)],
         "Half of 100 jobs began to run within 50 s, 95 of 100 within 1m 35s; the longest wait was 1m 40s."),
    ],
)  # fmt: skip
def test_waits_are_told_by_half_and_most_and_the_longest(seconds, said):
    assert report_words.waited(WaitReport(of(seconds) if seconds else None, {}, {}, {})) == said


@pytest.mark.parametrize(
    ("losses", "total", "said"),
    [
        ([], Amount(9), "Nothing was lost."),
        ([Loss("", "preempt", HOUR_MS, 1, 0)], Amount(4 * HOUR_MS, HOUR_MS),
         "1.00 GPU-hours, 25 % of what was held, were lost: preempted for jobs of higher priority."),
        ([Loss("", "lost", 3 * HOUR_MS, 1, 0), Loss("", "drain", HOUR_MS, 1, 0)], Amount(8 * HOUR_MS, 4 * HOUR_MS),
         "4.00 GPU-hours, 50 % of what was held, were lost; 75 % of it on nodes that failed or whose keeper did."),
    ],
)  # fmt: skip
def test_losses_are_told_by_their_cause(losses, total, said):
    assert report_words.lost(losses, total) == said


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (pool(None), "Nobody has looked at the GPUs yet: a chore does so once a minute while Celery runs."),
        (pool(), "Nothing is known of this time: it is looked at since 1 Jan 2026."),
        (pool(installed=10, held=5), "50 % of 10.00 GPU-hours that were there were held; how busy they were is not"
                                     " known."),
        (pool(installed=10, held=5, out=1, known=4, busy=1),
         "50 % of 10.00 GPU-hours that were there were held; 10 % were out of service. The GPUs were busy for 25 % on"
         " average."),
    ],
)  # fmt: skip
def test_how_busy_the_pool_was_says_what_is_not_known(there, said):
    assert report_words.busy(there, "UTC") == said


@pytest.mark.parametrize(
    ("projects", "said"),
    [
        ({}, "No held GPU was below 5 % for 15m or more."),
        ({"alpha": 3600.0}, "1.00 GPU-hours were held and idle (below 5 % for 15m or more), all of it by alpha."),
        ({"beta": 2700.0, "alpha": 900.0},
         "1.00 GPU-hours were held and idle (below 5 % for 15m or more), 75 % of it by beta."),
    ],
)  # fmt: skip
def test_what_was_idle_is_told_with_who_left_it_so(projects, said):
    jobs = [IdleJob(uuid4(), "j", name, "u", "merge", "merge", seconds) for name, seconds in projects.items()]
    assert report_words.idle(IdleReport(jobs, projects, sum(projects.values()), 5.0, 15.0)) == said


def test_bars_stack_to_the_sum_of_their_column():
    found = report_chart.bars(["a", "b"], {"x": [1.0, 0.0], "y": [3.0, 5.0]})
    foot = report_chart.HEIGHT - report_chart.BOTTOM
    tall = foot - report_chart.TOP
    first = [bar for bar in found["bars"] if bar["said"].startswith("a,")]
    assert sum(bar["height"] for bar in first) == pytest.approx(tall * 4 / 5, abs=0.02)
    assert min(bar["y"] for bar in first) == pytest.approx(foot - tall * 4 / 5, abs=0.02)
    assert [bar["said"] for bar in found["bars"]] == [
        "a, y: 3.00 GPU-hours", "b, y: 5.00 GPU-hours", "a, x: 1.00 GPU-hours",
    ]  # fmt: skip
    assert [level["said"] for level in found["levels"]] == ["0", "2.5", "5"]


def test_series_without_a_colour_of_their_own_are_one():
    found = report_chart.bars(["a"], {f"p{n}": [float(10 - n)] for n in range(9)})
    assert [key["name"] for key in found["keys"]] == ["p0", "p1", "p2", "p3", "p4", "others"]
    assert found["bars"][-1]["said"] == "a, others: 14.00 GPU-hours"


@pytest.mark.parametrize("series", [{}, {"x": [0.0, 0.0]}])
def test_of_nothing_there_is_no_picture(series):
    assert report_chart.bars(["a", "b"], series) is None
    assert report_chart.lines(["a", "b"], {"held": [None, None]}) is None


def test_a_line_has_a_gap_where_nothing_is_known():
    (line,) = report_chart.lines(["a", "b", "c"], {"held": [0.0, None, 100.0]})["lines"]
    assert line["path"].count("M") == 2
    assert "L" not in line["path"]
    assert [y for _, y in line["dots"]] == [report_chart.HEIGHT - report_chart.BOTTOM, report_chart.TOP]
