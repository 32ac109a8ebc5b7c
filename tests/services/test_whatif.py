"""What would happen to one job more, and what is expected of those that wait: nothing is stored by asking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.models import Event, Job, Membership
from scheduling.services import jobs, outlook, pool, whatif
from scheduling.services.whatif import Planned, Unplannable
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.queries import jobs as queries
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
    assert [change.fields for change in plan.alternatives] == [{"gpu_count": 2}]
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


@pytest.mark.parametrize(
    "more",
    [
        {"with": {"group": "nobody", "level": "rack"}},
        {"with": {"group": "red", "level": "rack"}},
        {"anti_affinity": {"group": "red", "level": "node"}},
        {"group": "red", "with": {"group": "red", "level": "node"}},
        {"not_before": "2026-03-02T12:30:10Z"},
        {"not_before": "2026-03-02T13:30:10Z"},
        {},
    ],
)
def test_the_plan_and_the_submitted_job_are_told_the_same_while_the_pool_is_full(who, models, more):
    b.running(who["alice"], models, gpu_count=4, group="red")
    body = b.merge_body(models, **more)
    plan = planned(who["alice"], body)
    job = b.submitted(who["alice"], body)
    b.ticked()
    found = whatif.foretell(job, b.NOON)
    assert (plan.start, codes(plan)) == (found.start, codes(found))
    assert plan.alternatives == whatif.changes(found.alternatives, b.NOON)


def test_keeping_apart_from_jobs_everywhere_has_an_estimate_when_they_end(who, models):
    b.running(who["alice"], models, gpu_count=1, group="red", max_duration="30m")
    plan = planned(who["alice"], b.merge_body(models, anti_affinity={"group": "red", "level": "node"}))
    assert (plan.verdict, plan.start.low, codes(plan)) == ("later", b.later(1800), ["RULE"])


def test_an_estimate_is_never_told_as_after_the_start_nor_its_end_as_before(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration=3599)
    job = b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.low, found.start.high) == (b.later(3540), b.later(3600))
    assert found.reasons[0]["numbers"]["earliest_at_ms"] == to_ms(found.start.low)


def test_an_estimate_does_not_lie_in_the_past(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration=70)
    job = b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    found = whatif.foretell(job, b.later(65))
    assert (found.start.low, found.start.at, found.start.high) == (b.later(65), b.later(65), b.later(120))


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


def test_a_job_that_is_to_start_later_starts_no_sooner_though_gpus_are_free(who, models):
    plan = planned(who["alice"], b.merge_body(models, not_before="2026-03-02T14:00:00Z"))
    assert (plan.verdict, codes(plan), plan.start.low) == ("later", ["NOT_BEFORE"], b.later(7200))


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


def test_a_waiting_jobs_estimate_follows_the_time_limit_of_what_runs(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="2h")
    job = b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.at, found.start.low, found.start.as_of) == (b.later(7200), b.later(7200), b.NOON)
    assert (found.rank, found.promised) == (1, True)


def test_a_job_that_the_next_pass_starts_is_expected_now(who, models):
    job = b.submitted(who["alice"], b.merge_body(models))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.low, found.start.high, found.alternatives) == (b.NOON, b.NOON, ())


def test_a_job_that_runs_is_not_foretold(who, models):
    run = b.running(who["alice"], models)
    assert whatif.foretell(run.job, b.NOON) is None


def test_a_job_with_a_time_of_its_own_is_expected_no_sooner(who, models):
    job = b.submitted(who["alice"], b.merge_body(models, not_before="2026-03-02T14:00:00Z"))
    assert whatif.foretell(job, b.NOON).start.low == b.later(7200)


def test_a_job_without_a_place_in_the_pool_has_no_estimate(who, models):
    job = b.submitted(who["alice"], b.merge_body(models))
    pool.operate("n1", "cordon", who["admin"], b.NOON)
    assert whatif.foretell(job, b.NOON).start is None


def looks(monkeypatch) -> list[int]:
    """One entry for each snapshot that is read from now on; a slow one is not spared, however busy we are."""
    read, made = load.snapshot, []
    monkeypatch.setattr(outlook, "SPARING", 0.0)
    monkeypatch.setattr(load, "snapshot", lambda now: made.append(1) or read(now))
    return made


def test_one_outlook_serves_until_something_happens(who, models, monkeypatch):
    made = looks(monkeypatch)
    body = b.merge_body(models)
    planned(who["alice"], body)
    planned(who["alice"], body, b.later(4))
    assert len(made) == 1
    b.submitted(who["alice"], body)
    planned(who["alice"], body, b.later(4))
    assert len(made) == 2


def test_an_outlook_is_not_used_for_longer_than_five_seconds(who, models, monkeypatch):
    made = looks(monkeypatch)
    planned(who["alice"], b.merge_body(models))
    planned(who["alice"], b.merge_body(models), b.later(6))
    assert len(made) == 2


def test_a_new_job_is_foretold_though_the_outlook_there_is_would_still_serve(who, models, monkeypatch):
    first = b.submitted(who["alice"], b.merge_body(models))
    whatif.foretell(first, b.NOON)
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    second = b.submitted(who["alice"], b.merge_body(models))
    assert whatif.foretell(second, b.NOON).start is not None


def test_explanations_of_a_large_queue_spare_the_server(who, models, monkeypatch):
    job = b.submitted(who["alice"], b.merge_body(models))
    whatif.foretell(job, b.NOON)
    b.submitted(who["alice"], b.merge_body(models))
    made = looks(monkeypatch)
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    whatif.foretell(job, b.later(60))
    assert made == []


def test_plans_of_a_large_queue_spare_the_server_but_promises_are_kept_as_of_now(who, models, monkeypatch):
    monkeypatch.setattr(outlook, "SPARING", 1e9)
    monkeypatch.setattr(outlook, "DEAR_S", 0.0)
    body = b.merge_body(models, gpu_count=4)
    token = planned(who["alice"], body).token
    b.running(who["alice"], models)
    assert planned(who["alice"], body, b.later(60)).verdict == "now"
    assert broken(token, body, who["alice"], b.later(60)) is not None


def broken(token, body, actor, now=b.NOON):
    return whatif.broken_promise(token, body, actor, now)


def test_a_promise_holds_while_nothing_has_changed(who, models):
    body = b.merge_body(models)
    token = planned(who["alice"], body).token
    assert broken(token, body, who["alice"], b.later(599)) is None


def test_a_promise_is_broken_when_the_gpus_have_gone_to_others(who, models):
    body = b.merge_body(models, gpu_count=4)
    token = planned(who["alice"], body).token
    b.running(who["alice"], models)
    assert "it would start now and now later" in broken(token, body, who["alice"])


def test_a_promise_is_broken_when_other_jobs_would_have_to_go(who, models):
    b.node("n2")
    runs = [b.running(who["alice"], models, gpu_count=4, node=node) for node in ("n1", "n2")]
    body = b.merge_body(models, priority="Critical", purpose="regression_gate", gpu_count=4)
    plan = planned(who["admin"], body, b.later(100))
    spared = next(run for run in runs if run.job != plan.victims[0]["job"])
    gone = next(run for run in runs if run.job == plan.victims[0]["job"])
    b.finished(gone, now=b.later(101))
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4), now=b.later(102))
    b.ticked(b.later(103))
    again = planned(who["admin"], body, b.later(200))
    assert again.victims[0]["job"] != plan.victims[0]["job"]
    assert spared.job != gone.job
    assert "other jobs would have to make room" in broken(plan.token, body, who["admin"], b.later(200))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda token, body, who: (token, {**body, "gpu_count": 1}, who["alice"], b.NOON), "another body or person"),
        (lambda token, body, who: (token, body, who["admin"], b.NOON), "another body or person"),
        (lambda token, body, who: (token, body, who["alice"], b.later(601)), "older than 10 minutes"),
        (lambda token, body, who: (token[:-2] + "xx", body, who["alice"], b.NOON), "none of ours"),
    ],
)
def test_a_token_is_good_for_ten_minutes_one_body_and_one_person(who, models, change, says):
    body = b.merge_body(models)
    token = planned(who["alice"], body).token
    assert says in broken(*change(token, body, who))
