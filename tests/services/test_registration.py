"""Nodes as they describe themselves: taken, corrected, refused by field; what they must keep and kill."""

from __future__ import annotations

import pytest

from scheduling.core.lifecycle import NodeEvent
from scheduling.models import Allocation, Attempt, Event, Gpu, Job, Node
from scheduling.services import pool
from scheduling.services.pool import NodeRefused
from scheduling.store.commit import drains
from tests import builders as b

pytestmark = pytest.mark.django_db


def registered(name="n1", *, now=b.NOON, **kw):
    return pool.register(name, b.description(name, **kw), now)


def test_a_node_is_in_the_pool_as_it_describes_itself():
    b.node("n1", rack="r7", gpus=2)
    row = Node.objects.get(name="n1")
    assert (row.state, row.rack_id, row.simulated, row.gpus.count()) == ("READY", "r7", True, 2)


def test_the_reply_has_every_wait():
    b.node("n1")
    reply = registered()
    assert (reply["heartbeat_s"], reply["fence_s"], reply["kill_s"], reply["lease_s"]) == (10.0, 45.0, 10.0, 60.0)


def test_registering_again_keeps_what_the_operator_said():
    b.node("n1")
    drains.operate("n1", NodeEvent.CORDON, now=b.NOON, actor="user admin", message="cordon by admin")
    registered(now=b.later(1))
    assert Node.objects.get(name="n1").state == "CORDONED"


def test_a_gpu_that_is_not_reported_any_more_is_out_of_service_and_comes_back_by_its_test_alone():
    b.node("n1", gpus=2)
    registered(gpus=1, now=b.later(1))
    gone = Gpu.objects.get(uuid="GPU-n1-1")
    assert (gone.state, gone.why) == (
        "QUARANTINED",
        "its node does not report it any more; retire it if it was taken out",
    )
    registered(gpus=2, now=b.later(2))
    assert Gpu.objects.get(uuid="GPU-n1-1").state == "QUARANTINED"


def test_a_gpu_that_another_node_reports_moves_there_and_both_nodes_timelines_say_so():
    b.node("n1")
    b.node("n2")
    taken = {
        **b.description("n2"),
        "gpus": [*b.description("n2")["gpus"], {**b.description("n1")["gpus"][3], "index": 4}],
    }
    pool.register("n2", {**taken, "boot_id": "boot-2"}, b.later(10))
    assert Gpu.objects.get(uuid="GPU-n1-3").node.name == "n2"
    told = Event.objects.filter(type="gpu_moved", object_id="GPU-n1-3")
    assert sorted(told.values_list("node", "message")) == [
        (node, "Test 80GB has moved from node n1 to node n2, which reports it now") for node in ("n1", "n2")
    ]


def test_a_gpu_that_moves_under_a_job_is_tested_and_the_job_is_stopped_on_its_node_and_moves():
    run = running()
    b.node("n2")
    held = next(g for g in b.description("n1")["gpus"] if g["uuid"] == run.gpus[0])
    theirs = {**b.description("n2", boot="boot-2"), "gpus": [*b.description("n2")["gpus"], {**held, "index": 4}]}
    pool.register("n2", theirs, b.later(10))
    moved = Gpu.objects.get(uuid=held["uuid"])
    why = "it has moved here from node n1 while a job held it"
    assert (moved.node.name, moved.state, moved.why) == ("n2", "UNHEALTHY", why)
    (told,) = b.beat("n1", now=b.later(11))["desired"]
    assert (told["attempt"], told["action"]) == (run.attempt, "kill")
    b.finished(run, "PREEMPTED", now=b.later(12), why="health")
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.preempted, job.avoid["gpus"]) == ("QUEUED", True, [held["uuid"]])
    b.ticked(b.later(13))
    again = Allocation.objects.filter(attempt__job=job, released_at__isnull=True)
    uuids = list(again.values_list("gpu__uuid", flat=True))
    assert (len(uuids), held["uuid"] in uuids) == (2, False)


