"""A deleted artifact: who may, what stays, what refuses it, and how it comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model

from scheduling.models import Artifact, Event, Job
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files, artifacts, collection, jobs, verification
from scheduling.store import seed
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import jobs as job_queries
from scheduling.store.queries.access import actor_of
from scheduling.store.queries.lineage import lineage
from tests import builders as b

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]

DAY = timedelta(days=1)


@pytest.fixture
def lab():
    return b.lab()


def refused(found):
    """Status, code and message of a refusal."""
    assert isinstance(found, artifacts.Refusal)
    return found.status, found.code, found.message


def named(actor, **wanted):
    return sorted(each.name for each in queries.filtered(actor, **wanted))


def test_who_made_it_deletes_it_and_its_record_and_lineage_stay(lab):
    alice, (first, second) = lab.who["alice"], lab.models
    run = b.running(alice, lab.models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    found = deletion.delete(first, alice, b.later(100))
    assert found["deleted"] == {"at": b.later(100), "by": "user alice", "why": "alice asked for it"}
    assert (named(alice), named(alice, deleted=True)) == (["b", "slerp-a-b"], ["a"])
    family = lineage(alice, queries.one(alice, made))
    assert {n["id"]: n["deleted"] is not None for n in family["nodes"]} == {first: True, second: False, made: False}
    (event,) = Event.objects.filter(type="artifact_deleted")
    assert (event.object_id, event.actor, event.project) == (first, "user alice", "alpha")


def test_deleted_twice_is_deleted_once(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    assert deletion.delete(model, alice, b.later(2))["deleted"]["at"] == b.later(1)
    assert Event.objects.filter(type="artifact_deleted").count() == 1


def test_another_member_may_not_delete_it_an_admin_may_and_a_stranger_knows_of_none(lab):
    model = lab.models[0]
    seed.user("carol", b.PASSWORD, projects=[("alpha", 3)])
    carol = actor_of(get_user_model().objects.get(username="carol"))
    words = "'a' was made by alice: only alice or an admin may delete it"
    assert refused(deletion.delete(model, carol, b.later(1))) == (403, "not_yours", words)
    assert deletion.delete(model, lab.who["bob"], b.later(1)) is None
    assert Artifact.objects.get(pk=model).deleted_at is None
    assert deletion.delete(model, lab.who["admin"], b.later(1))["deleted"]["by"] == "user admin"
    assert refused(deletion.restore(model, carol, b.later(2)))[:2] == (403, "not_yours")
    assert deletion.restore(model, lab.who["bob"], b.later(2)) is None


def test_what_a_job_works_on_is_not_deleted_until_the_job_has_ended(lab):
    alice, model = lab.who["alice"], lab.models[0]
    waits = b.submitted(alice, b.merge_body(lab.models, name="first"))
    b.submitted(alice, b.merge_body(lab.models, name="second"), now=b.later(0.5))
    found = deletion.delete(model, alice, b.later(1))
    assert refused(found) == (
        409, "in_use", "2 jobs that have not ended need 'a' (first and second): wait for them, or cancel them",
    )  # fmt: skip
    assert waits in found.facts["jobs"]
    for job in Job.objects.all():
        jobs.cancel(str(job.pk), alice, b.later(2))
    assert deletion.delete(model, alice, b.later(3))["deleted"]


def test_what_a_job_begins_with_is_not_deleted_either(lab):
    alice = lab.who["alice"]
    run = b.running(alice, lab.models)
    saved = b.output(run, "checkpoint", b"{}", kind="checkpoint")
    report = {"type": "checkpoint", "attempt": run.attempt, "epoch": run.epoch, "artifact": saved, "step": 3}
    b.beat("n1", now=b.later(5), reports=[report])
    assert refused(deletion.delete(saved, alice, b.later(6)))[2].startswith("1 job that has not ended needs")


def test_a_job_that_names_a_deleted_artifact_is_refused_and_told_why(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    for reference in ("a", model):
        found = jobs.submit(b.merge_body([reference, lab.models[1]]), alice, b.later(2))
        (error,) = found.errors
        assert (error["code"], error["message"]) == (
            "deleted_artifact",
            "'a' was deleted on 2 Mar 2026, 12:00:01 UTC (alice asked for it): restore it on its page while "
            "its bytes are kept, or give another",
        )
    strange = jobs.submit(b.merge_body([model, model], project="beta"), lab.who["bob"], b.later(2))
    assert {e["code"] for e in strange.errors if e["field"].startswith("params")} == {"no_such_artifact"}


def test_a_name_means_the_one_that_is_there(lab):
    alice = lab.who["alice"]
    both = {lab.models[0], b.model(alice, "a", 7)}
    meant = str(queries.resolve(alice, "alpha", "a").pk)
    deletion.delete(meant, alice, b.later(1))
    assert {str(queries.resolve(alice, "alpha", "a").pk)} == both - {meant}


def test_a_deletion_can_be_taken_back_until_the_bytes_are_removed(lab):
    alice, model = lab.who["alice"], lab.models[0]
    collection.collect(b.NOON)
    deletion.delete(model, alice, b.later(1))
    assert deletion.restore(model, alice, b.later(2))["deleted"] is None
    assert named(alice) == ["a", "b"]
    deletion.delete(model, alice, b.later(3))
    collection.collect(b.later(4))
    assert deletion.is_restorable(queries.one(alice, model))
    collection.collect(b.later(4) + DAY)
    assert refused(deletion.restore(model, alice, b.later(5) + DAY)) == (
        410, "bytes_gone", "the bytes of 'a' were removed: upload it again",
    )  # fmt: skip
    assert Artifact.objects.get(pk=model).deleted_at == b.later(3)


def test_the_same_bytes_stored_once_more_bring_it_back(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    assert b.model(alice, "a", 1) == model
    row = Artifact.objects.get(pk=model)
    assert (row.deleted_at, row.deleted_by, row.deleted_why) == (None, "", "")
    assert Event.objects.filter(type="artifact_restored", object_id=model).count() == 1


def test_the_output_of_a_job_says_that_it_was_deleted(lab):
    alice = lab.who["alice"]
    run = b.running(alice, lab.models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))

    def told() -> bool:
        (output,) = job_queries.as_dict(job_queries.one(alice, run.job))["artifacts"]
        return output["deleted"]

    assert told() is False
    deletion.delete(made, alice, b.later(61))
    assert told() is True


def test_a_retry_of_a_job_whose_checkpoint_was_deleted_begins_anew(lab):
    alice = lab.who["alice"]
    run = b.running(alice, lab.models)
    saved = b.output(run, "checkpoint", b"{}", kind="checkpoint")
    b.finished(run, "FAILED", exit_code=1, checkpoint=saved, step=3, now=b.later(60))
    deletion.delete(saved, alice, b.later(61))
    again = jobs.retry(run.job, alice, b.later(62))
    row = Job.objects.get(pk=again.job_id)
    assert (row.retry_of_id is not None, row.resume_id, row.resume_step) == (True, None, 0)


def test_deleted_bytes_are_not_taken_for_damaged(lab):
    alice, model = lab.who["alice"], lab.models[0]
    deletion.delete(model, alice, b.later(1))
    for entry in Artifact.objects.get(pk=model).files:
        artifact_files.remove_blob(entry["sha256"])
    verification.some(b.NOON + timedelta(days=99))
    assert Artifact.objects.get(pk=model).corrupt is False
