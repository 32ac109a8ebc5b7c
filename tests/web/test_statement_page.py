"""The page of a fair-share statement: the answer first, sums that agree, links to the jobs that one may know of."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

import pytest

from scheduling.models import Balance
from scheduling.services import share_statement
from scheduling.store import seed
from scheduling.store.commit import balances
from scheduling.web import statement as page
from tests import builders as b
from tests.services.reports import history
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
HOUR_MS = 3_600_000
DAYS = "from=2026-01-20&to=2026-03-02"


@pytest.fixture
def past(monkeypatch):
    """Ninety days up to noon, which is now."""
    who = b.people()
    history.write(b.NOON - timedelta(days=90), 89, 300)
    balances.rebuild(b.NOON)
    monkeypatch.setattr(page, "now", lambda: b.NOON)
    return who


def told(who, **given):
    asked, wrong = share_statement.read(who, {"from": "2026-01-20", "to": "2026-03-02", **given}, b.NOON)
    assert not wrong
    return share_statement.told(who, asked, b.NOON)


def rows(client, query):
    answer = client.get(f"/share/statement.csv?{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(text(answer))))


def test_the_page_begins_with_how_the_account_moved(past):
    account = told(past["alice"], project="alpha").account
    html = text(browser().get(f"/share/statement/?{DAYS}"))
    opening, closing = (f"{each / HOUR_MS:,.2f}" for each in (account.opening, account.closing))
    assert (
        f"<h1>From 20 Jan to 2 Mar 2026, the account of alpha went from {opening} to {closing} GPU-hours.</h1>" in html
    )
    assert f"Checked: the account that orders the queue has {closing} GPU-hours now" in html
    assert html.split('id="jobs"')[1].count('<a href="/jobs/') == 50
    assert f"{len(account.lines) - 50} more jobs" in html


def test_the_rows_of_the_csv_add_up_to_its_last(past):
    found = rows(browser(), f"{DAYS}&project=alpha")
    *moved, closing = found
    assert (found[0]["what"], moved[-1]["what"], closing["what"]) == (
        "opening balance", "faded of the opening balance", "closing balance"
    )  # fmt: skip
    assert sum(float(row["balance_gpu_h"]) for row in moved) == pytest.approx(float(closing["balance_gpu_h"]), abs=1e-7)
    account = told(past["alice"], project="alpha").account
    assert {row["job"] for row in found if row["what"] == "job"} == account.lines.keys()
    assert sum(float(row["charged_gpu_h"] or 0) for row in found) == pytest.approx(account.total.charged / HOUR_MS)
    stored = Balance.objects.get(ledger="project", key="alpha").gpu_ms
    assert float(closing["balance_gpu_h"]) * HOUR_MS == pytest.approx(stored, abs=1.0)


def test_jobs_of_others_are_one_row_with_the_same_sum(past):
    mine, theirs = rows(browser(), f"{DAYS}&project=alpha"), rows(browser("bob"), f"{DAYS}&project=alpha")
    assert [row["what"] for row in theirs] == [
        "opening balance", "jobs of others", "faded of the opening balance", "closing balance"
    ]  # fmt: skip
    assert float(theirs[-1]["balance_gpu_h"]) == pytest.approx(float(mine[-1]["balance_gpu_h"]))
    html = text(browser("bob").get(f"/share/statement/?{DAYS}&project=alpha"))
    count = sum(row["what"] == "job" for row in mine)
    assert f"{count} jobs of others" in html
    assert '<a href="/jobs/' not in html.split('<section class="card"', 1)[1]
    assert "alice" not in html
    assert browser("bob").get(f"/share/statement/?{DAYS}&project=alpha&user=alice").status_code == 400


def test_a_person_has_a_statement_of_its_own(past):
    html = text(browser().get(f"/share/statement/?{DAYS}&project=alpha&user=me"))
    assert "the account of alice in alpha went from" in html
    assert "<option selected>alice</option>" in html


def test_an_account_that_nothing_moved(past):
    html = text(browser().get("/share/statement/?from=2025-01-01&to=2025-01-31"))
    assert "<h1>In January 2025, nothing moved the account of alpha: it has 0.00 GPU-hours.</h1>" in html
    assert "No job held a GPU, and nothing was given back. Choose another time above." in html
    html = text(browser().get("/share/statement/?from=2026-03-02&to=2026-03-02&project=alpha"))
    assert re.search(r"went from [\d.]+ to [\d.]+ GPU-hours: nothing was charged, and the rest faded.", html)


def test_an_account_that_does_not_agree_is_told(past):
    Balance.objects.filter(ledger="project", key="alpha").update(gpu_ms=0.0)
    html = text(browser().get(f"/share/statement/?{DAYS}"))
    assert "Checked:" not in html
    assert "The account that orders the queue has 0.00 GPU-hours now" in html


def test_every_wrong_value_is_told_and_the_filter_stays(past):
    answer = browser().get("/share/statement/?from=2026-02-30&zone=Mars&project=gamma")
    assert answer.status_code == 400
    assert text(answer).count('role="alert"') == 3
    assert browser().get("/share/statement.csv?from=2026-02-30").status_code == 400
    answer = browser().get("/share/statement/?from=2026-03-03&to=2026-03-09")
    assert "What is to come" in text(answer) or "what is to come has no statement" in text(answer)


def test_whoever_has_no_project_is_asked_for_one():
    b.people()
    seed.user("carol", b.PASSWORD)
    answer = browser("carol").get("/share/statement/")
    assert answer.status_code == 400
    assert "Project is needed; give one of alpha, beta." in text(answer)
    assert "choose one" in text(answer)


def test_the_page_of_shares_leads_to_the_statements():
    b.busy_lab()
    html = text(browser().get("/share/"))
    assert '<a href="/share/statement/?project=alpha">alpha</a>' in html
    assert '<a href="/share/statement/?project=alpha&amp;user=alice">alice</a>' in html
    assert "project=beta&amp;user=bob" not in html


def test_who_is_just_ahead_is_named_with_its_statement(monkeypatch):
    lab, run = b.busy_lab()
    b.finished(run, "FAILED", exit_code=1, now=b.later(3600))
    for name, project in (("alice", "alpha"), ("bob", "beta")):
        models = [b.model(lab.who[name], f"m{n}", n, project=project) for n in (5, 6)]
        b.submitted(lab.who[name], b.merge_body(models, project=project), now=b.later(3600))
    monkeypatch.setattr(page, "now", lambda: b.later(3600))
    html = text(browser().get("/share/statement/"))
    assert "alpha is number 2 of 2: it has used 2.00 of its 646.33 GPU-hours (0.3 %)." in html
    assert "Just ahead is beta, which has used 0.00 of its 323.16 GPU-hours (0.0 %)." in html
    assert 'project=beta">Statement of beta</a>' in html


def test_whoever_is_not_signed_in_sees_nothing(client):
    assert client.get("/share/statement/").status_code == 302
    assert client.get("/share/statement.csv").status_code == 302
