"""Plans over REST: what would happen, being held to it, what is expected of a waiting job, and replays."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduling.api.shapes import plan as shapes
from scheduling.models import Job
from scheduling.services import outlook, replay
from scheduling.simulation.comparison import compare
from tests import builders as b
from tests.api.calls import Caller, error, problem, token, world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_noon(monkeypatch, no_outlook):
    """The clock of every door stands at noon, and no outlook is kept from the test before."""
    monkeypatch.setattr("scheduling.api.door.now", lambda: b.NOON)


def test_a_plan_has_exactly_the_documented_members():
    w = world()
    found = w.alice.post("jobs/plan/", w.body()).json()
    assert found.keys() == shapes.PlanShape().fields.keys()
    assert found["start"].keys() == shapes.SpanShape().fields.keys()
    assert found["share"]["project"].keys() == shapes.LedgerEffectShape().fields.keys()
    assert (found["verdict"], len(found["gpus"]), Job.objects.count()) == ("now", 2, 0)


def test_a_plan_for_later_has_the_range_and_the_changes_that_help():
    w = world()
    b.running(w.who["alice"], w.models, gpu_count=2)
    found = w.alice.post("jobs/plan/", w.body(gpu_count=4)).json()
    assert (found["verdict"], found["start"]["low"]) == ("later", "2026-03-02T13:00:00Z")
    assert found["alternatives"] == [
        {
            "change": "at most 2 GPUs",
            "starts_at": "2026-03-02T12:00:00Z",
            "fields": {"gpu_count": 2, "node_count": None, "gpus_per_node": None},
        }
    ]


def test_a_body_that_is_no_job_can_not_be_planned():
    w = world()
    error(w.alice.post("jobs/plan/", w.body(gpu_countt=4)), 422, "gpu_countt", "unknown_field")


def test_what_would_never_fit_is_no_error_but_an_answer():
    w = world()
    found = w.alice.post("jobs/plan/", w.body(gpu_count=5)).json()
    assert (found["verdict"], found["plan_token"], found["start"]) == ("never", None, None)


def test_what_to_ask_for_where_the_required_rules_hold_is_told_as_fields_to_programs():
    w = world()
    b.node("n2", gpus=2)
    body = w.body(gpu_count=4, affinity={"required": [{"key": "node", "op": "In", "values": ["n2"]}]})
    refused = error(w.alice.post("jobs/", body), 422, "affinity.required", "unsatisfiable_rule")
    assert refused["limits"] == {"gpu_count": 2}
    assert "limit" not in refused
    (reason,) = w.alice.post("jobs/plan/", body).json()["reasons"]
    assert reason["code"] == "UNSATISFIABLE_RULE"
    assert reason["numbers"] == {"field": "affinity.required", "limits": {"gpu_count": 2}}
    assert w.alice.post("jobs/", {**body, **refused["limits"]}).status_code == 201


def test_a_job_is_submitted_with_the_token_of_its_plan():
    w = world()
    given = w.alice.post("jobs/plan/", w.body()).json()["plan_token"]
    assert w.alice.post("jobs/", w.body(plan_token=given)).status_code == 201


def test_a_plan_that_has_changed_is_a_conflict_and_submits_nothing():
    w = world()
    given = w.alice.post("jobs/plan/", w.body(gpu_count=4)).json()["plan_token"]
    b.running(w.who["alice"], w.models)
    found = problem(w.alice.post("jobs/", w.body(gpu_count=4, plan_token=given)), 409, "plan_changed")
    assert "by the plan it would start at once, now it would have to wait" in found["detail"]
    assert Job.objects.count() == 1


def test_a_token_of_another_body_is_a_conflict():
    w = world()
    given = w.alice.post("jobs/plan/", w.body()).json()["plan_token"]
    error(w.alice.post("jobs/", w.body(gpu_count=1, plan_token=given)), 409, "plan_token", "plan_changed")


@pytest.mark.parametrize(("given", "status"), [("nonsense", 409), (None, 201)])
def test_a_token_that_is_none_is_a_conflict_or_as_good_as_left_out(given, status):
    w = world()
    assert w.alice.post("jobs/", w.body(plan_token=given)).status_code == status


@pytest.mark.parametrize("given", [7, 10**30, True, ["x"], {"token": "x"}, "\ud800", "a\x00b"])
def test_a_token_that_is_no_text_is_refused_by_its_name(given):
    w = world()
    found = error(w.alice.post("jobs/", w.body(plan_token=given)), 422, "plan_token", "not_text")
    assert "plan again, or leave it out" in found["message"]
    assert Job.objects.count() == 0


def test_sent_twice_with_a_key_a_planned_job_is_made_once_though_its_plan_has_changed_by_itself():
    w = world()
    body = w.body(gpu_count=4, plan_token=w.alice.post("jobs/plan/", w.body(gpu_count=4)).json()["plan_token"])
    first = w.alice.post("jobs/", body, Idempotency_Key="k")
    b.ticked()
    again = w.alice.post("jobs/", body, Idempotency_Key="k")
    assert (first.status_code, again.status_code, again.json()["id"]) == (201, 200, first.json()["id"])


def waiting() -> tuple[Caller, str]:
    """A job for 4 GPUs that waits behind one that has 2 of them for an hour."""
    w = world()
    b.running(w.who["alice"], w.models, gpu_count=2)
    job = b.submitted(w.who["alice"], w.body(gpu_count=4))
    b.ticked()
    return w.alice, job


def test_a_waiting_job_tells_why_when_and_what_would_help():
    alice, job = waiting()
    found = alice.get(f"jobs/{job}/").json()
    assert [reason["code"] for reason in found["reasons"]] == ["BUSY"]
    assert found["estimated_start"] == {
        "at": "2026-03-02T13:00:00Z", "low": "2026-03-02T13:00:00Z", "high": "2026-03-02T13:00:00Z",
        "as_of": "2026-03-02T12:00:00Z",
    }  # fmt: skip
    assert [change["fields"] for change in found["alternatives"]] == [
        {"gpu_count": 2, "node_count": None, "gpus_per_node": None}
    ]


def test_a_waiting_gang_and_its_plan_tell_in_the_same_words_what_a_change_gives_up():
    w = world()
    b.node("n2")
    b.running(w.who["alice"], w.models, gpu_count=4)
    body = b.command_body(gpu_count=8, node_count=2, required_level="rack")
    planned = w.alice.post("jobs/plan/", body).json()["alternatives"]
    waiting_job = w.alice.get(f"jobs/{b.submitted(w.who['alice'], body)}/").json()["alternatives"]
    told = [
        [change["change"] for change in found if change["fields"].get("node_count")] for found in (planned, waiting_job)
    ]
    assert told == [["at most 1 node, so 4 GPUs instead of 8, and without required_level"]] * 2


def test_reasons_and_estimate_tell_the_same_instant(monkeypatch):
    # The answer is of 12:20:01, and a job that no pass has seen yet will have the free GPUs for an hour.
    w = world()
    b.running(w.who["alice"], w.models, gpu_count=2)
    job = b.submitted(w.who["alice"], w.body(gpu_count=4))
    b.ticked()
    b.submitted(w.who["alice"], w.body(gpu_count=2, priority="High"), now=b.later(1200))
    monkeypatch.setattr("scheduling.api.door.now", lambda: b.later(1201))
    found = w.alice.get(f"jobs/{job}/").json()
    numbers = next(reason["numbers"] for reason in found["reasons"] if "earliest_at_ms" in reason["numbers"])
    assert found["estimated_start"]["low"] == "2026-03-02T13:20:00Z"
    assert found["estimated_start"]["high"] == "2026-03-02T13:21:00Z"
    assert datetime.fromtimestamp(numbers["earliest_at_ms"] / 1000, UTC) == datetime(2026, 3, 2, 13, 20, tzinfo=UTC)


def test_a_list_of_jobs_does_not_ask_when_each_of_them_starts(monkeypatch):
    alice, _ = waiting()
    monkeypatch.setattr(outlook, "Outlook", None)
    rows = alice.get("jobs/?state=waiting").json()["results"]
    assert [(row["estimated_start"], row["alternatives"]) for row in rows] == [(None, [])]


def test_a_job_that_does_not_wait_has_no_estimate():
    w = world()
    run = b.running(w.who["alice"], w.models)
    found = w.alice.get(f"jobs/{run.job}/").json()
    assert (found["estimated_start"], found["alternatives"]) == (None, [])


@pytest.fixture
def played_here(monkeypatch):
    """Replays are played in this process, which needs no other one to start."""
    monkeypatch.setattr(replay, "apart", lambda change, limit_s: compare(change))


def test_an_operator_replays_the_queue_with_a_node_more(played_here):
    waiting()
    admin = Caller(token(b.people()["admin"], "admin"))
    found = admin.post("plan/replay/", {"add_nodes": [{"like": "n1", "count": 1}]}).json()
    assert found.keys() == shapes.ReplayShape().fields.keys()
    assert found["before"].keys() == shapes.SideShape().fields.keys()
    assert found["jobs"][0].keys() == shapes.MovedJobShape().fields.keys()
    assert (found["after"]["again"], found["stopped"], found["notes"]) == (
        {"jobs": 0, "started": 0, "mean_wait_s": None, "p95_wait_s": None}, [], [],
    )  # fmt: skip
    assert (found["before"]["mean_wait_s"], found["after"]["mean_wait_s"], found["sooner"]) == (3600.0, 0.0, 1)


def test_a_replay_lists_whom_it_stops_with_exactly_the_documented_members(played_here):
    waiting()
    admin = Caller(token(b.people()["admin"], "admin"))
    (row,) = admin.post("plan/replay/", {"faults": [{"node": "n1", "back_after_s": 60}]}).json()["stopped"]
    assert row.keys() == shapes.StoppedJobShape().fields.keys()
    assert (row["name"], row["stops_before"], row["stops_after"]) == ("slerp-a-b", 0, 1)


def test_a_policy_of_null_is_no_object():
    world()
    admin = Caller(token(b.people()["admin"], "admin"))
    found = error(admin.post("plan/replay/", {"policy": None}), 422, "policy", "not_an_object")
    assert found["message"] == 'policy must be an object like {"half_life_s": 86400}, not null'


def test_a_replay_with_an_unknown_change_names_the_nearest():
    waiting()
    admin = Caller(token(b.people()["admin"], "admin"))
    found = error(admin.post("plan/replay/", {"add_node": []}), 422, "add_node", "unknown_field")
    assert "add_nodes" in found["message"]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [(replay.Busy(), 409, "replay_running"), (replay.TooLong("it took too long", 60.0), 503, "replay_too_long")],
)
def test_a_replay_that_can_not_be_had_says_so(monkeypatch, answer, status, code):
    world()
    admin = Caller(token(b.people()["admin"], "admin"))
    monkeypatch.setattr(replay, "replay", lambda *_: answer)
    problem(admin.post("plan/replay/", {"remove_nodes": ["n1"]}), status, code)


def test_all_that_is_wrong_with_a_replay_is_told_at_once():
    b.node("n1", gpus=2)
    admin = Caller(token(b.people()["admin"], "admin"))
    body = {"polcy": {}, "remove_nodes": ["nope"], "policy": {"half_life_s": 10**40}, "job": {"name": "a\u0000"}}
    found = problem(admin.post("plan/replay/", body), 422)["errors"]
    said = [(each["field"], each["code"]) for each in found]
    assert len(said) == len(set(said))
    assert {
        ("polcy", "unknown_field"),
        ("remove_nodes.0", "no_such_node"),
        ("policy.half_life_s", "number_too_large"),
        ("job.name", "bad_character"),
        ("job.kind", "required"),
    } <= set(said)
    assert [each["message"] for each in found if each["field"] == "polcy"] == [
        "there is no field 'polcy' (did you mean 'policy'?); remove it"
    ]


def test_a_node_that_the_replay_removes_is_told_as_removed_wherever_it_is_named_again():
    b.node("n1", gpus=2)
    b.node("n2", gpus=2)
    admin = Caller(token(b.people()["admin"], "admin"))
    body = {"remove_nodes": ["n1"], "faults": [{"node": "n1"}], "add_nodes": [{"like": "n1", "count": 1}]}
    found = problem(admin.post("plan/replay/", body), 422)["errors"]
    told = "names n1, which remove_nodes takes away; name a node that stays, or leave n1 there"
    assert [(each["message"], each["limit"]) for each in found] == [
        (f"add_nodes.0.like {told}", ["n2"]),
        (f"faults.0.node {told}", ["n2"]),
    ]
