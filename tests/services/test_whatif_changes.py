"""Changes that would help, as fields of a request: with them it starts as was said."""

from __future__ import annotations

import pytest

from scheduling.services import outlook, whatif
from scheduling.services.whatif import Planned
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """Each test begins without an outlook, as a new process does."""
    monkeypatch.setattr(outlook, "present", outlook.Present())


@pytest.fixture
def who():
    found = b.people()
    b.node("n1")
    return found


@pytest.fixture
def models(who):
    return [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]


def planned(actor, body, now=b.NOON) -> Planned:
    found = whatif.plan(body, actor, now)
    assert isinstance(found, Planned), found
    return found


def codes(found) -> list[str]:
    return [reason["code"] for reason in found.reasons]


def test_a_gang_is_offered_as_fields_the_smaller_nodes_on_which_it_then_starts_now(who, models):
    b.node("n2")
    for name in ("n1", "n2"):
        b.running(who["alice"], models, gpu_count=4, node=name)
    for name in ("n3", "n4"):
        b.node(name, gpus=2)
    body = b.command_body(gpu_count=8, node_count=2)
    plan = planned(who["alice"], body)
    assert [each.fields for each in plan.alternatives] == [{"gpu_count": 4, "node_count": 2, "gpus_per_node": 2}]
    assert planned(who["alice"], {**body, **plan.alternatives[0].fields}).verdict == "now"


def test_a_critical_job_kept_to_one_node_is_offered_to_evict_elsewhere(who, models):
    b.node("n2")
    b.running(who["alice"], models, gpu_count=4, priority="High", max_duration="1h")
    b.running(who["alice"], models, gpu_count=4, node="n2", max_duration="59m")
    urgent = {"priority": "Critical", "purpose": "regression_gate", "gpu_count": 4}
    kept = {"affinity": {"required": [{"key": "node", "op": "In", "values": ["n1"]}]}}
    plan = planned(who["admin"], b.merge_body(models, **urgent, **kept), b.later(600))
    assert [(each.change, each.fields["affinity"], each.starts_at) for each in plan.alternatives] == [
        ("without its required rules and by evicting 1 job", {"preferred": []}, b.later(600))
    ]
    freed = planned(who["admin"], b.merge_body(models, **urgent), b.later(600))
    assert (freed.verdict, len(freed.victims)) == ("now", 1)


def test_a_gang_that_holds_out_is_offered_as_a_field_to_do_so_no_more(who, models):
    b.running(who["alice"], models, gpu_count=4)
    b.node("n2", rack="r1")
    b.node("n3", rack="r2")
    body = b.command_body(gpu_count=8, node_count=2, max_wait_for_level=25)
    plan = planned(who["alice"], body)
    assert (plan.verdict, codes(plan), plan.start.low) == ("later", ["HOLDS_OUT"], b.later(25))
    assert plan.alternatives[-1].fields == {"max_wait_for_level": None}
    assert {planned(who["alice"], {**body, **each.fields}).verdict for each in plan.alternatives} == {"now"}
