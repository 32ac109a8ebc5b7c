"""Who is rung, and when: a bell only shortens the wait for the next heartbeat."""

from __future__ import annotations

import pytest

from emep_site import bells
from scheduling.services import jobs
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def rung(monkeypatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(bells, "ring_nodes", names.extend)
    return names


def test_a_grant_rings_its_node_and_a_cancel_rings_it_again(rung, django_capture_on_commit_callbacks):
    who = b.people()
    b.node("n1")
    b.node("n2", rack="r2")
    with django_capture_on_commit_callbacks(execute=True):
        run = b.running(who["alice"], [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])
    assert rung == ["n1"]
    with django_capture_on_commit_callbacks(execute=True):
        jobs.cancel(run.job, who["alice"], b.later(1))
    assert rung == ["n1", "n1"]


def test_cancelling_a_job_that_waits_rings_nobody(rung, django_capture_on_commit_callbacks):
    who = b.people()
    job = b.submitted(who["alice"], b.merge_body([b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]))
    with django_capture_on_commit_callbacks(execute=True):
        jobs.cancel(job, who["alice"], b.later(1))
    assert rung == []
