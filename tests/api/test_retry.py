"""Retrying a job over REST and on its page."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from tests import builders as b
from tests.api.calls import busy_world, error, problem
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def failed():
    w, run = busy_world()
    b.finished(run, "FAILED", exit_code=1, error="boom")
    return w, run


def test_a_retry_is_201_with_the_new_job_and_200_with_the_same_one_again(failed):
    w, run = failed
    first, again = (w.alice.post(f"jobs/{run.job}/retry/") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["retry_of"], first.json()["id"]) == (run.job, again.json()["id"])
    assert first["Location"] == f"/api/v1/jobs/{first.json()['id']}/"


@pytest.mark.parametrize(("state", "says"), [
    ("SUCCEEDED", "it has its result; clone it"), ("RUNNING", "before it has ended; cancel it first, or wait"),
])  # fmt: skip
def test_what_did_not_end_badly_is_409_with_what_to_do(failed, state, says):
    w, run = failed
    Job.objects.filter(pk=run.job).update(state=state, ended_at=None if state == "RUNNING" else b.NOON)
    told = problem(w.alice.post(f"jobs/{run.job}/retry/"), 409, "wrong_state")
    assert (says in told["detail"], told["state"]) == (True, state)


def test_a_retry_takes_no_fields(failed):
    w, run = failed
    found = error(w.alice.post(f"jobs/{run.job}/retry/", {"priority": "High"}), 422, "priority", "unknown_field")
    assert "a retry copies the job exactly" in found["message"]


def test_the_page_of_a_failed_job_offers_a_retry_that_leads_to_the_new_job(failed):
    _, run = failed
    assert f'action="/jobs/{run.job}/retry/"' in text(browser().get(f"/jobs/{run.job}/"))
    html = text(browser().post(f"/jobs/{run.job}/retry/", follow=True))
    assert f'Retry of</dt><dd><a href="/jobs/{run.job}/">' in html


def test_the_page_of_a_running_job_offers_none_and_says_why_not():
    _, run = busy_world()
    assert "/retry/" not in text(browser().get(f"/jobs/{run.job}/"))
    html = text(browser().post(f"/jobs/{run.job}/retry/", follow=True))
    assert "This job is running, so it can&#x27;t be retried; nothing was changed." in html
