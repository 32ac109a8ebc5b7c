"""One scheduler leads at a time, and one that was overtaken writes nothing."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.models import Job
from scheduling.services import tick
from scheduling.store import lease, load
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_only_one_holder_leads():
    assert lease.acquire("a", b.NOON, ttl_s=10) == lease.Held("a", 1)
    assert lease.acquire("b", b.later(9), ttl_s=10) is None


def test_renewing_keeps_the_epoch():
    lease.acquire("a", b.NOON, ttl_s=10)
    assert lease.acquire("a", b.later(9), ttl_s=10) == lease.Held("a", 1)
    assert lease.acquire("b", b.later(18), ttl_s=10) is None


def test_a_lapsed_lease_is_taken_with_a_higher_epoch():
    lease.acquire("a", b.NOON, ttl_s=10)
    assert lease.acquire("b", b.later(10), ttl_s=10) == lease.Held("b", 2)


def test_a_freed_lease_is_there_at_once():
    lease.acquire("a", b.NOON, ttl_s=10)
    lease.release("a")
    assert lease.acquire("b", b.later(1), ttl_s=10) == lease.Held("b", 2)


def test_a_plan_of_an_overtaken_scheduler_is_not_written():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    old = tick.lead("old", b.NOON)
    snapshot = load.snapshot(b.NOON)
    plan = decide(snapshot)
    assert len(plan.starts) == 1
    assert tick.lead("new", b.later(60)) is not None
    assert tick.commit(plan, snapshot.policy, old, b.later(61)) is None
    assert Job.objects.get(pk=job).state == "QUEUED"


def test_a_scheduler_that_does_not_lead_does_nothing():
    tick.lead("other", b.NOON)
    assert tick.run_tick("me", b.later(1)) == tick.TickResult(led=False)
