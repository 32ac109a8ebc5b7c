"""A job that is cancelled and saves in its grace: a retry begins there, and the timeline says so and by whom."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from scheduling.services import jobs
from tests import builders as b
from tests.services.test_falling_back import Life

pytestmark = pytest.mark.django_db


def cancelled(*, on_the_way: int = 0, at_the_end: int = 0, force: bool = False) -> Life:
    """A job that alice has cancelled, and that has ended of it; the steps at which it saved before and at its end."""
    life = Life()
    if on_the_way:
        life.saves(on_the_way)
    life.at += 100
    jobs.cancel(life.job, life.lab.who["alice"], b.later(life.at), force=force)
    how = {"checkpoint": life.saves(at_the_end, tell=False), "step": at_the_end} if at_the_end else {}
    life.reports("finished", outcome="CANCELLED", exit_code=85, why="cancel", **how)
    return life


def timeline(life: Life, kind: str) -> str:
    message: str = Event.objects.get(object_id=life.job, type=kind).message
    return message


def test_a_retry_begins_with_what_it_saved_when_it_was_cancelled():
    life = cancelled(on_the_way=10, at_the_end=30)
    answer = jobs.retry(life.job, life.lab.who["alice"], b.later(500))
    assert Job.objects.get(pk=answer.job_id).resume_step == 30


def test_the_timeline_says_where_a_retry_begins():
    assert timeline(cancelled(at_the_end=30), "cancelled") == (
        "alice cancelled it; a retry begins at step 30, saved 2 Mar 2026, 12:01:41 UTC"
    )


def test_of_one_that_did_not_save_then_it_says_the_checkpoint_before():
    assert timeline(cancelled(on_the_way=10, force=True), "cancelled") == (
        "alice cancelled it; a retry begins at step 10, saved 2 Mar 2026, 12:00:01 UTC"
    )


def test_of_one_that_never_saved_it_says_that_nothing_was_saved():
    assert timeline(cancelled(), "cancelled") == (
        "alice cancelled it; it saved nothing: a retry begins from the beginning"
    )


def test_of_one_whose_checkpoint_came_too_late_it_says_that_too():
    life = Life()
    jobs.cancel(life.job, life.lab.who["alice"], b.later(1))
    life.reports("finished", outcome="CANCELLED", why="cancel", error="its checkpoint was not in the store in time")
    assert timeline(life, "cancelled") == (
        "alice cancelled it; its checkpoint was not in the store in time; it saved nothing: a retry begins from the "
        "beginning"
    )


def test_the_end_of_the_attempt_names_who_cancelled_it():
    assert timeline(cancelled(), "attempt_ended") == "attempt 1 ended: CANCELLED (alice cancelled it)"
