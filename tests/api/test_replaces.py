"""A job in the place of a waiting one over REST: submitted, planned, refused, and shown."""

from __future__ import annotations

import pytest

from scheduling.api.shapes import jobs as job_shapes
from scheduling.api.shapes import plan as shapes
from scheduling.models import Job
from tests import builders as b
from tests.api.calls import error, problem, world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_noon(monkeypatch, no_outlook):
    """The clock of every door stands at noon, and no outlook is kept from the test before."""
    monkeypatch.setattr("scheduling.api.door.now", lambda: b.NOON)


@pytest.fixture
def waits():
    """The world, and a job of alice's for all 4 GPUs, submitted a minute before noon."""
    w = world()
    return w, b.submitted(w.who["alice"], w.body(gpu_count=4, name="first"), now=b.later(-60))


def test_a_job_is_submitted_in_the_place_of_another_and_both_tell(waits):
    w, old = waits
    answer = w.alice.post("jobs/", w.body(replaces=old))
    new = answer.json()
    assert (answer.status_code, new["replaces"], new["replaced_by"]) == (201, old, None)
    assert new["submitted_at"] == "2026-03-02T11:59:00Z"
    gone = w.alice.get(f"jobs/{old}/").json()
    assert (gone["state"], gone["replaces"], gone["replaced_by"]) == ("CANCELLED", None, new["id"])
    rows = w.alice.get("jobs/").json()["results"]
    assert {row["id"]: row["replaced_by"] for row in rows} == {old: new["id"], new["id"]: None}
    assert {"replaces", "replaced_by"} <= job_shapes.JobShape().fields.keys()


def test_the_events_tell_it_to_programs(waits):
    w, old = waits
    new = w.alice.post("jobs/", w.body(replaces=old)).json()["id"]
    told = [w.alice.get(f"jobs/{job}/events/").json()["results"][-1]["data"] for job in (old, new)]
    assert told[0] == {"from": "QUEUED", "to": "CANCELLED", "replaced_by": new}
    assert (told[1]["replaces"], told[1]["since"]) == (old, "2026-03-02T11:59:00+00:00")


def test_a_job_that_can_not_be_replaced_is_422_with_every_other_fault(waits):
    w, old = waits
    b.ticked()
    answer = w.alice.post("jobs/", w.body(replaces=old, gpu_count=0))
    assert "cancel it first" in error(answer, 422, "replaces", "already_started")["message"]
    error(answer, 422, "gpu_count", "out_of_range")
    assert Job.objects.get(pk=old).state == "DISPATCHING"


def test_another_projects_job_is_unknown(waits):
    w, old = waits
    bob = w.caller("bob")
    error(bob.post("jobs/", b.command_body(project="beta", replaces=old)), 422, "replaces", "unknown_job")


@pytest.mark.parametrize("given", [7, 10**400, True, ["x"], {"id": "x"}, "\ud800", "a\x00b", "", "x" * 10_000])
def test_what_is_no_id_is_refused_by_its_name(waits, given):
    w, _ = waits
    error(w.alice.post("jobs/", w.body(replaces=given)), 422, "replaces", "not_a_job_id")


def test_null_replaces_nothing(waits):
    w, old = waits
    assert w.alice.post("jobs/", w.body(replaces=None)).json()["replaces"] is None
    assert Job.objects.get(pk=old).state == "QUEUED"


def test_who_may_only_read_replaces_nothing(waits):
    w, old = waits
    problem(w.caller("alice", "jobs:read").post("jobs/", w.body(replaces=old)), 403)
    assert Job.objects.get(pk=old).state == "QUEUED"


def test_sent_again_with_its_key_it_is_the_same_job(waits):
    w, old = waits
    first, again = (w.alice.post("jobs/", w.body(replaces=old), Idempotency_Key="k") for _ in range(2))
    assert (first.status_code, again.status_code, again.json()["id"]) == (201, 200, first.json()["id"])


def test_it_is_planned_at_the_place_and_submitted_with_the_token(waits):
    w, old = waits
    found = w.alice.post("jobs/plan/", w.body(replaces=old)).json()
    assert found.keys() == shapes.PlanShape().fields.keys()
    assert found["replaces"].keys() == shapes.InPlaceOfShape().fields.keys()
    assert found["replaces"] == {
        "job": old,
        "name": "first",
        "keeps_place": True,
        "new_place_because": None,
        "begins_anew_because": None,
        "held": False,
    }
    assert (found["verdict"], Job.objects.count()) == ("now", 1)
    answer = w.alice.post("jobs/", w.body(replaces=old, plan_token=found["plan_token"]))
    assert answer.status_code == 201


def test_the_plan_of_a_larger_job_says_that_it_takes_a_new_place_and_why(waits):
    w, old = waits
    found = w.alice.post("jobs/plan/", w.body(replaces=old, max_duration="2h")).json()["replaces"]
    assert (found["keeps_place"], found["new_place_because"]) == (False, "it asks for 2 h instead of 1 h")


def test_a_plan_of_what_would_never_start_names_the_job_that_it_would_leave_alone(waits):
    w, old = waits
    found = w.alice.post("jobs/plan/", w.body(replaces=old, gpu_count=4000)).json()
    because = "it would be refused, so that nothing is cancelled"
    told = {
        "job": old,
        "name": "first",
        "keeps_place": False,
        "new_place_because": because,
        "begins_anew_because": None,
        "held": False,
    }
    assert (found["verdict"], found["replaces"]) == ("never", told)


def test_a_clone_of_it_replaces_nothing(waits):
    w, old = waits
    new = w.alice.post("jobs/", w.body(replaces=old)).json()["id"]
    clone = w.alice.post(f"jobs/{new}/clone/")
    assert (clone.status_code, clone.json()["replaces"]) == (201, None)
