"""The page of shares over time: the answer first, charts whose numbers are in the table and the CSV, and what is to
come."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from scheduling.services import share_over_time
from scheduling.store.commit import balances
from scheduling.web import report_chart, share_chart
from scheduling.web import share as share_page
from scheduling.web import share_over_time as page
from scheduling.web.share_chart import Line
from tests import builders as b
from tests.services.reports import history
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
DAYS = "from=2026-02-20&to=2026-03-02"
HOUR_MS = 3_600_000


@pytest.fixture
def past(monkeypatch):
    """Sixty days up to noon, which is now; alpha has work that waits."""
    who = b.people()
    b.node("n1")
    history.write(b.NOON - timedelta(days=60), 59, 200)
    balances.rebuild(b.NOON)
    models = [b.model(who["alice"], f"m{n}", n) for n in (5, 6)]
    b.submitted(who["alice"], b.merge_body(models))
    monkeypatch.setattr(page, "now", lambda: b.NOON)
    monkeypatch.setattr(share_page, "now", lambda: b.NOON)
    return who


def rows(client, query=DAYS):
    answer = client.get(f"/share/over-time.csv?{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(text(answer))))


def told(who, **given):
    asked, _ = share_over_time.read(who, {"from": "2026-02-20", "to": "2026-03-02", **given}, b.NOON)
    return share_over_time.told(who, asked, b.NOON)


def test_the_page_begins_with_who_held_most_and_draws_both(past):
    first = told(past["alice"]).shares[0]
    html = text(browser().get(f"/share/over-time/?{DAYS}"))
    held = {each.project: sum(p.held for p in each.pieces) for each in told(past["alice"]).shares}
    part = 100 * held[first.project] / sum(held.values())
    assert f"<h1>From 20 Feb to 2 Mar 2026, {first.project} held {part:.0f} % of what jobs held; " in html
    assert html.count("<rect ") > 10
    assert html.count('class="due"') == 2
    assert html.count('foreseen" d="M') == 1
    assert "No promise: it is so if nothing new starts" in html
    assert "Without work, and so without a target now: beta." in html


def test_the_csv_has_the_numbers_of_the_charts_and_what_is_foreseen(past):
    found = rows(browser())
    alpha = next(each for each in told(past["alice"]).shares if each.project == "alpha")
    mine = [row for row in found if row["project"] == "alpha" and row["what"] == "held"]
    assert [float(row["held_gpu_h"]) for row in mine] == [p.held / HOUR_MS for p in alpha.pieces]
    assert [float(row["account_gpu_h"]) * HOUR_MS for row in mine] == pytest.approx([p.account for p in alpha.pieces])
    assert float(mine[0]["due_part"]) == pytest.approx(2 / 3)
    later = [row for row in found if row["what"] == "foreseen"]
    assert {row["project"] for row in later} == {"alpha"}
    assert [row["at"] for row in later] == [f"2026-03-{day:02d}T12:00:00Z" for day in range(3, 10)]
    # Nothing runs: in a week a half is left.
    assert float(later[-1]["account_gpu_h"]) == pytest.approx(float(mine[-1]["account_gpu_h"]) / 2)
    assert all(row["what"] == "held" for row in rows(browser(), "from=2026-02-20&to=2026-02-25"))


def test_a_queue_and_a_project_narrow_it_by_the_address(past):
    html = text(browser().get(f"/share/over-time/?{DAYS}&project=beta&queue=merge"))
    assert "of what jobs of queue merge held" in html
    assert "/share/over-time.csv?from=2026-02-20&amp;to=2026-03-02&amp;each=day&amp;zone=UTC&amp;project=beta" in html
    assert '<td data-label="Project">alpha' not in html


def test_a_time_in_which_nothing_was_held():
    b.people()
    html = text(browser().get("/share/over-time/?from=2025-01-01&to=2025-01-31&project=alpha&queue=merge"))
    assert "<h1>In January 2025, no GPU was held by alpha for jobs of queue merge.</h1>" in html
    assert "Nothing was held. Choose another time above." in html
    assert "There is nothing to tell of this time." in html


def test_every_wrong_value_is_told():
    b.people()
    answer = browser().get("/share/over-time/?from=x&project=gamma&queue=what")
    assert (answer.status_code, text(answer).count('role="alert"')) == (400, 3)
    assert browser().get("/share/over-time.csv?from=x").status_code == 400


def test_whoever_is_not_signed_in_sees_nothing(client):
    assert client.get("/share/over-time/").status_code == 302
    assert client.get("/share/over-time.csv").status_code == 302


def test_the_page_of_shares_says_how_each_goes_on(past):
    html = " ".join(text(browser().get("/share/")).split())
    assert "of its target now to" in html
    assert "in 7 days. Nobody is ahead of it." in html
    assert "No promise: it is so if nothing new starts, what runs goes to its time limit" in html
    assert '<a href="/share/over-time/">Shares over time</a>' in html


# The charts


def at(day):
    return datetime(2026, 3, day, tzinfo=UTC)


def test_lines_are_drawn_against_a_target_and_dotted_from_now_on():
    made = share_chart.accounts(
        {"alpha": Line([(at(1), 50.0), (at(3), 200.0)], [(at(3), 200.0), (at(5), 100.0)]), "beta": Line((), ())},
        {"alpha": 0, "beta": 1},
    )
    high = made["levels"][-1]["said"]
    assert high == "200 %"
    assert made["target"] == report_chart.height_of(100.0, 200.0) == 111.0
    (line,) = made["lines"]
    assert line["past"] == "M84.00 160.50 L356.00 12.00"
    assert line["foreseen"] == "M356.00 12.00 L628.00 111.00"
    assert (made["now"], made["first"], made["last"]) == ("356.00", at(1).date(), at(5).date())
    west = share_chart.accounts({"alpha": Line([(at(2), 5.0)], ())}, {"alpha": 0}, zone="America/New_York")
    assert west["first"] == at(1).date()
    assert share_chart.accounts({"beta": Line((), ())}, {"beta": 1}) is None


def test_below_the_target_the_frame_still_reaches_it():
    made = share_chart.accounts({"alpha": Line([(at(1), 5.0), (at(2), 4.0)], ())}, {"alpha": 0})
    assert (made["levels"][-1]["said"], made["target"], made["now"]) == ("100 %", 12.0, None)


def test_a_mark_stands_where_one_project_should_end_and_the_next_begin():
    made = report_chart.bars(["a"], {"x": [70.0], "y": [30.0]}, due={"x": 60.0, "y": 40.0})
    assert made["marks"] == [{"y": round(report_chart.height_of(60.0, 100.0), 2), "said": "x: 60.0 % due by weight"}]
    assert made["bars"][0]["said"] == "a, x: 70.00 %"
    assert made["levels"][-1]["said"] == "100 %"
    alone = report_chart.bars(["a"], {"x": [10.0]}, due={"x": 25.0})
    assert [mark["y"] for mark in alone["marks"]] == [round(report_chart.height_of(25.0, 100.0), 2)]
    assert report_chart.bars(["a"], {"x": [3.0]})["marks"] == []
