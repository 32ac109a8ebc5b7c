"""What REST tells of a job that was moved from a failing GPU, and not evicted."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from tests import builders as b
from tests.api.calls import busy_world
from tests.services.sick_gpus import HOT, fails

pytestmark = pytest.mark.django_db


def test_a_job_that_left_a_failing_gpu_waits_as_preempted_and_was_evicted_by_nobody():
    w, run = busy_world()
    fails({0: HOT})
    b.finished(run, "PREEMPTED", exit_code=85, why="health", now=b.later(36))
    told = w.alice.get(f"jobs/{run.job}/").json()
    assert (told["state"], told["preempted"], told["preempt_count"]) == ("QUEUED", True, 0)
    assert Job.objects.get(pk=run.job).avoid["gpus"] == ["GPU-n1-0"]
