"""What agents call: only their own node and attempts, fenced by the epoch, cheap, and never a 500."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduling.models import Artifact, Event, Job, NodeLive
from scheduling.services.pool import timings
from tests import builders as b
from tests.api.calls import Caller, World, busy_world, error, fetched, problem, sha, world

pytestmark = pytest.mark.django_db


def beat(caller: Caller, **changed: Any) -> Any:
    message = {
        "boot_id": "boot-1",
        "seq": 1,
        "disk_low": False,
        "draining": False,
        "gpus": None,
        "attempts": [],
        "reports": [],
    }
    return caller.post("nodes/heartbeat/", {**message, **changed})


def started() -> tuple[World, b.Running, Caller]:
    w, run = busy_world()
    return w, run, w.node


def test_a_node_registers_and_is_told_the_timings():
    w = world()
    answer = w.node.post("nodes/register/", b.description("n1"))
    assert answer.status_code == 200
    assert (answer.json()["adopt"], answer.json()["lease_s"]) == ([], timings().lease_s)


def test_the_node_is_the_tokens_and_never_the_messages():
    w = world()
    b.node("n2")
    w.node.post("nodes/register/", {**b.description("n1", boot="boot-9"), "name": "n2", "node": "n2"})
    assert problem(beat(w.node), 409, "reregister")["code"] == "reregister"
    assert beat(w.node, boot_id="boot-9", node="n2").status_code == 200


def test_a_bad_registration_is_422_and_names_the_field():
    w = world()
    described = b.description("n1")
    described["gpus"][0]["memory_mib"] = -1
    assert "memory_mib" in problem(w.node.post("nodes/register/", described), 422, "bad_registration")["detail"]


def test_a_registration_and_a_report_that_lack_a_field_name_it_as_missing():
    _, run, node = started()
    described = b.description("n1")
    del described["gpus"]
    said = problem(node.post("nodes/register/", described), 422, "bad_registration")["detail"]
    assert said == "registration of n1: gpus is missing"
    answer = node.post(f"attempts/{run.attempt}/progress/", {"epoch": run.epoch, "step": 1})
    assert problem(answer, 422, "bad_report")["detail"] == "progress: total is missing"


def test_another_protocol_is_409():
    w = world()
    problem(w.node.post("nodes/register/", {**b.description("n1"), "protocol": 99}), 409, "protocol_mismatch")


def test_a_heartbeat_is_answered_with_the_desired_set():
    w = world()
    b.submitted(w.who["alice"], w.body())
    b.ticked()
    wanted = beat(w.node).json()["desired"]
    assert [(d["epoch"], d["action"]) for d in wanted] == [(1, "run")]


def test_a_heartbeat_costs_at_most_six_queries_beside_the_clock():
    _, _, node = started()
    samples = [{"uuid": f"GPU-n1-{i}", "utilization": 50.0} for i in range(4)]
    with CaptureQueriesContext(connection) as asked:
        assert beat(node, gpus=samples).status_code == 200
    queries = [q["sql"][:120] for q in asked if "clock_timestamp" not in q["sql"]]
    assert len(queries) <= 6, queries
    assert NodeLive.objects.get().samples["GPU-n1-0"]["utilization"] == 50.0


def test_a_heartbeat_of_more_than_a_persons_body_is_taken():
    _, run, node = started()
    logs = [
        {
            "n": i,
            "type": "logs",
            "attempt": run.attempt,
            "epoch": run.epoch,
            "offset": i * 131072,
            "text": "\x00" * 131072,
        }
        for i in range(8)
    ]
    ends: list[int] = []
    while len(ends) < len(logs):  # a busy server answers as many as it has time for, and is told the rest again
        answers = beat(node, reports=logs[len(ends) :]).json()["answers"]
        assert answers
        ends += [a["next"] for a in answers]
    assert ends == [(i + 1) * 131072 for i in range(8)]


# ---------------------------------------------------------------- an attempt's life


def test_an_attempt_is_claimed_run_and_finished_over_http():
    w = world()
    job = b.submitted(w.who["alice"], w.body())
    b.ticked()
    node = w.node
    wanted = beat(node).json()["desired"][0]
    at, epoch = f"attempts/{wanted['attempt']}", {"epoch": wanted["epoch"]}
    launch = node.post(f"{at}/claim/", epoch).json()
    assert (launch["job"], launch["gpus"]) == (job, ["GPU-n1-0", "GPU-n1-1"])
    assert node.post(f"{at}/claim/", epoch).json() == launch
    assert node.post(f"{at}/ready/", {**epoch, "node_rank": 0}).json() == {"go": True}
    assert node.post(f"{at}/started/", {**epoch, "pid": 7}).json()["ok"]
    assert node.post(f"{at}/progress/", {**epoch, "step": 1, "total": 2, "unit": "tensors"}).json()["ok"]
    assert node.post(f"{at}/metric/", {**epoch, "step": 1, "name": "mb_s", "value": 9.5}).json()["ok"]
    assert node.post(f"{at}/logs/", {**epoch, "offset": 0, "text": "hi\n"}).json()["next"] == 3
    made = uploaded(node, wanted["attempt"], wanted["epoch"], b.tensors(9))
    assert node.post(f"{at}/finished/", {**epoch, "outcome": "SUCCEEDED", "exit_code": 0, "artifacts": [made]}).json()[
        "ok"
    ]
    seen = w.alice.get(f"jobs/{job}/").json()
    assert (seen["state"], [a["id"] for a in seen["artifacts"]]) == ("SUCCEEDED", [made])


def uploaded(
    node: Caller, attempt: str, epoch: int, content: bytes, kind: str = "model", path: str = "model.safetensors"
) -> str:
    """The artifact that the attempt has committed over HTTP."""
    at = f"attempts/{attempt}/artifacts"
    opened = node.post(
        f"{at}/", {"epoch": epoch, "name": "out", "kind": kind, "files": [{"path": path, "size": len(content)}]}
    )
    assert opened.status_code == 201, opened.content
    upload = opened.json()["upload"]
    half = len(content) // 2
    where = f"{at}/{upload}/files/{path}"
    assert node.put(f"{where}?offset=0", content[:half], X_EMEP_Epoch=str(epoch)).json() == {"offset": half}
    assert node.put(f"{where}?offset={half}&epoch={epoch}", content[half:]).json() == {"offset": len(content)}
    done = node.post(f"{at}/{upload}/commit/", {"epoch": epoch, "sha256": {path: sha(content)}})
    assert done.status_code == 201, done.content
    return done.json()["artifact"]


def test_a_checkpoint_is_committed_and_the_job_resumes_from_it():
    _, run, node = started()
    saved = uploaded(node, run.attempt, run.epoch, b'{"step": 3}', "checkpoint", "experiment.json")
    assert node.post(f"attempts/{run.attempt}/checkpoint/", {"epoch": run.epoch, "artifact": saved, "step": 3}).json()[
        "ok"
    ]
    assert str(Job.objects.get().resume_id) == saved


def test_an_input_is_read_whole_and_by_range():
    w, run, node = started()
    content = b.tensors(1)
    where = f"attempts/{run.attempt}/inputs/{w.models[0]}/files/model.safetensors?epoch={run.epoch}"
    assert fetched(node.get(where)) == content
    part = node.get(where, Range="bytes=10-")
    assert (part.status_code, fetched(part)) == (206, content[10:])


def test_an_artifact_that_is_no_input_is_404():
    w, run, node = started()
    other = b.model(w.who["alice"], "c", 3)
    problem(node.get(f"attempts/{run.attempt}/inputs/{other}/files/config.json?epoch={run.epoch}"), 404)
    problem(node.get(f"attempts/{run.attempt}/inputs/{w.models[0]}/files/..%2f..%2fx?epoch={run.epoch}"), 404)


def test_an_attempt_that_shall_stop_does_not_go():
    w, run, node = started()
    w.alice.post(f"jobs/{run.job}/cancel/")
    assert node.post(f"attempts/{run.attempt}/ready/", {"epoch": run.epoch}).json() == {"go": False}


CALLS = [
    ("POST", "claim/", {}),
    ("POST", "ready/", {}),
    ("POST", "started/", {"pid": 1}),
    ("POST", "progress/", {"step": 1, "total": 2}),
    ("POST", "metric/", {"step": 1, "name": "x", "value": 1}),
    ("POST", "logs/", {"offset": 0, "text": "x"}),
    ("POST", "checkpoint/", {"artifact": "00000000-0000-4000-8000-000000000000"}),
    ("POST", "finished/", {"outcome": "SUCCEEDED"}),
    ("POST", "artifacts/", {"name": "x", "kind": "output", "files": [{"path": "a", "size": 1}]}),
]


@pytest.mark.parametrize(("method", "call", "body"), CALLS, ids=[c[1] for c in CALLS])
def test_a_stale_epoch_is_409_and_changes_nothing(method: str, call: str, body: dict[str, Any]):
    _, run, node = started()
    before = Job.objects.values().get()
    answer = node(method, f"attempts/{run.attempt}/{call}", {**body, "epoch": run.epoch + 1})
    assert problem(answer, 409)["code"] == "stale_epoch"
    assert Job.objects.values().get() == before


@pytest.mark.parametrize(("method", "call", "body"), CALLS, ids=[c[1] for c in CALLS])
def test_another_nodes_attempt_reads_like_a_stale_one(method: str, call: str, body: dict[str, Any]):
    _, run, _ = started()
    other = Caller(b.node("n2"))
    answer = other(method, f"attempts/{run.attempt}/{call}", {**body, "epoch": run.epoch})
    assert problem(answer, 409)["code"] == "stale_epoch"


def test_another_nodes_inputs_and_uploads_are_not_to_be_had():
    w, run, node = started()
    at = f"attempts/{run.attempt}"
    body = {"epoch": run.epoch, "name": "x", "kind": "output", "files": [{"path": "a", "size": 1}]}
    upload = node.post(f"{at}/artifacts/", body).json()["upload"]
    other = Caller(b.node("n2"))
    problem(other.get(f"{at}/inputs/{w.models[0]}/files/config.json?epoch={run.epoch}"), 409, "stale_epoch")
    problem(other.put(f"{at}/artifacts/{upload}/files/a?epoch={run.epoch}", b"x"), 409, "stale_epoch")
    problem(other.post(f"{at}/artifacts/{upload}/commit/", {"epoch": run.epoch}), 409, "stale_epoch")


def test_a_commit_after_the_fence_is_409_and_stores_nothing():
    _, run, node = started()
    at = f"attempts/{run.attempt}/artifacts"
    body = {"epoch": run.epoch, "name": "x", "kind": "output", "files": [{"path": "a", "size": 1}]}
    upload = node.post(f"{at}/", body).json()["upload"]
    node.put(f"{at}/{upload}/files/a?epoch={run.epoch}", b"x")
    b.listening(59)
    b.ticked(b.later(60))
    commit = {"epoch": run.epoch, "sha256": {"a": sha(b"x")}}
    problem(node.post(f"{at}/{upload}/commit/", commit), 409, "stale_epoch")
    problem(node.put(f"{at}/{upload}/files/a?epoch={run.epoch}", b"x"), 409, "stale_epoch")
    assert not Artifact.objects.filter(name="x").exists()
    assert not Event.objects.filter(type="artifact_committed", epoch=run.epoch).exists()


@pytest.mark.parametrize("epoch", [None, "1", 1.5, True, -1])
def test_an_epoch_that_is_no_number_is_422(epoch: Any):
    _, run, node = started()
    error(node.post(f"attempts/{run.attempt}/started/", {"epoch": epoch}), 422, "epoch", "bad_epoch")


def test_a_report_that_makes_no_sense_is_422():
    _, run, node = started()
    problem(
        node.post(f"attempts/{run.attempt}/progress/", {"epoch": run.epoch, "step": -1, "total": 2}), 422, "bad_report"
    )


MISSHAPEN = [None, 0, -1, 1.5, "x", "", [], [1], {}, {"x": 1}, True, ["x"], [None], [[]], [{"uuid": None}], 2**62]


def undone(node: Caller, path: str, body: dict[str, Any]) -> int:
    """The status of the call, whose effects are taken back."""
    before = transaction.savepoint()
    status = node.post(path, body).status_code
    transaction.set_rollback(False)
    transaction.savepoint_rollback(before)
    return status


@pytest.mark.parametrize("path", ["nodes/register/", "nodes/heartbeat/"])
def test_no_misshapen_member_of_a_nodes_message_is_a_500(path: str):
    w = world()
    right = {
        "nodes/register/": b.description("n1"),
        "nodes/heartbeat/": {
            "boot_id": "boot-1",
            "seq": 1,
            "disk_low": False,
            "draining": False,
            "gpus": None,
            "attempts": [],
            "reports": [],
        },
    }[path]
    node = w.node
    node.client.raise_request_exception = False
    answered = {}
    for member in right:
        for value in MISSHAPEN:
            answered[member, json.dumps(value)] = undone(node, path, {**right, member: value})
    assert {k: v for k, v in answered.items() if v >= 500} == {}


@pytest.mark.parametrize("kind", ["started", "progress", "metric", "logs", "checkpoint", "finished"])
def test_no_misshapen_report_is_a_500(kind: str):
    _, run, node = started()
    node.client.raise_request_exception = False
    members = {
        "started": ["pid"],
        "progress": ["step", "total", "unit", "rate"],
        "metric": ["step", "name", "value"],
        "logs": ["offset", "text"],
        "checkpoint": ["artifact", "step"],
        "finished": ["outcome", "exit_code", "error", "artifacts", "checkpoint", "why", "detail", "step"],
    }
    answered = {}
    for member in members[kind]:
        for value in MISSHAPEN:
            if (kind, member) == ("finished", "outcome"):
                body = {"epoch": run.epoch, member: value}
            else:
                body = {"epoch": run.epoch, "outcome": "SUCCEEDED" if member == "step" else "?", member: value}
            answered[member, json.dumps(value)] = undone(node, f"attempts/{run.attempt}/{kind}/", body)
    assert {k: v for k, v in answered.items() if v >= 500} == {}


# ---------------------------------------------------------------- the bell


def rung(caller: Caller, since: int) -> tuple[int, bool]:
    answer = caller.get(f"nodes/bell/?since={since}&timeout=0").json()
    return answer["since"], answer["look"]


def test_the_bell_rings_for_a_grant_and_not_for_what_the_node_said_itself():
    w = world()
    node = w.node
    since, _ = rung(node, 0)
    assert rung(node, since) == (since, False)
    b.submitted(w.who["alice"], w.body())
    b.ticked()
    since, look = rung(node, since)
    assert look
    wanted = beat(node).json()["desired"][0]
    node.post(f"attempts/{wanted['attempt']}/claim/", {"epoch": wanted["epoch"]})
    node.post(f"attempts/{wanted['attempt']}/started/", {"epoch": wanted["epoch"], "pid": 1})
    assert rung(node, since)[1] is False


def test_the_bell_rings_when_a_job_on_the_node_is_cancelled_and_for_no_other_node():
    w, run, node = started()
    other = Caller(b.node("n2"))
    since, _ = rung(node, 0)
    w.alice.post(f"jobs/{run.job}/cancel/")
    assert rung(node, since)[1] is True
    assert rung(other, since)[1] is False


def test_a_number_from_the_future_makes_the_node_look_once():
    w = world()
    newest = Event.objects.order_by("-id").first().pk
    assert rung(w.node, newest + 1000) == (newest, True)
