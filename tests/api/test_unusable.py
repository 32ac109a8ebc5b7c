"""Numbers beyond all bounds and broken texts over REST: 422 by the field, with every other fault, and kept nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.models import Job
from tests.api.calls import Caller, error, problem, world

pytestmark = pytest.mark.django_db
BROKEN = ["a\x00b", "a\ud800b"]


@pytest.mark.parametrize("number", [10**30, -(10**30), 10**400])
@pytest.mark.parametrize("field", ["gpu_count", "gpu_memory_min", "max_duration", "name", "retries"])
def test_a_huge_number_is_one_fault_among_the_others(field: str, number: int):
    w = world()
    found = problem(w.alice.post("jobs/", w.body(colour="red", **{field: number})), 422)["errors"]
    assert [e["field"] for e in found] == ["colour", field]
    assert field == "name" or found[1]["limit"] is not None


def test_a_number_beyond_a_float_is_refused_by_its_field():
    w = world()
    text = '{"kind": "merge", "project": "alpha", "gpu_count": 1e999, "params": {"t": 1e999}}'
    answer = w.alice.post("jobs/", text)
    error(answer, 422, "gpu_count", "not_a_whole_number")
    error(answer, 422, "params.t", "out_of_range")


@pytest.mark.parametrize("text", BROKEN, ids=["nul", "surrogate"])
@pytest.mark.parametrize(
    ("changed", "field", "code"),
    [
        (lambda t: {"name": t}, "name", "bad_character"),
        (lambda t: {"kind": t}, "kind", "unknown_kind"),
        (lambda t: {"project": t}, "project", "unknown_project"),
        (lambda t: {"queue": t}, "queue", "unknown_queue"),
        (lambda t: {"params": {"strategy": t}}, "params.strategy", "bad_character"),
        (lambda t: {"params": {"models": [t, "b"]}}, "params.models.0", "bad_character"),
        (lambda t: {"params": {"dtype": t}}, "params.dtype", "bad_character"),
        (lambda t: {"params": {"deep": [[{"er": t}]]}}, "params.deep.0.0.er", "bad_character"),
    ],
    ids=["name", "kind", "project", "queue", "strategy", "models", "dtype", "deep"],
)
def test_a_broken_text_is_refused_by_its_path_and_never_asked_of_the_database(
    text: str, changed: Any, field: str, code: str
):
    w = world()
    with CaptureQueriesContext(
        connection,
    ) as asked:
        answer = w.alice.post("jobs/", w.body(colour="red", **changed(text)))
    error(answer, 422, field, code)
    error(answer, 422, "colour", "unknown_field")
    assert not any(text in q["sql"] for q in asked.captured_queries)


@pytest.mark.parametrize("text", BROKEN, ids=["nul", "surrogate"])
def test_an_admin_who_sees_every_project_may_not_name_a_broken_one_either(text: str):
    w = world()
    error(w.caller("admin").post("jobs/", w.body(project=text)), 422, "project", "unknown_project")


@pytest.mark.parametrize("text", BROKEN, ids=["nul", "surrogate"])
def test_the_refused_job_can_be_read_afterwards(text: str):
    w = world()
    made = problem(w.alice.post("jobs/", w.body(name=text, params={"note": text})), 422)["job"]
    assert "\x00" not in Job.objects.get(pk=made).raw
    assert w.alice.get(f"jobs/{made}/").json()["state"] == "REJECTED"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"name": "x", "scopes": ["jobs:read"], "days": 10**400}, "days", "out_of_range"),
        ({"name": "a\x00b", "scopes": ["jobs:read"]}, "name", "bad_name"),
        ({"name": "x", "scopes": ["\ud800"]}, "scopes.0", "unknown_scope"),
    ],
    ids=["days", "name", "scopes"],
)
def test_a_token_is_refused_by_its_field_too(body: dict[str, Any], field: str, code: str):
    world(node=False)
    error(Caller(session="alice").post("tokens/", body), 422, field, code)


def test_an_agents_huge_number_is_still_400():
    w = world()
    problem(w.node.post("nodes/heartbeat/", {"seq": 10**400}), 400, "number_too_large")
