"""A job that waits for others over REST: submitted, refused, planned, shown and done again."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.api.shapes import jobs as shapes
from scheduling.models import Job
from scheduling.services import outlook
from tests import builders as b
from tests.api.calls import error, world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_noon(monkeypatch, no_outlook):
    """The clock of every door stands at noon, and no outlook is kept from the test before."""
    monkeypatch.setattr("scheduling.api.door.now", lambda: b.NOON)


@pytest.fixture
def waits():
    """The world, and a job of alice's that waits for GPUs."""
    w = world()
    return w, b.submitted(w.who["alice"], w.body(gpu_count=4, name="first"), now=b.later(-60))


def test_it_is_submitted_and_told_with_what_it_waits_for(waits):
    w, first = waits
    answer = w.alice.post("jobs/", w.body(after=[first]))
    row = answer.json()
    assert (answer.status_code, row["after"], row["after_any"]) == (201, [first], False)
    assert row["reasons"] == [
        {"code": "AFTER", "message": "Waits for one job to succeed first: first (queued).",
         "numbers": {"after": 1, "open": 1}}
    ]  # fmt: skip
    assert (row["estimated_start"], row["alternatives"], row["score"]) == (None, [], None)
    assert w.alice.get("jobs/").json()["results"][0]["reasons"] == row["reasons"]
    assert {"after", "after_any"} <= shapes.JobShape().fields.keys() & shapes.JobRequest().fields.keys()


def test_nothing_is_foretold_of_it_and_no_outlook_is_made_for_that(waits, monkeypatch):
    w, first = waits
    job = w.alice.post("jobs/", w.body(after=[first])).json()["id"]
    monkeypatch.setattr(outlook, "Outlook", None)
    row = w.alice.get(f"jobs/{job}/").json()
    assert (row["as_of"], row["estimated_start"], row["reasons"][0]["code"]) == (None, None, "AFTER")


def test_wait_answers_when_it_becomes_eligible(waits):
    w, first = waits
    job = w.alice.post("jobs/", w.body(after=[first], after_any=True)).json()
    w.alice.post(f"jobs/{first}/cancel/")
    row = w.alice.get(f"jobs/{job['id']}/").json()
    assert (row["version"], row["state"], row["after_any"]) == (2, "QUEUED", True)


def test_cancelling_what_it_waits_for_cancels_it_and_the_events_tell_why(waits):
    w, first = waits
    job = w.alice.post("jobs/", w.body(after=[first])).json()["id"]
    w.alice.post(f"jobs/{first}/cancel/")
    row = w.alice.get(f"jobs/{job}/").json()
    assert (row["state"], row["error"]) == (
        "CANCELLED", f"first (job {first}) ended CANCELLED, and was to succeed before this one",
    )  # fmt: skip
    told = w.alice.get(f"jobs/{job}/events/").json()["results"][-1]
    assert told["data"] == {"from": "QUEUED", "to": "CANCELLED", "cause": "after", "after": first, "ended": "CANCELLED"}


def test_it_is_422_with_every_fault_at_once(waits):
    w, _ = waits
    answer = w.alice.post("jobs/", w.body(after=[str(uuid4()), "x"], after_any="no", gpu_count=0))
    for field, code in (("after.0", "unknown_job"), ("after.1", "not_a_job_id"), ("after_any", "not_a_boolean"),
                        ("gpu_count", "out_of_range")):  # fmt: skip
        error(answer, 422, field, code)


def test_another_projects_job_is_unknown(waits):
    w, first = waits
    error(w.caller("bob").post("jobs/", b.command_body(project="beta", after=[first])), 422, "after.0", "unknown_job")


@pytest.mark.parametrize("given", [7, 10**400, True, {"id": "x"}, "\ud800", "a\x00b", "", "x" * 10_000])
def test_what_is_no_list_is_refused(waits, given):
    w, _ = waits
    assert error(w.alice.post("jobs/", w.body(after=given)), 422, "after", "not_a_list")["limit"] == 64


def test_null_and_nothing_wait_for_nothing(waits):
    w, _ = waits
    for given in (None, []):
        assert w.alice.post("jobs/", w.body(after=given)).json()["after"] == []


def test_a_plan_says_what_it_would_wait_for_and_a_submission_is_held_to_it(waits):
    w, first = waits
    body = w.body(after=[first])
    plan = w.alice.post("jobs/plan/", body).json()
    assert (plan["verdict"], plan["start"], plan["gpus"]) == ("later", None, [])
    assert plan["reasons"][0]["message"] == "It would wait for one job to succeed first: first (queued)."
    assert w.alice.post("jobs/", {**body, "plan_token": plan["plan_token"]}).status_code == 201


def test_a_clone_waits_for_the_same(waits):
    w, first = waits
    job = w.alice.post("jobs/", w.body(after=[first])).json()["id"]
    clone = w.alice.post(f"jobs/{job}/clone/").json()
    assert (clone["after"], Job.objects.get(pk=clone["id"]).awaits) == ([first], 1)


def test_a_clone_of_what_can_not_start_any_more_is_422(waits):
    w, first = waits
    job = w.alice.post("jobs/", w.body(after=[first])).json()["id"]
    w.alice.post(f"jobs/{first}/cancel/")
    error(w.alice.post(f"jobs/{job}/clone/"), 422, "after.0", "did_not_succeed")


def test_the_output_of_a_job_that_is_not_waited_for_is_422(waits):
    w, first = waits
    body = b.command_body(params={"argv": ["true"], "inputs": {"net": f"@{first}"}})
    error(w.alice.post("jobs/", body), 422, "params.inputs.net", "not_after")


def test_the_list_asks_no_more_of_the_database_for_many(waits):
    w, first = waits
    asked = []
    for _ in range(2):
        for _ in range(3):
            w.alice.post("jobs/", w.body(after=[first]))
        with CaptureQueriesContext(connection) as queries:
            w.alice.get("jobs/")
        asked.append(len(queries))
    assert asked[1] == asked[0] > 0
