"""Closing nodes for a time over REST: what is kept, who may, what is refused, and that the scheduler obeys."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from scheduling.api.shapes.pool import WindowShape
from scheduling.models import Event, Job, Window
from tests import builders as b
from tests.api.calls import error, problem, world

pytestmark = pytest.mark.django_db


def text(hours: float) -> str:
    """An instant so many hours from now; REST asks the real clock."""
    return (timezone.now() + timedelta(hours=hours)).isoformat()


def body(**changed):
    return {"name": "new racks", "nodes": ["n1"], "start": text(1), "end": text(3), **changed}


def test_a_window_is_made_listed_and_removed():
    w = world()
    admin = w.caller("admin")
    made = admin.post("pool/windows/", body(note="power", project="beta"))
    assert (made.status_code, made.json()["nodes"], made.json()["project"]) == (201, ["n1"], "beta")
    assert made.json().keys() == WindowShape().fields.keys()
    assert [each["id"] for each in admin.get("pool/windows/").json()["results"]] == [made.json()["id"]]
    assert admin.delete(f"pool/windows/{made.json()['id']}/").status_code == 204
    assert admin.get("pool/windows/").json()["results"] == []


def test_whose_window_it_is_is_told_to_those_who_know_the_project():
    w = world()
    w.caller("admin").post("pool/windows/", body(project="beta", note="demo day"))
    (seen,) = w.alice.get("pool/windows/").json()["results"]
    assert (seen["reserved"], seen["nodes"], seen["name"], seen["project"], seen["note"]) == (
        True, ["n1"], "reserved", None, "",
    )  # fmt: skip
    (own,) = w.caller("bob").get("pool/windows/").json()["results"]
    assert (own["name"], own["project"], own["note"]) == ("new racks", "beta", "demo day")


def test_a_window_that_has_ended_is_not_listed():
    w = world()
    Window.objects.create(name="past", start=b.NOON, end=b.later(1), created_at=b.NOON)
    assert w.alice.get("pool/windows/").json()["results"] == []


@pytest.mark.parametrize(("call", "kind"), [("post", "window_added"), ("delete", "window_removed")])
def test_every_change_of_a_window_is_an_event(call, kind):
    w = world()
    made = w.caller("admin").post("pool/windows/", body()).json()
    if call == "delete":
        w.caller("admin").delete(f"pool/windows/{made['id']}/")
    event = Event.objects.filter(object="window", type=kind).get()
    assert (event.object_id, event.actor, "n1 closed to all jobs" in event.message) == (
        str(made["id"]), "user admin", True,
    )  # fmt: skip


def test_closing_nodes_needs_the_permission_beside_the_scope():
    w = world()
    problem(w.alice.post("pool/windows/", body()), 403, "permission_denied")
    problem(w.alice.delete("pool/windows/1/"), 403, "permission_denied")


def test_a_window_that_is_not_there_is_404():
    problem(world().caller("admin").delete("pool/windows/9/"), 404, "not_found")


@pytest.mark.parametrize(
    ("changed", "field", "code"),
    [
        ({"name": None}, "name", "required"),
        ({"name": "a/b"}, "name", "bad_character"),
        ({"nodes": None}, "nodes", "not_a_list"),
        ({"nodes": []}, "nodes", "not_a_list"),
        ({"nodes": "n1"}, "nodes", "not_a_list"),
        ({"nodes": ["n1", "n2"]}, "nodes.1", "unknown_node"),
        ({"nodes": [["n1"]]}, "nodes.0", "unknown_node"),
        ({"nodes": ["n1", "n1"]}, "nodes.1", "given_twice"),
        ({"end": "9999-12-31T23:59:59Z"}, "end", "bad_instant"),
        ({"name": ""}, "name", "empty"),
        ({"project": ""}, "project", "unknown_project"),
        ({"start": None}, "start", "required"),
        ({"start": "soon"}, "start", "bad_instant"),
        ({"end": None}, "end", "required"),
        ({"end": "2020-01-01T00:00:00Z"}, "end", "in_the_past"),
        ({"end": text(1), "start": text(2)}, "end", "before_start"),
        ({"project": "gamma"}, "project", "unknown_project"),
        ({"project": 7}, "project", "unknown_project"),
        ({"note": "x" * 401}, "note", "bad_note"),
        ({"note": "a\nb"}, "note", "bad_note"),
        ({"nots": "x"}, "nots", "unknown_field"),
    ],
)
def test_a_window_that_can_not_be_is_refused_beside_the_field(changed, field, code):
    error(world().caller("admin").post("pool/windows/", body(**changed)), 422, field, code)


def test_everything_wrong_with_a_window_is_told_at_once():
    answer = world().caller("admin").post("pool/windows/", {"colour": "red", "nodes": ["n7"], "end": "x"})
    assert [e["field"] for e in problem(answer, 422)["errors"]] == ["colour", "name", "nodes.0", "end", "start"]


@pytest.mark.parametrize(
    ("project", "hours", "state"),
    [(None, "1h", "DISPATCHING"), (None, "3h", "QUEUED"), ("beta", "3h", "QUEUED"), ("alpha", "3h", "DISPATCHING")],
)
def test_no_job_starts_that_would_run_into_a_window_but_those_of_its_project(project, hours, state):
    w = world()
    start, end = b.later(2 * 3600), b.later(9 * 3600)
    w.caller("admin").post("pool/windows/", body(project=project))
    Window.objects.update(start=start, end=end)
    job = b.submitted(w.who["alice"], w.body(max_duration=hours))
    b.ticked()
    assert Job.objects.get(pk=job).state == state


def test_nothing_that_tells_why_a_job_waits_names_a_window_of_another_project():
    w = world()
    reserved = {"nodes": ["n1"], "start": text(-1), "end": text(9), "project": "beta"}
    for name in ("beta-demo", "beta-demo, 2"):
        w.caller("admin").post("pool/windows/", body(name=name, **reserved))
    job = b.submitted(w.who["alice"], w.body())
    now = timezone.now()
    b.beat("n1", now=now)
    b.ticked(now)
    page = Client()
    page.force_login(get_user_model().objects.get(username="alice"), "django.contrib.auth.backends.ModelBackend")
    for seen in (
        w.alice.get(f"jobs/{job}/").json(),
        w.alice.get("jobs/").json()["results"][0],
        w.alice.post("jobs/plan/", w.body()).json(),
    ):
        assert "2 windows reserved for others close the GPUs" in seen["reasons"][0]["message"]
        assert "demo" not in json.dumps(seen)
    assert b"demo" not in page.get(f"/jobs/{job}/").content
