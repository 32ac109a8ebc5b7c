"""A checkpoint whose bytes somebody stored before: what counts is when the job itself saved it, not when they were new.

A deterministic job that is submitted again saves just what the first one saved, and the store keeps equal bytes once.
"""

from __future__ import annotations

from importlib import import_module
from uuid import UUID

import pytest
from django.apps import apps

from scheduling.models import Artifact, Attempt, Event, Job, LostWork, Upload
from scheduling.services import jobs
from scheduling.store import load_jobs
from scheduling.store.clock import to_ms
from scheduling.store.queries.lost import resumes_from
from tests import builders as b
from tests.remembered import Remembered
from tests.services.test_eviction import World
from tests.services.test_falling_back import EVERY_S, Life
from tests.services.test_unsaved_victims import OVER, saves_on_the_way, state, wanted, world

pytestmark = pytest.mark.django_db

FIRST, SECOND = 1, 1 + 2 * EVERY_S + 500 + 1  # when the bytes became known, and when the second job saved them


@Remembered
def saved_alike() -> Life:
    """The second of two jobs, which runs and has saved at step 30 the bytes that the first had saved there."""
    life = Life()
    life.saves(30)
    life.ends("SUCCEEDED")
    life.job = b.submitted(life.lab.who["alice"], b.merge_body(life.lab.models), now=b.later(life.at))
    life.begins()
    life.at += 500
    life.saves(30)
    assert (Artifact.objects.get(kind="checkpoint").created_at, life.at) == (b.later(FIRST), SECOND)
    return life


def test_it_was_saved_when_the_job_saved_it():
    life = saved_alike()
    told = resumes_from(Job.objects.get(pk=life.job))
    assert told is not None
    assert (told["step"], told["saved_at"]) == (30, b.later(SECOND))


def test_the_timeline_names_that_time():
    life = saved_alike()
    life.ends("LOST")
    requeued = Event.objects.get(type="requeued", object_id=life.job).message
    assert requeued.endswith("will resume from the checkpoint at step 30 of 2 Mar 2026, 12:41:42 UTC")


def test_only_the_work_since_then_is_lost_and_given_back():
    life = saved_alike()
    life.ends("LOST")
    lost = LostWork.objects.get(attempt=life.run.attempt)
    assert (lost.redo_since, lost.gpu_ms) == (b.later(SECOND), 2 * EVERY_S * 1000)


def test_the_scheduler_counts_from_then_what_an_eviction_would_cost():
    saved_alike()
    (attempt,) = load_jobs.live(b.later(SECOND + 1))
    assert attempt.saved_ms == to_ms(b.later(SECOND))


def test_a_retry_goes_on_from_what_was_saved_then():
    life = saved_alike()
    life.ends("FAILED")
    answer = jobs.retry(life.job, life.lab.who["alice"], b.later(life.at))
    assert Job.objects.get(pk=answer.job_id).resume_saved_at == b.later(SECOND)


def test_the_same_told_again_was_not_saved_again():
    life = saved_alike()
    artifact = str(Job.objects.get(pk=life.job).resume_id)
    life.at += 100
    life.reports("checkpoint", artifact=artifact, step=30)
    assert Job.objects.get(pk=life.job).resume_saved_at == b.later(SECOND)


def test_what_an_attempt_saves_just_as_it_found_it_is_saved_again():
    life = saved_alike()
    life.ends("LOST")
    life.begins()
    life.at += 300
    saved = b.output(life.run, "checkpoint", b"1 30", kind="checkpoint", now=b.later(life.at))
    assert Attempt.objects.get(pk=life.run.attempt).resume_id == UUID(saved)
    life.reports("checkpoint", artifact=saved, step=30)
    at = life.at
    life.ends("LOST")
    assert LostWork.objects.get(attempt=life.run.attempt).redo_since == b.later(at)


def known_before(made: World, step: int) -> None:
    """Alice has uploaded the bytes that her job is going to save at the step."""
    b.artifact(made.who["alice"], "before", {"experiment.json": f"{step}".encode()}, kind="checkpoint")


def test_a_job_that_never_makes_way_unsaved_has_saved_when_it_saves_bytes_that_were_known():
    made, _ = world()
    known_before(made, 5)
    saves_on_the_way(made, 150, step=5)
    made.tick(OVER)
    assert wanted(OVER + 1) == ("kill", "preempt")


def test_one_that_did_not_save_in_time_is_asked_again_once_it_has_saved_bytes_that_were_known():
    made, _ = world()
    known_before(made, 5)
    made.tick(OVER)
    saves_on_the_way(made, OVER + 701, step=5)
    made.tick(OVER + 702)
    assert state(made.victim.job) == "PREEMPTING"


def test_what_was_saved_before_the_time_was_kept_is_dated_by_the_jobs_own_upload():
    life = saved_alike()
    opened = Upload.objects.filter(attempt=UUID(life.run.attempt)).values_list("created_at", flat=True).get()
    Upload.objects.update(committed_at=None)
    Job.objects.update(resume_saved_at=None)
    import_module("scheduling.migrations.0011_when_a_job_saved").fill(apps, None)
    assert Job.objects.get(pk=life.job).resume_saved_at == opened == b.later(SECOND - 1)


@pytest.mark.parametrize("found", ["saved on the way", "begun with"])
def test_what_lay_there_untouched_at_the_end_was_saved_when_it_was_and_not_once_more(found):
    """A program that saved once and was then stopped leaves that checkpoint, and its node sends all that was left."""
    life = Life()
    life.saves(30)
    saved_at = life.at
    if found == "begun with":
        life.ends("LOST")
        life.begins()
    began = Attempt.objects.get(pk=life.run.attempt).granted_at
    left = b.output(life.run, "checkpoint", b"1 30", kind="checkpoint", now=b.later(life.at + EVERY_S))
    life.ends("PREEMPTED", checkpoint=left, step=30, why="drain")
    job, lost = Job.objects.get(pk=life.job), LostWork.objects.get(attempt=life.run.attempt)
    assert (str(job.resume_id), job.resume_step, job.resume_saved_at) == (left, 30, b.later(saved_at))
    assert lost.redo_since == max(began, b.later(saved_at))


def test_what_was_left_at_the_end_of_a_later_step_was_saved_then_though_its_bytes_are_the_same():
    life = Life()
    life.saves(30)
    left = b.output(life.run, "checkpoint", b"1 30", kind="checkpoint", now=b.later(life.at + EVERY_S))
    life.ends("PREEMPTED", checkpoint=left, step=31, why="drain")
    job = Job.objects.get(pk=life.job)
    assert (job.resume_step, job.resume_saved_at) == (31, b.later(1 + EVERY_S))