def test_identity_is_the_uuid_when_indices_are_reordered():
    b.node("n1", gpus=2)
    described = b.description("n1", gpus=2)
    for gpu in described["gpus"]:
        gpu["index"] = 1 - gpu["index"]
    pool.register("n1", described, b.later(1))
    assert dict(Gpu.objects.values_list("uuid", "index")) == {"GPU-n1-0": 1, "GPU-n1-1": 0}


def running():
    return b.busy_lab()[1]


def test_a_running_attempt_that_the_node_still_holds_is_adopted():
    run = running()
    held = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}]
    assert registered(attempts=held, now=b.later(5))["adopt"] == [run.attempt]
    assert Job.objects.get(pk=run.job).state == "RUNNING"


@pytest.mark.parametrize("held", [[], [{"epoch": 1, "pid_alive": False}], [{"epoch": 7, "pid_alive": True}]],
                         ids=["not held", "dead", "another epoch"])  # fmt: skip
def test_a_running_attempt_that_the_node_lost_is_requeued_once(held):
    run = running()
    registered(attempts=[{"attempt": run.attempt, **h} for h in held], now=b.later(5))
    registered(attempts=[{"attempt": run.attempt, **h} for h in held], now=b.later(6))
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.infra_failures, job.avoid["nodes"]) == ("QUEUED", 1, [])
    assert Attempt.objects.get(pk=run.attempt).outcome == "LOST"


def test_an_attempt_that_is_not_wanted_any_more_is_to_be_killed():
    b.node("n1")
    unknown = {"attempt": "5f0f7f0e-0000-4000-8000-000000000000", "epoch": 1, "pid_alive": True}
    assert registered(attempts=[unknown])["kill"] == [unknown["attempt"]]


def test_an_unknown_node_is_refused():
    assert registered("ghost") == NodeRefused(404, "unknown_node", "there is no node ghost")


def test_another_protocol_is_refused_with_what_to_do():
    b.node("n1")
    refused = pool.register("n1", {**b.description("n1"), "protocol": 99}, b.NOON)
    assert (refused.status, refused.code) == (409, "protocol_mismatch")
    assert "upgrade" in refused.message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"boot_id": "x" * 65}, "boot_id"),
        ({"rack_id": "r\n1"}, "rack_id"),
        ({"network_bandwidth_gbps": -1}, "network_bandwidth_gbps"),
        ({"network_bandwidth_gbps": float("nan")}, "network_bandwidth_gbps"),
        ({"labels": {"k": "v" * 64}}, "labels"),
        ({"gpus": [{"uuid": "u", "index": 0, "model": "m", "memory_mib": 0}]}, "memory_mib"),
        ({"gpus": [{"uuid": "u", "index": 0, "model": "m", "memory_mib": 10}] * 2}, "two GPUs have one uuid"),
    ],
)
def test_a_bad_registration_names_its_field_and_changes_nothing(change, named):
    b.node("n1", gpus=2)
    refused = pool.register("n1", {**b.description("n1"), **change}, b.later(1))
    assert (refused.status, refused.code) == (422, "bad_registration")
    assert named in refused.message
    assert Gpu.objects.filter(state="HEALTHY").count() == 2


def test_a_heartbeat_of_another_boot_must_register_again():
    b.node("n1")
    assert b.beat(boot="boot-2").code == "reregister"


@pytest.mark.parametrize(
    "report",
    [{"type": "dance"}, {"type": "progress", "step": -1, "total": 2}, {"type": "logs", "offset": "x", "text": ""},
     {"type": "finished", "outcome": "FINE"}, {"type": "progress"}],
    ids=["unknown type", "negative step", "offset no number", "unknown outcome", "fields missing"],
)  # fmt: skip
def test_a_bad_report_is_answered_and_changes_nothing(report):
    run = running()
    answer = b.beat(reports=[{"attempt": run.attempt, "epoch": run.epoch, **report}])["answers"][0]
    assert (answer["ok"], answer["code"]) == (False, "bad_report")
    assert Job.objects.get(pk=run.job).state == "RUNNING"


