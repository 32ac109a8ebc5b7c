"""What waits and what runs, as the core gets it: every wish that was asked for, and every fact that decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduling.core.lifecycle import JobState
from scheduling.core.policy import DEFAULT_POLICY, Backfill, Preemption
from scheduling.core.resources import GroupRule, ResourceRequest
from scheduling.core.snapshot import Nomination, Window
from scheduling.models import Attempt, BillingWeight, Job, Node, PlanningSettings, Project
from scheduling.models import Nomination as NominationRow
from scheduling.models import Window as WindowRow
from scheduling.store import load, topology
from scheduling.store.clock import to_ms
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    lab = b.lab()
    return lab.who["alice"], lab.models


def the_waiting(now=b.NOON):
    (job,) = load.snapshot(now).waiting
    return job


def test_every_wish_of_a_waiting_job_is_loaded(world):
    alice, models = world
    body = b.merge_body(
        models, group="ensemble-7", not_before="2026-03-02T13:00:00Z", start_by="2026-03-02T14:00:00Z",
        anti_affinity={"group": "noisy", "level": "node"}, max_duration="2h",
        **{"with": {"group": "g", "level": "rack"}},
    )  # fmt: skip
    b.submitted(alice, body)
    job = the_waiting()
    assert (job.group, job.not_before_ms, job.start_by_ms) == ("ensemble-7", to_ms(b.later(3600)), to_ms(b.later(7200)))
    assert (job.request.near, job.request.apart) == (GroupRule("g", "rack"), GroupRule("noisy", "node"))
    assert (job.remaining_s, job.preemptible, job.request.remainder) == (7200, True, 0)


def test_a_job_that_asked_for_nothing_special_is_loaded_without_wishes(world):
    alice, models = world
    b.submitted(alice, b.merge_body(models))
    job = the_waiting()
    assert job.request == ResourceRequest(2, nvlink_required=True, max_duration_s=3600)
    assert (job.group, job.not_before_ms, job.start_by_ms) == (None, 0, None)


def test_wishes_about_topology_survive_the_database():
    request = ResourceRequest(
        19, node_count=2, gpus_per_node=8, remainder=3, required_level="rack", max_wait_for_level_s=60, allow_span=True,
        near=GroupRule("a", "node"), apart=GroupRule("b", "rack"),
    )  # fmt: skip
    bare = ResourceRequest(19, node_count=2, gpus_per_node=8, remainder=3)
    assert replace(bare, **topology.restored(topology.stored(request))) == request
    assert topology.stored(bare) == {}


def test_a_running_attempt_is_loaded_with_what_decides_about_it(world):
    alice, models = world
    BillingWeight.objects.create(gpu_model="Test 80GB", weight=1.5)
    run = b.running(alice, models, group="g", anti_affinity={"group": "h", "level": "node"}, priority="High")
    (attempt,) = load.snapshot(b.later(60)).live
    assert (attempt.job, attempt.gpus, attempt.nodes) == (run.job, tuple(sorted(run.gpus)), ("n1",))
    assert (attempt.level, attempt.level_value, attempt.preemptible, attempt.state) == (
        "High",
        3,
        True,
        JobState.RUNNING,
    )
    assert (attempt.end_ms, attempt.billing_micro) == (to_ms(b.later(3600)), 3_000_000)
    assert (attempt.group, attempt.apart, attempt.saved_ms) == ("g", GroupRule("h", "node"), None)


def test_a_granted_attempt_that_nobody_claimed_ends_by_its_grant(world):
    alice, models = world
    b.submitted(alice, b.merge_body(models))
    b.ticked(b.later(5))
    (attempt,) = load.snapshot(b.later(6)).live
    assert (attempt.unclaimed, attempt.started_ms, attempt.end_ms) == (("n1",), None, to_ms(b.later(3605)))


def test_a_checkpoint_counts_from_when_the_attempt_made_it(world):
    alice, models = world
    run = b.running(alice, models)
    saved = b.output(run, "save", b"{}", now=b.later(50), kind="checkpoint")
    b.beat(now=b.later(51), reports=[
        {"type": "checkpoint", "attempt": run.attempt, "epoch": run.epoch, "artifact": saved, "step": 5}])  # fmt: skip
    (attempt,) = load.snapshot(b.later(60)).live
    assert attempt.saved_ms == to_ms(b.later(50))


def test_a_checkpoint_that_it_resumed_from_is_none_of_its_own(world):
    alice, models = world
    run = b.running(alice, models)
    saved = b.output(run, "save", b"{}", now=b.later(50), kind="checkpoint")
    Attempt.objects.filter(pk=run.attempt).update(resume=saved)
    Job.objects.filter(pk=run.job).update(resume=saved)
    assert load.snapshot(b.later(60)).live[0].saved_ms is None


def test_evictions_of_the_last_day_are_counted(world):
    alice, models = world
    job = Job.objects.get(pk=b.submitted(alice, b.merge_body(models)))
    for number, hours in enumerate((1, 23, 25), 1):
        ended = b.NOON - timedelta(hours=hours)
        Attempt.objects.create(job=job, number=number, epoch=number, granted_at=ended, remaining_s=1, ended_at=ended,
                               outcome="PREEMPTED", why="preempt")  # fmt: skip
    assert the_waiting().recent_preemptions == 2


def test_nominations_of_waiting_jobs_are_loaded(world):
    alice, models = world
    job = b.submitted(alice, b.merge_body(models))
    NominationRow.objects.create(job_id=job, gpus=["GPU-n1-0"], deadline=b.later(60))
    assert load.snapshot(b.NOON).nominations == (Nomination(job, ("GPU-n1-0",), to_ms(b.later(60))),)


def test_windows_are_loaded_until_they_end(world):
    window = WindowRow.objects.create(name="move", start=b.later(60), end=b.later(600), created_at=b.NOON,
                                      project=Project.objects.get(name="beta"))  # fmt: skip
    window.nodes.add(Node.objects.get(name="n1"))
    assert load.snapshot(b.later(599)).windows == (
        Window("reserved", ("n1",), to_ms(b.later(60)), to_ms(b.later(600)), "beta"),
    )
    assert load.snapshot(b.later(600)).windows == ()


def test_the_seeded_planning_settings_are_the_cores_defaults():
    b.people()
    assert replace(load.policy_of(), project_weights={}, user_weights={}) == replace(
        DEFAULT_POLICY, preemption=load.policy_of().preemption, lease_s=load.policy_of().lease_s,
        claim_s=load.policy_of().claim_s, retry=load.policy_of().retry,
    )  # fmt: skip


def test_what_an_operator_sets_about_planning_is_the_policy():
    b.people()
    PlanningSettings.objects.update(
        prefer="best_fit", nvlink_mode="exclusive", in_flight="cycle", ledgers="project", reservations_per_level=3,
        aged_after_s=60, aged_reservations=2, rack_patience_s=30, protect_s=5, protect_times=4, nomination_slack_s=7,
    )  # fmt: skip
    policy = load.policy_of()
    assert (policy.prefer, policy.nvlink_mode, policy.in_flight, policy.ledgers) == (
        "best_fit", "exclusive", "cycle", ("project",),
    )  # fmt: skip
    assert policy.backfill == Backfill(3, 60.0, 2, 30.0)
    assert policy.evict == Preemption(5.0, 4, 7.0)
