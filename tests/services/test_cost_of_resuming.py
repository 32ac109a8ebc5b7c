"""Resuming costs GPU time that is given back (D6), also of a job that never says how far it is."""

from __future__ import annotations

import pytest

from scheduling.models import LostWork
from scheduling.store.commit import balances
from tests import builders as b
from tests.services.test_eviction import messages, resuming

pytestmark = pytest.mark.django_db


def test_of_a_job_without_progress_fetching_its_checkpoint_is_given_back():
    run, _ = resuming()
    b.finished(run, now=b.later(200))
    lost = LostWork.objects.get(attempt_id=run.attempt)
    granted, started = lost.attempt.granted_at, lost.attempt.started_at
    assert (lost.cause, lost.redo_since, lost.resume_until, started) == ("preempt", None, started, b.later(134))
    assert lost.gpu_ms == 4 * 1000 * (started - granted).total_seconds() > 0
    assert balances.rebuild(b.later(201)) == 0


def test_the_timeline_says_that_it_was_resuming():
    run, gets_on = resuming()
    gets_on(143)
    b.finished(run, now=b.later(200))
    assert messages(run.job, "attempt_ended")[-1] == (
        "attempt 2 ended: SUCCEEDED; 10 s of resuming on 4 GPUs (40 GPU-seconds) are lost and given back"
    )
