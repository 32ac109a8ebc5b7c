"""What happens while a tick is on its way: no grant is earlier than the job, or than the GPU is free."""

from __future__ import annotations

import pytest

from scheduling.models import Allocation, Attempt, Event
from tests import builders as b

pytestmark = pytest.mark.django_db


def granted(submitted_at: float, ticked_at: float) -> tuple:
    """When a job that a tick of that time finds there is granted its GPUs."""
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models), now=b.later(submitted_at))
    b.ticked(b.later(ticked_at))
    events = dict(Event.objects.filter(object_id=job).values_list("type", "at"))
    attempt = Attempt.objects.get(job_id=job)
    held = set(Allocation.objects.filter(attempt=attempt).values_list("granted_at", flat=True))
    assert held == {attempt.granted_at} == {events["granted"]}
    return attempt.granted_at


@pytest.mark.parametrize(
    ("submitted_at", "ticked_at", "at"),
    [(0.02, 0.0, 0.02), (0.0, 0.5, 0.5), (60.0, 0.0, 0.0)],
    ids=["submitted while it read", "before it", "by a clock that has been set back since"],
)
def test_a_grant_is_no_earlier_than_the_submission(submitted_at, ticked_at, at):
    assert granted(submitted_at, ticked_at) == b.later(at)


@pytest.mark.parametrize(("ended_at", "ticked_at", "at"), [(5.3, 5.0, 5.3), (5.0, 5.5, 5.5), (65.0, 5.0, 5.0)])
def test_a_gpu_is_not_granted_before_it_was_released(ended_at, ticked_at, at):
    lab, run = b.full_lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models), now=b.later(1))
    b.finished(run, now=b.later(ended_at))
    b.ticked(b.later(ticked_at))
    assert set(Allocation.objects.filter(attempt__job_id=job).values_list("granted_at", flat=True)) == {b.later(at)}
