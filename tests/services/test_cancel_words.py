"""What the timeline, the page and REST say of a cancel: who asked, whether by force, and what becomes of what runs."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from tests import builders as b
from tests.api.calls import Caller
from tests.services.test_eviction import messages
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
KILLED = "its process is killed at once, and nothing more is saved"


def cancelled(*force: bool) -> tuple[b.Lab, b.Running]:
    """A job that runs, cancelled by alice as often, by force or not, a second apart."""
    lab, run = b.busy_lab()
    for second, by_force in enumerate(force, start=1):
        jobs.cancel(run.job, lab.who["alice"], b.later(second), force=by_force)
    return lab, run


def test_of_a_running_job_it_says_who_asked_and_how_long_it_has():
    _, run = cancelled(False)
    assert messages(run.job, "cancelling") == ["cancelled by alice: it was asked to stop and has 30 s for it"]


def test_by_force_it_says_so_and_that_nothing_more_is_saved():
    _, run = cancelled(True)
    assert messages(run.job, "cancelling") == [f"cancelled by force by alice: {KILLED}"]


def test_force_that_comes_later_is_a_line_of_its_own_and_once():
    _, run = cancelled(False, True, True)
    assert messages(run.job, "kill_requested") == [f"by force, alice asked: {KILLED}"]


def test_force_that_comes_later_is_a_new_version_of_the_job():
    _, run = cancelled(False)
    before = Job.objects.get(pk=run.job).version
    jobs.cancel(run.job, b.people()["alice"], b.later(9), force=True)
    assert Job.objects.get(pk=run.job).version == before + 1


def test_of_a_waiting_job_it_says_who_asked():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    jobs.cancel(job, lab.who["admin"], b.later(1))
    assert messages(job, "cancelled") == ["cancelled by admin; it was not running"]


@pytest.mark.parametrize(
    ("force", "words"),
    [
        ([False], "Being cancelled: its node was asked to stop it."),
        ([True], "Being cancelled: its node was told to kill it at once, by force."),
        ([False, True], "Being cancelled: its node was told to kill it at once, by force."),
    ],
)
def test_the_page_and_rest_say_how_it_is_cancelled(force, words):
    _, run = cancelled(*force)
    assert words in text(browser().get(f"/jobs/{run.job}/"))
    (reason,) = Caller(session="alice").get(f"jobs/{run.job}/").json()["reasons"]
    assert (reason["code"], reason["message"], reason["numbers"]["force"]) == ("CANCELLING", words, force[-1])


def test_a_job_that_was_done_when_it_stopped_is_cancelled_and_its_results_are_said_to_be_dropped():
    _, run = cancelled(False)
    b.finished(run, "SUCCEEDED", now=b.later(2), artifacts=[b.output(run)])
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.outputs.count()) == ("CANCELLED", 0)
    done = "alice cancelled it; it was done by then, and its results are dropped"
    assert messages(run.job, "attempt_ended") == [f"attempt 1 ended: SUCCEEDED ({done})"]
    assert messages(run.job, "cancelled") == [f"{done}; it saved nothing: a retry begins from the beginning"]
