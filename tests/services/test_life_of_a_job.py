"""A job's whole life through the services: submitted, granted, claimed, run, ended; and the fence around it."""

from __future__ import annotations

import pytest

from scheduling.models import Allocation, Artifact, Balance, Event, Job
from scheduling.services import jobs, pool
from scheduling.services.pool import NodeRefused
from tests import builders as b

pytestmark = pytest.mark.django_db


def world():
    lab = b.lab()
    return lab.who["alice"], lab.models


def test_a_merge_goes_from_submission_to_a_published_artifact():
    alice, models = world()
    run = b.running(alice, models)
    assert Job.objects.get(pk=run.job).state == "RUNNING"
    made = b.output(run)
    assert not Artifact.objects.get(pk=made).published
    assert b.finished(run, artifacts=[made], now=b.later(30)) == {"n": 0, "ok": True}
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.outcome, job.attempt_number) == ("SUCCEEDED", "SUCCEEDED", 1)
    assert [o.artifact_id for o in job.outputs.all()] == [Artifact.objects.get(pk=made, published=True).pk]
    assert not Allocation.objects.filter(released_at__isnull=True).exists()


def test_the_gpus_of_an_nvlink_job_lie_in_one_group():
    who = b.people()
    b.node("n1", gpus=1)
    b.node("n2", gpus=2)
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    run = b.running(who["alice"], models, node="n2")
    assert run.gpus == ["GPU-n2-0", "GPU-n2-1"]


def test_usage_is_charged_once_from_the_allocation_intervals():
    alice, models = world()
    run = b.running(alice, models)
    made = b.output(run)
    for _ in range(2):
        b.finished(run, artifacts=[made], now=b.later(30))
    charged = {(r.ledger, r.key): r.gpu_ms for r in Balance.objects.all()}
    assert charged.keys() == {("queue", "merge"), ("project", "alpha"), ("user", "alpha/alice")}
    assert all(abs(ms - 2 * 30_000) < 10 for ms in charged.values())


def test_a_finished_message_delivered_twice_has_one_effect():
    alice, models = world()
    run = b.running(alice, models)
    made = b.output(run)
    first = b.finished(run, artifacts=[made], now=b.later(30))
    again = b.finished(run, artifacts=[made], now=b.later(31))
    assert first == again == {"n": 0, "ok": True}
    assert Event.objects.filter(type="attempt_ended").count() == 1


def test_a_late_message_of_a_fenced_attempt_changes_nothing_and_is_recorded():
    alice, models = world()
    run = b.running(alice, models)
    b.listening(59)
    b.ticked(b.later(60))
    assert Job.objects.get(pk=run.job).state == "QUEUED"
    b.node("n1", now=b.later(61))
    assert b.finished(run, now=b.later(62))["code"] == "stale_epoch"
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.epoch, job.infra_failures) == ("QUEUED", 2, 1)
    assert Event.objects.filter(type="write_refused").count() == 1


def test_a_node_whose_work_was_taken_back_must_register_again():
    alice, models = world()
    b.running(alice, models)
    b.listening(59)
    b.ticked(b.later(60))
    assert b.beat("n1", now=b.later(61)) == NodeRefused(409, "reregister", "node n1 must register again")


def test_silence_shorter_than_the_lease_costs_nothing():
    alice, models = world()
    run = b.running(alice, models)
    b.listening(59)
    b.ticked(b.later(59.9))
    assert Job.objects.get(pk=run.job).state == "RUNNING"


def test_silence_counts_only_while_the_server_could_hear():
    alice, models = world()
    run = b.running(alice, models)
    pool.accepting(b.later(300))
    b.ticked(b.later(301))
    assert Job.objects.get(pk=run.job).state == "RUNNING"


def test_a_grant_that_nobody_claims_is_taken_back():
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models))
    b.ticked()
    b.beat(now=b.later(59))
    b.listening(59)
    b.ticked(b.later(60))
    row = Job.objects.get(pk=job)
    assert (row.state, row.infra_failures) == ("QUEUED", 1)


def test_a_preempted_attempt_goes_back_to_the_queue_and_resumes_from_its_checkpoint():
    alice, models = world()
    run = b.running(alice, models)
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint")
    b.finished(run, "PREEMPTED", exit_code=85, checkpoint=saved, step=3, why="drain", now=b.later(5))
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.preempted, job.preempt_count, str(job.resume_id), job.resume_step) == (
        "QUEUED",
        True,
        0,
        saved,
        3,
    )
    b.ticked(b.later(6))
    wanted = b.beat(now=b.later(6))["desired"][0]
    launch = pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(6))
    assert (launch["number"], launch["resume"]["artifact"], launch["resume"]["step"]) == (2, saved, 3)
    assert not Job.objects.get(pk=run.job).preempted


def test_cancelling_a_waiting_job_ends_it_at_once_and_twice_is_lawful():
    who = b.people()
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    job = b.submitted(who["alice"], b.merge_body(models))
    assert [jobs.cancel(job, who["alice"], b.NOON) for _ in range(2)] == [jobs.Moved("CANCELLED", True)] * 2


def test_cancelling_a_running_job_tells_its_node_to_stop_it():
    alice, models = world()
    run = b.running(alice, models)
    assert jobs.cancel(run.job, alice, b.later(1)) == jobs.Moved("CANCELLING", True)
    wanted = b.beat(now=b.later(1))["desired"][0]
    assert (wanted["action"], wanted["why"]) == ("stop", "cancel")
    b.finished(run, "SUCCEEDED", now=b.later(2))
    assert Job.objects.get(pk=run.job).state == "CANCELLED"


def test_cancelling_an_ended_job_is_refused():
    alice, models = world()
    run = b.running(alice, models)
    b.finished(run, "FAILED", exit_code=1)
    assert jobs.cancel(run.job, alice, b.later(9)) == jobs.Moved("FAILED", False)


def test_another_projects_job_is_not_known():
    alice, models = world()
    run = b.running(alice, models)
    bob = b.people()["bob"]
    assert jobs.cancel(run.job, bob, b.NOON) is None


def test_two_requests_with_one_idempotency_key_make_one_job():
    alice, models = world()
    body = b.merge_body(models)
    assert b.submitted(alice, body, key="k") == b.submitted(alice, body, key="k")
    assert isinstance(jobs.submit({**body, "name": "other"}, alice, b.NOON, key="k"), jobs.KeyConflict)
