"""Lists: filters in the address, pages by cursor, many cancelled at once, and a CSV that runs nothing."""

from __future__ import annotations

import csv
import io

import pytest

from scheduling.models import Job
from scheduling.web import csv_export
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def world(count: int = 0):
    lab = b.lab()
    who = lab.who
    models = lab.models
    jobs = [b.submitted(who["alice"], b.merge_body(models, name=f"job-{i:03}"), now=b.later(i)) for i in range(count)]
    return who["alice"], models, jobs


@pytest.mark.parametrize(
    ("query", "names"),
    [("q=001", ["job-001"]), ("state=waiting", ["job-001", "job-000"]), ("state=ended", []),
     ("user=me", ["job-001", "job-000"]),
     ("queue=eval", []), ("project=alpha", ["job-001", "job-000"]), ("kind=merge&q=job-000", ["job-000"])],
)  # fmt: skip
def test_the_address_filters(query, names):
    world(2)
    html = text(browser().get(f"/jobs/?{query}"))
    assert [n for n in ("job-001", "job-000") if n in html] == names


def test_a_filter_without_a_match_says_what_to_do():
    world(1)
    html = text(browser().get("/jobs/?q=nothing-like-it"))
    assert "No job matches this filter" in html
    assert "Show all jobs" in html


def test_each_job_is_on_exactly_one_page(monkeypatch):
    world(7)
    monkeypatch.setattr("scheduling.store.queries.pages.job_page.__kwdefaults__", {"size": 3})
    client, seen, address = browser(), [], "/jobs/"
    while address:
        response = client.get(address)
        seen += [row["name"] for row in response.context["rows"]]
        address = f"/jobs/?{response.context['following']}" if response.context["following"] else ""
    assert seen == [f"job-{i:03}" for i in reversed(range(7))]


@pytest.mark.parametrize(
    "cursor", ["nonsense", "2026-03-02T12:00:00~x", "2026-03-02T12:00:00~" + "1" * 32, "~", "\x00"]
)
def test_a_cursor_that_can_not_be_read_is_the_first_page(cursor):
    world(1)
    assert "job-000" in text(browser().get("/jobs/", {"after": cursor}))


def test_the_chosen_jobs_are_cancelled_at_once():
    _, _, jobs = world(3)
    html = text(browser().post("/jobs/cancel/", {"job": jobs[:2], "state": "waiting"}, follow=True))
    assert "2 jobs cancelled" in html
    assert [Job.objects.get(pk=j).state for j in jobs] == ["CANCELLED", "CANCELLED", "QUEUED"]


def test_another_projects_jobs_are_not_among_the_cancelled():
    _, _, jobs = world(1)
    browser("bob").post("/jobs/cancel/", {"job": [*jobs, "nonsense"]})
    assert Job.objects.get(pk=jobs[0]).state == "QUEUED"


def test_the_csv_has_a_line_for_each_job_that_matches():
    world(3)
    rows = list(csv.DictReader(io.StringIO(text(browser().get("/jobs/export.csv?q=job-00")))))
    assert [r["name"] for r in rows] == ["job-002", "job-001", "job-000"]
    assert rows[0]["submitted_at"] == "2026-03-02T12:00:02Z"


def test_the_csv_does_not_hold_another_projects_jobs():
    world(1)
    assert text(browser("bob").get("/jobs/export.csv")).count("\n") == 1


@pytest.mark.parametrize("name", ['=HYPERLINK("http:evil")', "+1+1", "-2+3", "@SUM(A1)"])
def test_a_name_that_is_a_formula_is_quoted_in_the_csv(name):
    alice, models, _ = world()
    b.submitted(alice, b.merge_body(models, name=name))
    rows = list(csv.DictReader(io.StringIO(text(browser().get("/jobs/export.csv")))))
    assert rows[0]["name"] == f"'{name}"


@pytest.mark.parametrize("value", ["\t=1", "\r=1", "\n=1"])
def test_a_cell_that_begins_with_white_space_before_a_formula_is_quoted(value):
    assert csv_export.cell(value) == f"'{value}"


def test_artifacts_are_filtered_by_name_and_kind():
    alice, _, _ = world()
    b.model(alice, "zeta-one", 3)
    client = browser()
    assert [a["name"] for a in client.get("/artifacts/?q=zeta&kind=model").context["rows"]] == ["zeta-one"]
    assert client.get("/artifacts/?kind=checkpoint").context["rows"] == []


@pytest.mark.parametrize(("query", "found"), [("", [1, 0]), ("q=001", [1]), ("state=ended", []), ("queue=eval", [])])
def test_the_ids_of_an_address_are_those_of_its_rows(query, found):
    _, _, made = world(2)
    assert browser().get(f"/jobs/ids/?{query}").json() == {"jobs": [made[i] for i in found]}


def test_the_ids_hold_no_job_of_another_page_or_project(monkeypatch):
    _, _, made = world(5)
    monkeypatch.setattr("scheduling.store.queries.pages.job_page.__kwdefaults__", {"size": 3})
    following = browser().get("/jobs/").context["following"]
    assert browser().get(f"/jobs/ids/?{following}").json() == {"jobs": [made[1], made[0]]}
    assert browser("bob").get("/jobs/ids/").json() == {"jobs": []}


def test_the_csv_tells_the_nodes_that_a_job_spans():
    lab = b.lab()
    b.node("n2")
    b.submitted(lab.who["alice"], b.command_body(gpu_count=7))
    (row,) = csv.DictReader(io.StringIO(text(browser().get("/jobs/export.csv"))))
    assert (row["gpu_count"], row["node_count"], row["gpus_per_node"]) == ("7", "2", "")
