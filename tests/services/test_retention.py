"""What is kept for a while: checkpoints of jobs that go on and that ended, and outputs that came to nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.models import Artifact, Event, Job
from scheduling.services import collection, jobs
from scheduling.store.commit import resuming
from tests import builders as b

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def lab():
    return b.lab()


@pytest.fixture
def run(lab):
    made = b.running(lab.who["alice"], lab.models)
    collection.collect(b.NOON)
    return made


def saves(run: b.Running, seconds: float, step: int, *, content: str = "") -> str:
    """The job has saved that step, and said so."""
    at = b.later(seconds)
    body = (content or f'{{"step": {step}}}').encode()
    saved = b.output(run, "checkpoint", body, kind="checkpoint", now=at)
    b.beat(run.node, now=at, reports=[{"type": "checkpoint", "attempt": run.attempt, "epoch": run.epoch,
                                       "artifact": saved, "step": step}])  # fmt: skip
    return saved


def gone(*artifacts: str) -> list[bool]:
    return [Artifact.objects.get(pk=each).deleted_at is not None for each in artifacts]


def test_of_a_job_that_goes_on_the_last_two_checkpoints_are_kept(run):
    kept = [saves(run, 10 * step, step) for step in (1, 2, 3, 4)]
    found = collection.collect(b.later(50))
    assert (found.expired.count, gone(*kept)) == (2, [True, True, False, False])
    (event, _) = Event.objects.filter(type="artifact_deleted")
    assert (event.actor, event.message.split(": ")[-1]) == (
        "retention", "of a job that goes on the last 2 checkpoints are kept",
    )  # fmt: skip


def test_one_that_was_saved_again_is_as_new_as_that(run):
    first = saves(run, 10, 1, content="same")
    second, third = saves(run, 20, 2), saves(run, 30, 3)
    assert saves(run, 40, 4, content="same") == first
    collection.collect(b.later(50))
    assert gone(first, second, third) == [False, True, False]


def test_the_checkpoint_that_the_job_fell_back_to_is_kept_however_old(run):
    old, *newer = [saves(run, 10 * step, step) for step in (1, 2, 3)]
    Job.objects.filter(pk=run.job).update(resume_id=old, resume_step=1)
    collection.collect(b.later(50))
    assert gone(old, *newer) == [False, False, False]


@pytest.mark.parametrize(
    ("outcome", "span", "why"),
    [
        ("SUCCEEDED", DAY, "its job succeeded more than 1 d ago"),
        ("FAILED", 7 * DAY, "its job ended without success more than 7 d ago"),
        ("CANCELLED", 7 * DAY, "its job ended without success more than 7 d ago"),
    ],
)
def test_those_of_a_job_that_has_ended_are_kept_for_a_day_or_for_a_week(lab, run, outcome, span, why):
    saved = [saves(run, 10, 1), saves(run, 20, 2)]
    if outcome == "CANCELLED":
        jobs.cancel(run.job, lab.who["alice"], b.later(55))
    b.finished(run, outcome, exit_code=int(outcome != "SUCCEEDED"), now=b.later(60))
    assert Job.objects.get(pk=run.job).state == outcome
    collection.collect(b.later(59) + span)
    assert gone(*saved) == [False, False]
    collection.collect(b.later(60) + span)
    assert gone(*saved) == [True, True]
    assert Artifact.objects.get(pk=saved[0]).deleted_why == why


def test_the_times_are_settings(run, settings):
    settings.CHECKPOINT_HOURS_AFTER_SUCCESS = 2
    saved = saves(run, 10, 1)
    b.finished(run, "SUCCEEDED", now=b.later(60))
    collection.collect(b.later(60) + 2 * HOUR)
    assert Artifact.objects.get(pk=saved).deleted_why == "its job succeeded more than 2 h ago"


def test_what_two_jobs_saved_is_kept_as_long_as_one_of_them_needs_it(lab, run):
    saved = saves(run, 10, 1, content="same")
    b.finished(run, "SUCCEEDED", now=b.later(60))
    other = b.running(lab.who["alice"], lab.models, now=b.later(61))
    assert saves(other, 70, 1, content="same") == saved
    collection.collect(b.later(60) + 2 * DAY)
    assert gone(saved) == [False]


def test_the_checkpoint_with_which_a_waiting_retry_begins_is_kept(lab, run):
    saved = saves(run, 10, 1)
    b.finished(run, "FAILED", exit_code=1, now=b.later(60))
    again = jobs.retry(run.job, lab.who["alice"], b.later(70))
    assert str(Job.objects.get(pk=again.job_id).resume_id) == saved
    collection.collect(b.later(60) + 30 * DAY)
    assert gone(saved) == [False]
    jobs.cancel(str(again.job_id), lab.who["alice"], b.later(61) + 30 * DAY)
    collection.collect(b.later(62) + 30 * DAY)
    assert gone(saved) == [True]


def test_what_an_attempt_stored_before_it_failed_goes_after_a_day_and_what_came_out_stays(lab, run):
    lost = b.output(run, "merged", b.tensors(5), now=b.later(10))
    b.finished(run, "FAILED", exit_code=1, now=b.later(60))
    good = b.running(lab.who["alice"], lab.models, now=b.later(61))
    made = b.output(good, "merged", b.tensors(6), now=b.later(70))
    b.finished(good, artifacts=[made], now=b.later(80))
    collection.collect(b.later(59) + DAY)
    assert gone(lost, made) == [False, False]
    collection.collect(b.later(60) + DAY)
    assert gone(lost, made) == [True, False]
    assert Artifact.objects.get(pk=lost).deleted_why == "its attempt ended more than 1 d ago without success"


def test_what_is_stored_by_an_attempt_that_goes_on_stays(run):
    made = b.output(run, "merged", b.tensors(5), now=b.later(10))
    collection.collect(b.later(10) + 30 * DAY)
    assert gone(made) == [False]


def test_a_checkpoint_that_a_person_uploaded_stays(lab):
    mine = b.artifact(lab.who["alice"], "mine", {"experiment.json": b"{}"}, kind="checkpoint")
    collection.collect(b.later(1) + 365 * DAY)
    assert gone(mine) == [False]


def test_a_job_does_not_begin_with_a_deleted_checkpoint_but_with_the_one_before_and_says_so(run):
    before, newest = saves(run, 10, 1), saves(run, 20, 2)
    Artifact.objects.filter(pk=newest).update(deleted_at=b.later(30), deleted_by="retention", deleted_why="a test")
    job = Job.objects.get(pk=run.job)
    found = resuming.chosen(job, resuming.of(job), b.later(40), actor="test")
    assert str(found.artifact) == before
    (event,) = Event.objects.filter(type="checkpoint_given_up")
    assert event.message == "the checkpoint at step 2 was deleted: it resumes from the one before, at step 0"
