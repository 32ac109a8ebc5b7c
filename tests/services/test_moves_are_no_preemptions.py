"""``preempt_count`` and the protection of D10 count evictions for other jobs, and no other reason to leave the GPUs."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Job
from scheduling.store import load_jobs
from tests import builders as b

pytestmark = pytest.mark.django_db


def stopped(run: b.Running, why: str, *, asked: bool = True) -> Job:
    """The job, requeued after its node had been asked to stop it for ``why``."""
    if asked:
        Attempt.objects.filter(pk=run.attempt).update(action="stop", why=why, stop_by=b.later(99), asked_at=b.NOON)
    b.finished(run, "PREEMPTED", exit_code=85, why=why, now=b.later(5))
    job = Job.objects.get(pk=run.job)
    assert job.state == "QUEUED"
    return job


@pytest.mark.parametrize(("why", "times"), [("preempt", 1), ("health", 0), ("drain", 0), ("peer", 0)])
def test_only_an_eviction_is_counted_and_each_is_marked_until_the_next_start(why, times):
    _, run = b.busy_lab()
    job = stopped(run, why)
    assert (job.preempt_count, job.preempted) == (times, True)
    b.ticked(b.later(6))
    assert not Job.objects.get(pk=run.job).preempted


def test_a_job_that_stops_by_itself_to_be_resumed_was_not_preempted_for_anybody():
    _, run = b.busy_lab()
    assert stopped(run, "", asked=False).preempt_count == 0


@pytest.mark.parametrize(("why", "times"), [("preempt", 1), ("health", 0), ("drain", 0)])
def test_only_evictions_protect_from_more_of_them(why, times):
    _, run = b.busy_lab()
    stopped(run, why)
    (waiting,) = load_jobs.waiting(b.later(6))
    assert waiting.recent_preemptions == times