@pytest.mark.parametrize(("sent", "said"), [(None, "null"), ([True], "[true]"), ("x", "'x'")])
def test_a_bad_report_says_what_was_sent_in_the_words_of_json(sent, said):
    run = running()
    report = {"attempt": run.attempt, "epoch": run.epoch, "type": "logs", "offset": sent, "text": ""}
    answer = b.beat(reports=[report])["answers"][0]
    assert answer["message"] == f"logs: {said} is not a whole number from 0"


def test_an_artifact_that_the_attempt_did_not_commit_cannot_be_its_output():
    run = running()
    answer = b.finished(run, artifacts=["5f0f7f0e-0000-4000-8000-000000000000"])
    assert answer["code"] == "bad_report"
    assert Job.objects.get(pk=run.job).state == "RUNNING"


def test_a_checkpoint_that_the_attempt_did_not_commit_is_refused_and_not_resumed_from():
    run = running()
    report = {"type": "checkpoint", "attempt": run.attempt, "epoch": run.epoch, "step": 3}
    answer = b.beat(reports=[{**report, "artifact": "5f0f7f0e-0000-4000-8000-000000000000"}])["answers"][0]
    assert (answer["ok"], answer["code"]) == (False, "bad_report")
    assert Job.objects.get(pk=run.job).resume_id is None


def test_another_nodes_attempt_is_not_to_be_claimed():
    run = running()
    b.node("n2")
    assert pool.claim("n2", run.attempt, run.epoch, b.NOON).code == "stale_epoch"


@pytest.mark.parametrize("seq", [7, 9])
def test_a_registration_that_newer_words_have_overtaken_takes_nothing_back(seq):
    """It was sent before the node was given the job, so it doesn't name it."""
    made = b.lab()
    pool.register("n1", {**b.description("n1"), "seq": 9}, b.later(1))
    run = b.running(made.who["alice"], made.models, now=b.later(2))
    answer = pool.register("n1", {**b.description("n1"), "seq": seq}, b.later(3))
    assert (answer.status, answer.code) == (409, "overtaken")
    assert Attempt.objects.get(pk=run.attempt).ended_at is None


def test_a_registration_of_another_boot_counts_whatever_its_number():
    made = b.lab()
    pool.register("n1", {**b.description("n1"), "seq": 9}, b.later(1))
    run = b.running(made.who["alice"], made.models, now=b.later(2))
    pool.register("n1", {**b.description("n1", boot="boot-2"), "seq": 3}, b.later(3))
    assert Attempt.objects.get(pk=run.attempt).outcome == "LOST"


@pytest.mark.parametrize("epoch", [0, 1])
def test_of_work_that_ran_on_after_it_was_taken_back_the_timeline_says_for_how_long(epoch):
    _, run = b.busy_lab()
    b.node("n2")
    b.listening(70)
    b.beat("n2", now=b.later(65))
    b.ticked(b.later(70))  # n1 is lost, and its job runs again on n2
    held = [{"attempt": run.attempt, "epoch": run.epoch - epoch, "pid_alive": True, "runs": True}]
    reply = registered(now=b.later(97), attempts=held)
    registered(now=b.later(99), attempts=held)  # the reply was lost on the way
    assert reply["kill"] == [run.attempt]
    told = Event.objects.filter(object_id=run.job, type="ran_on").values_list("message", "data")
    words = (
        "node n1 is heard of again: attempt 1 still ran there, 27 s after it had been taken back; it is stopped, and "
        "nothing that it did in that time counts"
    )
    assert list(told) == ([(words, {"ran_on_s": 27})] if not epoch else [])


@pytest.mark.parametrize("to_come", [True, False])
def test_of_work_whose_process_is_gone_nothing_is_told(to_come):
    _, run = b.busy_lab()
    b.listening(70)
    b.ticked(b.later(70))
    held = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": to_come, "runs": False}]
    registered(now=b.later(97), attempts=held)
    assert not Event.objects.filter(type="ran_on").exists()
