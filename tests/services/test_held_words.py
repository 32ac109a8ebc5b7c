"""A job that is held and released: what its timeline and its reasons say of it."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from scheduling.services import jobs
from scheduling.store.queries import jobs as queries
from tests import builders as b

pytestmark = pytest.mark.django_db


def told(job: str) -> list[tuple[str, str, str]]:
    """What its timeline tells after its submission."""
    row = Job.objects.get(pk=job)
    return [(e["type"], e["message"], e["actor"]) for e in queries.events(row) if e["type"] in ("held", "requeued")]


def reason(job: str) -> str:
    (only,) = queries.as_dict(queries.full(Job.objects.filter(pk=job)).get(), now=b.later(9))["reasons"]
    return only["message"]


def test_the_timeline_says_what_a_hold_and_a_release_mean():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    assert reason(job) == "The scheduler has not looked at it yet."
    jobs.hold(job, lab.who["alice"], b.later(1))
    assert reason(job) == "Held: release it to let it start."
    jobs.hold(job, lab.who["alice"], b.later(2), release=True)
    assert told(job) == [
        ("held", "it does not start until it is released", "user alice"),
        ("requeued", "released: it waits for GPUs again", "user alice"),
    ]


def test_one_that_waits_for_others_is_not_said_to_wait_for_gpus():
    lab = b.lab()
    first = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, after=[first]))
    jobs.hold(job, lab.who["alice"], b.later(1))
    jobs.hold(job, lab.who["alice"], b.later(2), release=True)
    assert Event.objects.get(object_id=job, type="requeued").message == "released: it waits for other jobs again"
    assert reason(job).startswith("Waits for one job to succeed first: ")
