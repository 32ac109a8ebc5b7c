"""What must never be, the database forbids, even when the code is wrong."""

from __future__ import annotations

import uuid

import pytest
from django.db import IntegrityError, transaction

from scheduling.models import (
    Allocation,
    Attempt,
    AttemptNode,
    Gpu,
    Job,
    JobSet,
    Level,
    Node,
    Predecessor,
    PreemptionRule,
    Project,
    Queue,
)
from scheduling.store import load, seed
from tests import builders as b

pytestmark = pytest.mark.django_db


def running_attempt():
    run = b.busy_lab()[1]
    return run, Attempt.objects.get(pk=run.attempt)


def refused(make):
    with pytest.raises(IntegrityError), transaction.atomic():
        make()


def test_a_gpu_has_at_most_one_open_allocation():
    run, attempt = running_attempt()
    other = Attempt.objects.create(
        job=attempt.job, number=2, epoch=9, granted_at=b.NOON, remaining_s=1, ended_at=b.NOON
    )
    gpu = Gpu.objects.get(uuid=run.gpus[0])
    refused(lambda: Allocation.objects.create(attempt=other, gpu=gpu, granted_at=b.NOON))


def test_a_job_has_at_most_one_live_attempt():
    _, attempt = running_attempt()
    refused(lambda: Attempt.objects.create(job=attempt.job, number=2, epoch=9, granted_at=b.NOON, remaining_s=1))


def test_attempt_numbers_and_epochs_are_unique_within_a_job():
    _, attempt = running_attempt()
    refused(
        lambda: Attempt.objects.create(
            job=attempt.job, number=1, epoch=9, granted_at=b.NOON, remaining_s=1, ended_at=b.NOON
        )
    )
    refused(
        lambda: Attempt.objects.create(
            job=attempt.job, number=2, epoch=1, granted_at=b.NOON, remaining_s=1, ended_at=b.NOON
        )
    )


@pytest.mark.parametrize(
    "wrong",
    [{"gpu_count": 0}, {"gpu_count": 10**6}, {"gpu_count": 3}, {"max_duration_s": 0}, {"ended_at": b.NOON},
     {"project": None}],
    ids=["no GPU", "too many GPUs", "not the product", "no duration", "ended but waiting", "nobody's"],
)  # fmt: skip
def test_an_accepted_job_is_whole(wrong):
    who = b.people()
    level = Level.objects.get(queue=Queue.objects.get(name="merge"), name="Normal")
    fields = {
        "id": uuid.uuid4(), "state": "QUEUED", "name": "x", "kind": "merge",
        "project": Project.objects.get(name="alpha"),
        "user_id": who["alice"].user_id, "queue": level.queue, "level": level,
        "submitted_at": b.NOON, "max_duration_s": 1,
        "gpu_count": 2, "node_count": 1, "gpus_per_node": 2,
    }  # fmt: skip
    refused(lambda: Job.objects.create(**{**fields, **wrong}))


def test_weights_are_never_negative():
    b.people()
    refused(lambda: Project.objects.filter(name="alpha").update(weight=-1))
    refused(lambda: Queue.objects.filter(name="merge").update(weight=-0.1))


def test_a_rule_that_has_come_to_go_upwards_is_not_followed():
    seed.policy()
    rule = PreemptionRule.objects.get(preemptor__name="Realtime")
    Level.objects.filter(pk=rule.victim_id).update(value=rule.preemptor.value)
    assert [each.victim_level for each in load.policy_of().preemption if each.queue == "inference"] == []


@pytest.mark.parametrize(
    "wrong",
    [{"outcome": "LOST"}, {"ended_at": b.NOON}, {"rank": 0}],
    ids=["an outcome without an end", "an end without an outcome", "two of one rank"],
)
def test_a_part_of_an_attempt_has_its_rank_and_says_how_it_ended(wrong):
    run, _ = running_attempt()
    b.node("n2")
    part = {"attempt_id": run.attempt, "node": Node.objects.get(name="n2"), "rank": 1}
    refused(lambda: AttemptNode.objects.create(**{**part, **wrong}))
    AttemptNode.objects.create(**part)


def test_a_job_that_waits_for_others_holds_no_gpus():
    run, _ = running_attempt()
    refused(lambda: Job.objects.filter(pk=run.job).update(awaits=1))


def test_a_job_waits_for_another_once_and_never_for_itself():
    made, run = b.busy_lab()
    job, other = (b.submitted(made.who["alice"], b.command_body(after=[run.job])) for _ in range(2))
    row = Predecessor.objects.get(job=job)
    wrong = [{"before": job, "place": 1}, {"before": run.job, "place": 1}, {"before": other, "place": 64}]
    for each in wrong:
        refused(lambda each=each: Predecessor.objects.create(
            job_id=job, before_id=each["before"], named=uuid.uuid4(), place=each["place"]
        ))  # fmt: skip
    refused(lambda: Predecessor.objects.create(job_id=job, before_id=other, named=row.named, place=1))


def test_a_job_that_is_kept_back_holds_no_gpus_and_is_of_a_set():
    run, _ = running_attempt()
    refused(lambda: Job.objects.filter(pk=run.job).update(kept_back=True))


def test_a_key_is_of_a_set_and_there_once():
    first, second = Job.objects.filter(member_of=b.a_set(b.lab().who["alice"], "pipeline")).order_by("key")
    refused(lambda: Job.objects.filter(pk=second.pk).update(key=first.key))
    refused(lambda: Job.objects.filter(pk=second.pk).update(key=""))
    refused(lambda: Job.objects.filter(pk=second.pk).update(member_of=None))


@pytest.mark.parametrize("wrong", [{"kind": "bag"}, {"max_running": 1}, {"kind": "sweep", "max_running": 0}])
def test_a_set_is_a_pipeline_or_a_sweep_and_only_that_has_a_limit(wrong):
    made = b.a_set(b.lab().who["alice"], "pipeline")
    refused(lambda: JobSet.objects.filter(pk=made).update(**wrong))
