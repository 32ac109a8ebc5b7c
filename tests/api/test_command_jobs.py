"""A job of kind command by REST: taken with its artifacts, refused by field, handed to its node as it was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import builders as b
from tests.api.calls import Caller, World, error, problem, world

pytestmark = pytest.mark.django_db


def body(w: World, **params: Any) -> dict[str, Any]:
    return {"kind": "command", "name": "train", "project": "alpha", "gpu_count": 2, "max_duration": "1h",
            "params": {"argv": ["train.py"], **params}}  # fmt: skip


def test_it_is_taken_and_its_node_gets_the_command_the_files_and_both_gpus():
    w = world()
    asked = {"torchrun": True, "env": {"LR": "0.1"}, "files": "a", "inputs": {"base": w.models[1]}}
    answer = w.alice.post("jobs/", body(w, **asked))
    assert answer.status_code == 201, answer.content
    assert json.loads(answer.content)["queue"] == "merge"
    b.ticked(b.NOON)
    (wanted,) = b.beat()["desired"]
    claimed = w.node.post(f"attempts/{wanted['attempt']}/claim/", {"epoch": wanted["epoch"]})
    launch = json.loads(claimed.content)
    assert (launch["kind"], launch["params"], len(launch["gpus"])) == ("command", {"argv": ["train.py"], **asked}, 2)
    assert [(i["as"], i["artifact"]) for i in launch["inputs"]] == [("files", w.models[0]), ("base", w.models[1])]


def test_what_is_wrong_with_it_is_told_by_field_and_all_at_once():
    w = world()
    wrong = {"env": {"RANK": "0"}, "inputs": {"base": "no-such"}, "nproc": 2}
    found = problem(w.alice.post("jobs/", body(w, **wrong)), 422)["errors"]
    assert sorted((e["field"], e["code"]) for e in found) == [
        ("params.env.RANK", "reserved"), ("params.inputs.base", "no_such_artifact"), ("params.nproc", "conflict"),
    ]  # fmt: skip


def test_a_secret_on_its_command_line_is_refused():
    w = world()
    argv = ["train.py", "--api-key", "abcdef"]
    error(w.alice.post("jobs/", body(w, argv=argv)), 422, "params.argv.2", "secret")


def test_its_page_is_shown_and_it_can_be_cloned():
    w = world()
    job = json.loads(w.alice.post("jobs/", body(w)).content)["id"]
    assert w.alice.post(f"jobs/{job}/clone/").status_code == 201
    assert Caller(session="alice").get(f"/jobs/{job}/").status_code == 200
