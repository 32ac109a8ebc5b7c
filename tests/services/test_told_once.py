"""What went wrong is said once, though node and server both say it."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from tests import builders as b
from tests.services.test_eviction import messages

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ("max_duration is used up", "max_duration is used up"),
        ("its max_duration came to its end; ask for more", "its max_duration came to its end; ask for more"),
        ("", "max_duration is used up"),
    ],
)
def test_the_end_of_the_time_limit(told, error):
    _, run = b.busy_lab()
    b.finished(run, "TIMED_OUT", error=told, why="time_limit", now=b.later(9))
    assert Job.objects.get(pk=run.job).error == error


@pytest.mark.parametrize(
    "told", ["its GPUs were needed", "its GPUs were needed; its checkpoint was refused: too large"]
)
def test_a_preemption_whose_node_says_the_cause_too(told):
    _, run = b.busy_lab()
    b.finished(run, "PREEMPTED", error=told, why="preempt", now=b.later(9))
    assert messages(run.job, "attempt_ended")[0].count("its GPUs were needed") == 1
