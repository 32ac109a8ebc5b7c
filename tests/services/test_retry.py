"""An ended job is done again from where it was saved last: as a new job, once at a time."""

from __future__ import annotations

import pytest

from scheduling.models import Artifact, Attempt, Event, Job
from scheduling.services import jobs
from scheduling.services.jobs import Accepted, Moved, Refused
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab():
    return b.busy_lab()


def ended(run, outcome="FAILED", *, step=3):
    """The job has ended with a checkpoint; returns its artifact."""
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint", now=b.later(5))
    b.finished(run, outcome, exit_code=1, checkpoint=saved, step=step, error="boom", now=b.later(6))
    return saved


def retried(made, run, at=10):
    return jobs.retry(run.job, made.who["alice"], b.later(at))


@pytest.mark.parametrize("outcome", ["FAILED", "TIMED_OUT"])
def test_a_retry_is_a_new_job_that_begins_with_the_checkpoint_of_the_old_one(lab, outcome):
    made, run = lab
    saved = ended(run, outcome)
    answer = retried(made, run)
    job, before = Job.objects.get(pk=answer.job_id), Job.objects.get(pk=run.job)
    assert (answer.fresh, str(job.resume_id), job.resume_step, job.retry_of_id) == (True, saved, 3, before.pk)
    assert (job.state, job.params, job.level_id, job.ran_ms, job.submitted_at) == (
        "QUEUED", before.params, before.level_id, 0, b.later(10),
    )  # fmt: skip
    assert (before.state, before.outcome) == (outcome, outcome)


def test_its_first_attempt_resumes(lab):
    made, run = lab
    saved = ended(run)
    answer = retried(made, run)
    b.ticked(b.later(11))
    assert str(Attempt.objects.get(job_id=answer.job_id).resume_id) == saved


def test_the_timeline_says_which_job_it_does_again_and_from_where(lab):
    made, run = lab
    ended(run)
    answer = retried(made, run)
    told = Event.objects.get(object_id=str(answer.job_id), type="submitted").message
    assert told == f"submitted to merge at Normal; it does job {run.job} again at step 3, where that was saved"


def test_a_cancelled_job_that_saved_nothing_begins_from_the_beginning(lab):
    made, run = lab
    jobs.cancel(run.job, made.who["alice"], b.later(2), force=True)
    b.finished(run, "CANCELLED", why="cancel", now=b.later(3))
    job = Job.objects.get(pk=retried(made, run).job_id)
    assert (job.resume_id, job.resume_step) == (None, 0)


def test_a_damaged_checkpoint_is_not_begun_with(lab):
    made, run = lab
    Artifact.objects.filter(pk=ended(run)).update(corrupt=True)
    assert Job.objects.get(pk=retried(made, run).job_id).resume_id is None


def test_asking_twice_gives_the_same_job_and_once_that_has_ended_another(lab):
    made, run = lab
    ended(run)
    first = retried(made, run)
    assert retried(made, run, 11) == Accepted(first.job_id, fresh=False)
    jobs.cancel(str(first.job_id), made.who["alice"], b.later(12))
    assert retried(made, run, 13).job_id != first.job_id


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "DISPATCHING", "RUNNING", "PREEMPTING", "CANCELLING"])
def test_a_job_that_goes_on_is_not_retried(lab, state):
    made, run = lab
    Job.objects.filter(pk=run.job).update(state=state)
    assert (retried(made, run), Job.objects.count()) == (Moved(state, lawful=False), 1)


def test_a_job_that_succeeded_is_not_retried(lab):
    made, run = lab
    b.finished(run, "SUCCEEDED", now=b.later(3))
    assert retried(made, run) == Moved("SUCCEEDED", lawful=False)


def test_a_job_that_was_refused_is_not_retried():
    who = b.lab().who
    refused = jobs.submit({"kind": "merge", "project": "alpha"}, who["alice"], b.NOON)
    assert isinstance(refused, Refused)
    assert jobs.retry(str(refused.job_id), who["alice"], b.later(1)) == Moved("REJECTED", lawful=False)


def test_a_job_of_another_project_is_not_known(lab):
    made, run = lab
    ended(run)
    assert jobs.retry(run.job, made.who["bob"], b.later(10)) is None


def test_a_time_to_start_that_has_passed_is_left_out():
    who = b.lab().who
    body = b.command_body(gpu_count=4, start_by="2026-03-02T12:00:30Z")
    b.submitted(who["alice"], b.command_body(gpu_count=4))
    job = b.submitted(who["alice"], body, now=b.later(1))
    b.ticked(b.later(2))
    b.beat(now=b.later(40))
    b.ticked(b.later(40))
    assert Job.objects.get(pk=job).state == "CANCELLED"
    answer = jobs.retry(job, who["alice"], b.later(50))
    assert Job.objects.get(pk=answer.job_id).start_by is None


def test_what_may_not_be_asked_for_any_more_is_refused_with_every_reason(lab):
    made, run = lab
    ended(run)
    spec = Job.objects.get(pk=run.job).spec
    Job.objects.filter(pk=run.job).update(spec={**spec, "gpu_count": 400, "gpus_per_node": 400})
    assert isinstance(retried(made, run), Refused)
