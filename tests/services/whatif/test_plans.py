"""What would happen to one job more: nothing is stored by asking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.api import plan as api
from scheduling.models import Event, Job, Membership
from scheduling.services import jobs, whatif
from scheduling.services.whatif import Unplannable
from scheduling.store.queries import jobs as queries
from tests import builders as b

from .asking import codes, planned

pytestmark = pytest.mark.django_db


def test_on_a_free_pool_it_starts_now_on_the_gpus_that_it_then_gets(who, models):
    body = b.merge_body(models)
    plan = planned(who["alice"], body)
    b.submitted(who["alice"], body)
    b.ticked()
    given = Job.objects.get().attempts.get().allocations.values_list("gpu__uuid", flat=True)
    assert (plan.verdict, plan.start.at, plan.start.high) == ("now", b.NOON, b.NOON)
    assert {gpu["uuid"] for gpu in plan.gpus} == set(given)


def test_asking_stores_nothing(who, models):
    before = Event.objects.count(), Job.objects.count()
    planned(who["alice"], b.merge_body(models))
    whatif.plan({"kind": "merge"}, who["alice"], b.NOON)
    assert (Event.objects.count(), Job.objects.count()) == before


def test_on_a_full_pool_it_starts_later_and_every_alternative_starts_now(who, models):
    b.running(who["alice"], models, gpu_count=2, max_duration="1h")
    body = b.merge_body(models, gpu_count=4)
    plan = planned(who["alice"], body)
    assert (plan.verdict, plan.start.low) == ("later", b.later(3600))
    assert [change.fields["gpu_count"] for change in plan.alternatives] == [2]
    assert planned(who["alice"], {**body, **plan.alternatives[0].fields}).verdict == "now"


def test_its_gpu_hours_and_what_they_do_to_the_share_agree(who, models):
    plan = planned(who["alice"], b.merge_body(models, max_duration="90m"))
    project = plan.share["project"]
    assert plan.gpu_hours == 3.0
    assert project["used_after_gpu_h"] - project["used_before_gpu_h"] == pytest.approx(3.0)
    assert project["score_after"] < project["score_before"]


def test_what_the_pool_could_never_hold_is_never_with_the_limit(who, models):
    plan = planned(who["alice"], b.merge_body(models, gpu_count=5))
    assert (plan.verdict, codes(plan), plan.token) == ("never", ["NO_NVLINK_GROUP"], "")
    assert plan.reasons[0]["numbers"] == {"field": "gpu_count", "limit": 4}


def test_a_body_that_is_wrong_gets_the_errors_of_a_submission(who, models):
    body = b.merge_body(models, gpu_count=5, priority="Huge")
    found = whatif.plan(body, who["alice"], b.NOON)
    refused = jobs.submit(body, who["alice"], b.NOON)
    assert isinstance(found, Unplannable)
    assert found.errors == refused.errors


def test_without_any_node_it_waits_for_the_first():
    people = b.people()
    models = [b.model(people["alice"], "a", 1), b.model(people["alice"], "b", 2)]
    plan = planned(people["alice"], b.merge_body(models))
    assert (plan.verdict, codes(plan), plan.start) == ("later", ["NO_NODES"], None)
    assert plan.gpu_hours == 2.0  # of GPUs that nobody knows yet, so their weight counts as 1


def test_what_can_not_be_submitted_is_not_promised(who, models):
    b.node("n2")
    plan = planned(who["alice"], b.merge_body(models, nvlink_required=False, gpu_count=8))
    assert (plan.verdict, codes(plan), plan.token, plan.start, plan.gpus) == ("never", ["ONE_NODE_ONLY"], "", None, ())
    assert plan.reasons[0]["numbers"] == {"field": "gpu_count", "limit": 4}


def test_a_job_over_several_nodes_is_planned_on_them(who):
    b.node("n2")
    plan = planned(who["alice"], b.command_body(gpu_count=8, node_count=2))
    assert (plan.verdict, codes(plan), bool(plan.token)) == ("now", [], True)
    assert {gpu["node"] for gpu in plan.gpus} == {"n1", "n2"}


def test_a_job_that_can_not_start_in_time_is_told_when_it_would_leave(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="2h")
    plan = planned(who["alice"], b.merge_body(models, start_by="2026-03-02T13:00:00Z"))
    assert (plan.verdict, codes(plan)[0]) == ("later", "EXPIRES")
    assert "It leaves the queue on 2 Mar 2026, 13:00 UTC" in plan.reasons[0]["message"]


def test_a_waiting_job_that_can_not_start_in_time_has_the_reason_in_the_store(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="2h")
    late, patient = (b.submitted(who["alice"], b.merge_body(models, **more))
                     for more in ({"start_by": "2026-03-02T13:00:00Z"}, {}))  # fmt: skip
    b.ticked()
    holds = queries.holds_now()
    told = [[r["code"] for r in queries.as_dict(Job.objects.get(pk=each), holds=holds, now=b.NOON)["reasons"]]
            for each in (late, patient)]  # fmt: skip
    assert told == [["EXPIRES", "BUSY"], ["BUSY"]]


def test_a_critical_job_is_told_whom_it_would_evict_and_what_that_costs(who, models):
    run = b.running(who["alice"], models, gpu_count=4)
    body = b.merge_body(models, priority="Critical", purpose="regression_gate", gpu_count=4)
    plan = planned(who["admin"], body, b.later(600))
    assert plan.verdict == "now"
    assert [(each["job"], each["name"], each["gpus"]) for each in plan.victims] == [(run.job, "slerp-a-b", 4)]
    assert plan.victims[0]["lost_gpu_s"] == 4 * (600 + 120)  # since its start, and the time to restore
    assert plan.start.high == b.later(600 + 120)  # the grace in which they save


def test_a_victim_of_another_project_has_no_name(who, models):
    b.running(who["alice"], models, gpu_count=4)
    theirs = [b.model(who["bob"], "c", 3, project="beta"), b.model(who["bob"], "d", 4, project="beta")]
    body = b.merge_body(theirs, project="beta", priority="Critical", purpose="regression_gate", gpu_count=4)
    Membership.objects.filter(user_id=who["bob"].user_id).update(level_cap=4)
    plan = planned(replace(who["bob"], may_critical=True), body, b.later(600))
    assert [(each["job"], each["name"], each["gpus"]) for each in plan.victims] == [(None, None, 4)]


def test_a_waiting_job_is_told_of_other_jobs_as_its_plan_was(who, models):
    b.node("n2")
    b.running(who["alice"], models, gpu_count=2)
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    b.ticked()
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4), now=b.later(1))
    body = b.merge_body(models, gpu_count=2, max_duration="3h")
    plan = planned(who["alice"], body, b.later(2))
    row = Job.objects.get(pk=b.submitted(who["alice"], body, now=b.later(2)))
    job = queries.as_dict(row, now=b.later(2))
    hers, his = (api.foretold(job, who[name], b.later(2))["reasons"] for name in ("alice", "bob"))
    assert list(plan.reasons) == hers
    assert ["held_for" in told[0]["numbers"] for told in (hers, his)] == [True, False]


def test_a_reason_does_not_tell_the_id_of_another_projects_job(who, models):
    b.node("n2")
    b.running(who["alice"], models, gpu_count=2)
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    theirs = [b.model(who["bob"], "c", 3, project="beta"), b.model(who["bob"], "d", 4, project="beta")]
    body = {"project": "beta", "gpu_count": 2, "max_duration": "3h"}
    hers = planned(who["alice"], b.merge_body(models, gpu_count=2, max_duration="3h"))
    his = planned(who["bob"], b.merge_body(theirs, **body))
    told = [{name for reason in plan.reasons for name in reason["numbers"]} for plan in (hers, his)]
    assert ["held_for" in names for names in told] == [True, False]
    assert not told[1] & set(whatif.JOB_NUMBERS)
