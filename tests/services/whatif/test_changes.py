"""Changes that would help, as fields of a request: with them it starts as was said."""

from __future__ import annotations

import pytest

from scheduling.services import whatif
from tests import builders as b

from .asking import codes, planned

pytestmark = pytest.mark.django_db


def test_a_rule_between_jobs_is_offered_to_be_dropped_and_then_it_starts_now(who, models):
    b.running(who["alice"], models, gpu_count=1, group="red")
    body = b.merge_body(models, anti_affinity={"group": "red", "level": "node"})
    plan = planned(who["alice"], body)
    assert [change.fields for change in plan.alternatives] == [{"anti_affinity": None}]
    assert planned(who["alice"], {**body, **plan.alternatives[0].fields}).verdict == "now"


def test_a_partner_that_does_not_run_need_not_be_waited_for(who, models):
    body = b.merge_body(models, **{"with": {"group": "red", "level": "node"}})
    plan = planned(who["alice"], body)
    assert (codes(plan), [change.fields for change in plan.alternatives]) == (["NO_PARTNER"], [{"with": None}])
    assert planned(who["alice"], {**body, **plan.alternatives[0].fields}).verdict == "now"


def test_a_whole_group_is_told_that_a_shared_one_would_do_sooner(who, models):
    b.running(who["alice"], models, gpu_count=2, max_duration="1h")
    b.running(who["alice"], models, gpu_count=2, max_duration="2h")
    plan = planned(who["alice"], b.merge_body(models, nvlink_exclusive=True))
    assert plan.start.low == b.later(7200)
    assert [(change.fields, change.starts_at) for change in plan.alternatives] == [
        ({"nvlink_exclusive": False}, b.later(3600)),
        ({"nvlink_required": False, "nvlink_exclusive": False}, b.later(3600)),
    ]


def test_what_the_pool_could_never_hold_is_told_changes_of_which_each_alone_is_taken(who):
    b.node("n2")
    body = b.command_body(gpu_count=3, node_count=3)
    plan = planned(who["alice"], body)
    assert plan.verdict == "never"
    assert [(each.change, each.fields, each.starts_at) for each in plan.alternatives] == [
        ("at most 2 GPUs and at most 2 nodes", {"gpu_count": 2, "node_count": 2}, b.NOON),
        ("nodes of the scheduler's choice", {"node_count": None}, b.NOON),
    ]
    assert [planned(who["alice"], {**body, **each.fields}).verdict for each in plan.alternatives] == ["now", "now"]


def test_a_change_of_what_could_never_be_held_tells_when_it_starts(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="1h")
    plan = planned(who["alice"], b.merge_body(models, gpu_count=5))
    assert [(each.fields, each.starts_at) for each in plan.alternatives] == [({"gpu_count": 4}, b.later(3600))]


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"gpu_memory_min": "90GB"}, {"gpu_memory_min": "76294MiB"}),
        ({"affinity": {"required": [{"key": "rack_id", "op": "In", "values": ["r9"]}]}}, {"affinity": None}),
    ],
)
def test_what_could_never_run_for_its_memory_or_rules_is_told_what_would(who, models, more, fields):
    plan = planned(who["alice"], b.merge_body(models, **more))
    assert (plan.verdict, [each.fields for each in plan.alternatives]) == ("never", [fields])


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


def test_a_job_that_would_leave_is_offered_a_later_latest_start_and_then_starts_in_time(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="1h")
    body = b.merge_body(models, gpu_count=4, start_by="2026-03-02T12:30:00Z")
    plan = planned(who["alice"], body)
    assert [(each.fields, each.starts_at) for each in plan.alternatives] == [
        ({"start_by": "2026-03-02T13:01:00Z"}, b.later(3600))
    ]
    again = planned(who["alice"], {**body, **plan.alternatives[0].fields})
    assert ("EXPIRES" in codes(plan), codes(again), again.start.high) == (True, ["BUSY"], b.later(3600))


def one_free_on_each_of_two_nodes(who, models) -> None:
    b.node("n2")
    for name in ("n1", "n2"):
        b.running(who["alice"], models, gpu_count=3, node=name)


def test_a_job_is_offered_gpus_of_several_nodes_where_one_node_is_short_of_them(who, models):
    one_free_on_each_of_two_nodes(who, models)
    body = b.command_body(gpu_count=2)
    plan = planned(who["alice"], body)
    found = {each.change: each for each in plan.alternatives}["GPUs spread over any nodes"]
    assert (codes(plan), found.starts_at) == (["FRAGMENTED"], b.NOON)
    assert planned(who["alice"], {**body, **found.fields}).verdict == "now"


@pytest.mark.parametrize(
    "more", [{"node_count": 1, "gpus_per_node": 2}, {"gpus_per_node": 2}, {"required_level": "rack"}]
)
def test_such_an_offer_takes_back_what_would_contradict_it(who, models, more):
    one_free_on_each_of_two_nodes(who, models)
    body = b.command_body(gpu_count=2, **more)
    fields = [each.fields for each in planned(who["alice"], body).alternatives if "allow_span" in each.fields]
    assert planned(who["alice"], {**body, **fields[0]}).verdict == "now"


def test_a_job_of_a_kind_that_lies_on_one_node_is_not_offered_several(who, models):
    one_free_on_each_of_two_nodes(who, models)
    plan = planned(who["alice"], b.merge_body(models, gpu_count=2))
    assert (codes(plan), [each.fields.get("allow_span") for each in plan.alternatives]) == (["FRAGMENTED"], [None])


def test_a_waiting_job_is_offered_several_nodes_if_its_kind_may_have_them(who, models):
    one_free_on_each_of_two_nodes(who, models)
    job = b.submitted(who["alice"], b.command_body(gpu_count=2))
    b.ticked()
    offers = {kind: [each.name for each in whatif.foretell(job, b.NOON, kind=kind).alternatives]
              for kind in ("command", "merge")}  # fmt: skip
    assert offers == {"command": ["gpus_at_most", "spread"], "merge": ["gpus_at_most"]}


def test_a_gang_of_one_rack_that_is_offered_one_node_is_not_kept_to_a_rack(who, models):
    b.node("n2")
    b.running(who["alice"], models, gpu_count=4)
    plan = planned(who["alice"], b.command_body(gpu_count=8, node_count=2, required_level="rack"))
    told = "at most 1 node, so 4 GPUs instead of 8, and without required_level"
    fields = next(each.fields for each in plan.alternatives if each.change == told)
    assert fields == {"gpu_count": 4, "node_count": 1, "gpus_per_node": 4, "required_level": None}


def test_nor_is_one_that_the_pool_could_never_hold(who):
    plan = planned(who["alice"], b.command_body(node_count=2, gpus_per_node=4, required_level="rack"))
    assert plan.alternatives[0].fields == {"gpu_count": 4, "node_count": 1, "required_level": None}
    assert plan.alternatives[0].change == "at most 4 GPUs and at most 1 node, and without required_level"
