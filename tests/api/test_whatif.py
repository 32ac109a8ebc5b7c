"""Replays over REST: asked for, watched, cancelled; who may know what of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scheduling.api.shapes import whatif as shapes
from scheduling.models import WhatIfRun
from scheduling.services import whatif_runs
from tests import builders as b
from tests.api.calls import Caller, error, problem, token, world
from tests.services.history import afternoon

pytestmark = pytest.mark.django_db


@pytest.fixture
def day(monkeypatch):
    found = afternoon()
    monkeypatch.setattr("scheduling.api.door.now", lambda: found.end)
    return found


def caller(day, name):
    return Caller(token(day.who[name], *(["admin"] if name == "admin" else [])))


def test_a_replay_is_accepted_then_played_then_told_as_documented(day):
    alice = caller(day, "alice")
    answer = alice.post("what-if/", {"days": 1, "add_nodes": [{"count": 1, "gpus": 4, "memory": "80GB"}]})
    assert answer.status_code == 202
    asked = answer.json()
    assert asked.keys() == shapes.WhatIfWholeShape().fields.keys()
    assert (asked["state"], asked["result"], asked["by"], asked["progress"]["total"]) == ("QUEUED", None, "alice", 0)
    whatif_runs.play(asked["id"])
    found = alice.get(f"what-if/{asked['id']}/").json()
    assert (found["state"], found["progress"]["done"], found["progress"]["total"]) == ("DONE", 6, 6)
    result = found["result"]
    assert result.keys() == shapes.WhatIfResultShape().fields.keys()
    assert result["after"].keys() == shapes.DaysShape().fields.keys()
    assert result["after"]["projects"]["alpha"].keys() == shapes.DaysShareShape().fields.keys()
    assert result["moved"]["jobs"][0].keys() == shapes.DaysJobShape().fields.keys()
    assert result["after"]["mean_wait_s"] < result["before"]["mean_wait_s"] == result["recorded"]["mean_wait_s"]
    (listed,) = alice.get("what-if/").json()["results"]
    assert listed == {name: value for name, value in found.items() if name != "result"}


def test_jobs_and_people_of_other_projects_are_not_named(day):
    run = whatif_runs.ask({"days": 1, "add_nodes": [{"like": "n1", "count": 2}]}, day.who["bob"], day.end)
    whatif_runs.play(str(run))
    told = {name: caller(day, name).get(f"what-if/{run}/").json()["result"] for name in ("bob", "admin")}
    names = {who: [row["name"] for row in found["moved"]["jobs"]] for who, found in told.items()}
    assert names == {"bob": [None, "three"], "admin": ["two", "three"]}
    assert [(row["job"], row["project"]) for row in told["bob"]["moved"]["jobs"]] == [
        (None, None), (day.jobs[2], "beta"),
    ]  # fmt: skip
    assert list(told["bob"]["after"]["users"]) == ["beta/bob"]
    assert list(told["admin"]["after"]["users"]) == ["alpha/alice", "beta/bob"]
    assert list(told["bob"]["after"]["projects"]) == ["alpha", "beta"]


def test_a_replay_is_its_owners_and_the_admins(day):
    run = whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end)
    assert problem(caller(day, "bob").get(f"what-if/{run}/"), 404)
    assert problem(caller(day, "bob").post(f"what-if/{run}/cancel/"), 404)
    assert caller(day, "bob").get("what-if/").json()["results"] == []
    assert caller(day, "admin").get(f"what-if/{run}/").json()["by"] == "alice"
    assert caller(day, "admin").post(f"what-if/{run}/cancel/").json()["state"] == "CANCELLED"
    assert problem(caller(day, "alice").get("what-if/nonsense/"), 404)


def test_every_fault_is_told_at_once_by_its_field(day):
    body = {"days": 99, "policy": {"half_life_s": -1}, "remove_nodes": ["n9"], "faults": []}
    document = problem(caller(day, "alice").post("what-if/", body), 422)
    assert [each["field"] for each in document["errors"]] == ["faults", "days", "policy.half_life_s", "remove_nodes.0"]
    assert WhatIfRun.objects.count() == 0


def test_a_number_that_nobody_can_keep_is_refused(day):
    answer = caller(day, "alice")("POST", "what-if/", '{"days": 1' + "0" * 5000 + "}")
    assert problem(answer, 422)["errors"][0]["field"] == "days"


def test_the_fourth_at_a_time_has_to_wait(day):
    alice = caller(day, "alice")
    codes = [alice.post("what-if/", {"remove_nodes": ["n1"]}).status_code for _ in range(4)]
    assert codes == [202, 202, 202, 409]
    assert error(alice.post("what-if/", {"remove_nodes": ["n1"]}), 409, "", "too_many_replays")["limit"] == 3


def test_without_the_scope_nothing_is_played():
    w = world()
    reader = w.caller("alice", "pool:read")
    assert reader.get("what-if/").status_code == 200
    assert problem(reader.post("what-if/", {"remove_nodes": ["n1"]}), 403)


def test_the_example_of_the_docs_is_accepted(day):
    text = (Path(__file__).parents[2] / "docs" / "what-if.md").read_text(encoding="utf-8")
    body = json.loads(re.search(r"-d '(\{.*?\})'", text, re.S).group(1))
    b.node("n7", now=day.end)
    assert caller(day, "alice").post("what-if/", body).status_code == 202
    assert set(body) == set(whatif_runs.FIELDS)
