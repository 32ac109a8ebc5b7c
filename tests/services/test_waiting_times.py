"""Jobs that may not start yet, and those that may not start any more."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from scheduling.services import jobs
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    lab = b.lab()
    return lab.who["alice"], lab.models


def state(job: str) -> str:
    return Job.objects.get(pk=job).state


def test_a_job_does_not_start_before_its_time(world):
    alice, models = world
    job = b.submitted(alice, b.merge_body(models, not_before="2026-03-02T12:01:00Z"))
    b.ticked(b.later(59))
    assert state(job) == "QUEUED"
    b.ticked(b.later(60))
    assert state(job) == "DISPATCHING"


def test_the_scheduler_wakes_when_the_time_has_come(world):
    alice, models = world
    b.submitted(alice, b.merge_body(models, not_before="2026-03-02T12:00:30Z"))
    assert b.ticked().next_wakeup_s == 30


def test_a_job_that_could_not_start_in_time_is_cancelled_and_says_why(world):
    alice, models = world
    b.running(alice, models, gpu_count=4)
    job = b.submitted(alice, b.merge_body(models, start_by="2026-03-02T12:01:00Z"))
    b.ticked(b.later(59))
    assert state(job) == "QUEUED"
    b.ticked(b.later(60))
    row = Job.objects.get(pk=job)
    assert (row.state, row.outcome, row.error, row.ended_at) == (
        "CANCELLED", "CANCELLED", "start_by has passed", b.later(60),
    )  # fmt: skip
    event = Event.objects.filter(object_id=job, type="cancelled").get()
    assert (event.data["cause"], event.message) == ("start_by", "start_by has passed")


def test_a_job_that_started_in_time_runs_on(world):
    alice, models = world
    run = b.running(alice, models, start_by="2026-03-02T12:01:00Z")
    b.ticked(b.later(61))
    assert state(run.job) == "RUNNING"


def test_a_held_job_is_too_late_only_when_it_is_released(world):
    alice, models = world
    job = b.submitted(alice, b.merge_body(models, start_by="2026-03-02T12:01:00Z"))
    jobs.hold(job, alice, b.NOON)
    b.ticked(b.later(61))
    assert state(job) == "HELD"
    jobs.hold(job, alice, b.later(62), release=True)
    b.ticked(b.later(63))
    assert state(job) == "CANCELLED"
