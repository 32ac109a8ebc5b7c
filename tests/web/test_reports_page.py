"""The page of reports: the answer first, filters in the address, a CSV of each, and whose it is."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest

from scheduling.models import NodeLive, Project
from scheduling.services import upkeep
from scheduling.services.reports import asked, usage
from tests import builders as b
from tests.services.reports import history
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
DAYS = "from=2026-02-01&to=2026-02-28"


@pytest.fixture
def past():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 80)
    return who


def rows(client, name, query=DAYS):
    answer = client.get(f"/reports/{name}.csv?{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(text(answer))))


def test_the_page_begins_with_who_used_what(past):
    wanted, _ = asked.read(past["alice"], {"from": "2026-02-01", "to": "2026-02-28"}, b.NOON)
    held = usage.usage(past["alice"], wanted, b.NOON).total().held / usage.HOUR_MS
    html = text(browser().get(f"/reports/?{DAYS}"))
    assert f"<h1>In February 2026, {held:,.2f} GPU-hours were held; " in html
    for section in ("usage", "waits", "lost", "capacity", "idle"):
        assert f'<section class="card" id="{section}">' in html
    assert html.count("<rect ") > 20


def test_without_a_word_it_is_this_month_and_may_be_empty():
    b.people()
    html = text(browser().get("/reports/"))
    assert "so far, no GPU was held.</h1>" in html
    assert "Nothing was held. Choose another time above." in html


def test_the_filter_lies_in_the_address_and_in_the_links_to_the_csv(past):
    html = text(browser().get(f"/reports/?{DAYS}&project=alpha&kind=merge&zone=Europe/Berlin&each=week"))
    assert "by jobs of kind merge in alpha" in html
    assert (
        "/reports/usage.csv?from=2026-02-01&amp;to=2026-02-28&amp;each=week&amp;zone=Europe%2FBerlin&amp;project=alpha"
        "&amp;kind=merge"
    ) in html
    assert "<option selected>alpha</option>" in html


def test_the_browsers_own_zone_counts_until_the_address_names_one(past):
    client = browser()
    client.cookies["zone"] = "Asia/Tokyo"
    assert 'name="zone" value="Asia/Tokyo"' in text(client.get(f"/reports/?{DAYS}"))
    assert 'name="zone" value="UTC"' in text(client.get(f"/reports/?{DAYS}&zone=UTC"))
    client.cookies["zone"] = "Nowhere/<b>"
    assert 'name="zone" value="UTC"' in text(client.get(f"/reports/?{DAYS}"))


def test_every_wrong_value_is_told_and_the_filter_stays(past):
    answer = browser().get("/reports/?from=2026-02-30&zone=Mars&project=beta")
    html = text(answer)
    assert answer.status_code == 400
    assert html.count('role="alert"') == 3
    assert "there is no project" in html.lower()
    assert browser().get("/reports/usage.csv?from=2026-02-30").status_code == 400
    assert browser().get("/reports/what.csv").status_code == 404


def test_the_csv_adds_up_to_the_page(past):
    wanted, _ = asked.read(past["admin"], {"from": "2026-02-01", "to": "2026-02-28"}, b.NOON)
    total = usage.usage(past["admin"], wanted, b.NOON).total()
    found = rows(browser("admin"), "usage")
    assert sum(float(row["held_gpu_h"]) for row in found) == pytest.approx(total.held / usage.HOUR_MS)
    assert {row["user"] for row in found} == {"alice", "bob"}
    assert {row["user"] for row in rows(browser("alice"), "usage")} == {"alice", ""}


def test_each_report_has_a_csv(past):
    client = browser("admin")
    waits = rows(client, "waits")
    jobs = {by: sum(int(row["jobs"]) for row in waits if row["by"] == by) for by in ("priority", "project", "kind")}
    assert len(set(jobs.values())) == 1
    assert jobs["kind"] > 0
    lost = rows(client, "lost")
    assert {row["cause"] for row in lost} == {"preempt", "health", "drain", "lost"}
    assert all(float(row["gpu_h"]) > 0 for row in lost)
    assert len(rows(client, "capacity")) == 28
    assert rows(client, "idle") == []


def test_an_idle_job_is_a_link_to_those_who_may_know_of_it():
    _, run = b.busy_lab()
    for minute in range(31):
        samples = {f"GPU-n1-{i}": {"utilization": 0.0} for i in range(4)}
        NodeLive.objects.update(sampled_at=b.later(minute * 60), samples=samples)
        upkeep.look_at_gpus(b.later(minute * 60))
    day = "from=2026-03-02&to=2026-03-02"
    html = text(browser("alice").get(f"/reports/?{day}"))
    assert f'<a href="/jobs/{run.job}/"><bdi>slerp-a-b</bdi></a>' in html
    assert "idle now" in html
    assert "1.00 GPU-hours were held and idle (below 5 % for 15m or more), all of it by alpha." in html
    html = text(browser("bob").get(f"/reports/?{day}"))
    assert run.job not in html
    assert "a job of another project" in html
    (row,) = rows(browser("bob"), "idle", day)
    assert (row["job"], row["name"], row["user"], float(row["gpu_h"])) == ("", "", "", 1.0)


def test_a_name_that_is_a_formula_is_none_in_the_csv(past):
    Project.objects.filter(name="alpha").update(name="=1+1")
    assert {row["project"] for row in rows(browser("admin"), "usage")} == {"'=1+1", "beta"}


def test_whoever_is_not_signed_in_sees_nothing(client):
    assert client.get("/reports/").status_code == 302
    assert client.get("/reports/usage.csv").status_code == 302
