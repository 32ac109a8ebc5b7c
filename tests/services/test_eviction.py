"""Preemption as the database holds it: victims and nomination together or not at all, and what comes after (D6-D10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduling.models import Attempt, Balance, Event, Gpu, Job, LostWork, Nomination, SchedulerState
from scheduling.services import artifact_files, jobs, pool, tick
from scheduling.store import load, measured
from scheduling.store.commit import balances, evictions
from scheduling.store.queries import share
from scheduling.web import share_words
from tests import builders as b

pytestmark = pytest.mark.django_db

GRACE_S = 120


class World:
    """One node of four GPUs, alice's Low job on all of them since noon, and admin who may ask for Critical."""

    def __init__(self, *, gpu_count: int = 4, **kw) -> None:
        lab, victim = (b.lab(), None) if kw or gpu_count != 4 else b.full_lab()
        self.who, self.models = lab.who, lab.models
        self.victim = victim or b.running(lab.who["alice"], lab.models, priority="Low", gpu_count=gpu_count, **kw)

    def critical(self, seconds: float, **kw) -> str:
        body = b.merge_body(self.models, priority="Critical", purpose="regression_gate", **kw)
        return b.submitted(self.who["admin"], body, now=b.later(seconds))

    def tick(self, seconds: float) -> tick.TickResult:
        b.listening(seconds, max(0, seconds - 5))
        b.beat("n1", now=b.later(seconds))
        return b.ticked(b.later(seconds))

    def leaves(self, seconds: float, **kw) -> None:
        """The victim has stopped as it was asked to."""
        answer = b.finished(self.victim, "PREEMPTED", exit_code=85, why="preempt", now=b.later(seconds), **kw)
        assert answer["ok"], answer

    def saves(self, seconds: float) -> str:
        return b.output(self.victim, "checkpoint", b"{}", kind="checkpoint", now=b.later(seconds))

    def evicted(self) -> str:
        """The Critical job, submitted and given its victim after 100 s."""
        job = self.critical(100)
        self.tick(100)
        return job


def state(job: str) -> str:
    return Job.objects.get(pk=job).state


def messages(job: str, kind: str) -> list[str]:
    return list(Event.objects.filter(object_id=job, type=kind).order_by("id").values_list("message", flat=True))


def test_a_critical_job_has_its_victim_asked_to_save_and_gets_its_gpus_kept():
    world = World()
    job = world.evicted()
    assert (state(world.victim.job), state(job)) == ("PREEMPTING", "QUEUED")
    kept = Nomination.objects.get(job_id=job)
    assert (len(kept.gpus), set(kept.gpus) <= set(world.victim.gpus)) == (2, True)
    assert kept.deadline == b.later(100 + GRACE_S + 30)
    wanted = b.beat("n1", now=b.later(101))["desired"]
    assert [(w["attempt"], w["action"], w["why"], w["grace_s"]) for w in wanted] == [
        (world.victim.attempt, "stop", "preempt", GRACE_S - 1.0)
    ]


def test_both_timelines_say_what_happens_and_why_without_naming_each_other():
    world = World()
    job = world.evicted()
    assert messages(world.victim.job, "preempting") == [
        "its GPUs are needed by a Critical job of queue merge; it has 120 s to save and goes back to the queue"
    ]
    assert messages(job, "nominated") == [
        "n1/0, n1/1 will be its own: 1 running job of lower levels was asked to save and leave"
    ]


def test_a_job_is_told_when_its_gpus_are_kept_for_it_no_more():
    world = World()
    job = world.evicted()
    Gpu.objects.filter(uuid=Nomination.objects.get(job_id=job).gpus[0]).update(state="UNHEALTHY")
    world.tick(101)
    assert messages(job, "nomination_ended") == [
        "what was kept for it is kept no more: a GPU or a node of it takes no work now, or who has it does not leave; "
        "it waits anew at its place"
    ]


def test_a_job_that_is_held_while_its_victim_leaves_is_told_that_and_no_other_cause():
    world = World()
    job = world.evicted()
    jobs.hold(job, world.who["alice"], b.later(101))
    world.tick(102)
    assert messages(job, "nomination_ended") == ["what was kept for it is kept no more: it is held"]


def test_the_victim_goes_back_to_its_place_and_the_preemptor_starts_on_what_was_kept_for_it():
    world = World()
    before = Job.objects.get(pk=world.victim.job)
    job = world.evicted()
    kept = set(Nomination.objects.get(job_id=job).gpus)
    world.leaves(110, checkpoint=world.saves(109), step=7)
    after = Job.objects.get(pk=world.victim.job)
    assert (after.state, after.preempted, after.preempt_count, after.resume_step) == ("QUEUED", True, 1, 7)
    assert (after.submitted_at, after.level_id, after.params) == (before.submitted_at, before.level_id, before.params)
    assert (after.infra_failures, after.app_failures) == (0, 0)
    assert world.tick(111).started == 1
    holds = set(Attempt.objects.get(job_id=job).allocations.values_list("gpu__uuid", flat=True))
    assert (state(job), holds, Nomination.objects.count()) == ("DISPATCHING", kept, 0)


def test_a_job_that_resumes_is_no_longer_marked_preempted():
    world = World(gpu_count=2)
    Job.objects.filter(pk=world.victim.job).update(preempted=True, state="QUEUED")
    Attempt.objects.filter(pk=world.victim.attempt).update(ended_at=b.NOON)
    Attempt.objects.get(pk=world.victim.attempt).allocations.update(released_at=b.NOON)
    world.tick(1)
    assert Job.objects.get(pk=world.victim.job).preempted is False


def test_nobody_else_gets_what_is_kept_for_the_preemptor():
    world = World()
    world.critical(100, gpu_count=4)
    b.submitted(world.who["alice"], b.merge_body(world.models, priority="High"), now=b.later(90))
    world.tick(100)
    world.leaves(110)
    taken = list(Nomination.objects.get().gpus)
    assert world.tick(111).started == 1
    running = Attempt.objects.get(ended_at__isnull=True)
    assert running.job.level.name == "Critical"
    assert set(running.allocations.values_list("gpu__uuid", flat=True)) == set(taken)


def test_a_grant_of_gpus_that_are_kept_for_another_job_is_not_written():
    world = World()
    world.evicted()
    world.leaves(110)
    other = b.submitted(world.who["alice"], b.merge_body(world.models), now=b.later(110))
    kept = Nomination.objects.get()
    plan = tick.Ticker().kept.decide(b.later(111), epoch=1).plan
    start = next(each for each in plan.starts if each.job == str(kept.job_id))
    stolen = replace(plan, starts=(type(start)(other, start.gpus, start.nodes),))
    applied = tick.grants.apply(stolen, now=b.later(111), policy=load.policy_of(), actor="test")
    assert (applied.started, applied.stale) == ([], [f"start {other}"])


def test_a_victim_that_was_gone_when_the_plan_came_leaves_everything_as_it_was():
    world = World()
    job = world.critical(100)
    plan = tick.Ticker().kept.decide(b.later(100), epoch=1).plan
    b.finished(world.victim, "SUCCEEDED", now=b.later(100))
    assert evictions.evict(plan.nominations[0], plan.preempts, now=b.later(100), actor="test") is None
    assert (state(world.victim.job), Nomination.objects.count(), messages(job, "nominated")) == ("SUCCEEDED", 0, [])


def test_of_two_victims_none_is_asked_when_one_is_gone():
    world = World(gpu_count=2)
    other = b.running(world.who["alice"], world.models, priority="Low")
    world.critical(100, gpu_count=4)
    plan = tick.Ticker().kept.decide(b.later(100), epoch=1).plan
    assert len(plan.preempts) == 2
    b.finished(replace(other, node="n1"), "SUCCEEDED", now=b.later(100))
    assert evictions.evict(plan.nominations[0], plan.preempts, now=b.later(100), actor="test") is None
    assert (state(world.victim.job), Attempt.objects.filter(action="stop").count()) == ("RUNNING", 0)


def test_the_end_of_the_grace_stops_a_victim_that_did_not_save():
    world = World()
    world.evicted()
    world.tick(100 + GRACE_S - 1)
    assert b.beat("n1", now=b.later(100 + GRACE_S - 1))["desired"][0]["action"] == "stop"
    world.tick(100 + GRACE_S)
    assert b.beat("n1", now=b.later(100 + GRACE_S))["desired"][0]["action"] == "kill"
    assert messages(world.victim.job, "kill_requested") == ["the grace is over"]


def test_a_victim_that_did_not_save_in_time_runs_on_where_another_one_can_go_and_there_is_no_third_plan():
    world = World(gpu_count=2)
    other = b.running(world.who["alice"], world.models, priority="Low", now=b.later(1))
    job = world.evicted()
    (first,) = Job.objects.filter(state="PREEMPTING")
    second = next(run for run in (world.victim, other) if run.job != str(first.pk))
    world.tick(100 + GRACE_S)
    assert (state(str(first.pk)), state(second.job)) == ("RUNNING", "PREEMPTING")
    assert set(Nomination.objects.get(job_id=job).gpus) == set(second.gpus)
    world.tick(100 + 2 * GRACE_S)
    wanted = {each["attempt"]: each["action"] for each in b.beat("n1", now=b.later(101 + 2 * GRACE_S))["desired"]}
    assert wanted[second.attempt] == "kill"
    assert list(wanted.values()).count("run") == 1


def test_a_victim_is_spared_when_the_job_it_was_to_leave_for_is_cancelled():
    world = World()
    job = world.evicted()
    jobs.cancel(job, world.who["admin"], b.later(105))
    world.tick(106)
    assert (state(world.victim.job), Nomination.objects.count()) == ("RUNNING", 0)
    assert b.beat("n1", now=b.later(107))["desired"][0]["action"] == "run"


def test_a_spared_victim_that_stops_all_the_same_was_preempted_and_did_not_fail():
    world = World()
    jobs.cancel(world.evicted(), world.who["admin"], b.later(105))
    world.tick(106)
    world.leaves(108)
    job = Job.objects.get(pk=world.victim.job)
    assert (job.state, job.preempted, job.yields) == ("QUEUED", True, 0)


def test_a_victim_that_finishes_within_its_grace_has_succeeded():
    world = World()
    job = world.evicted()
    b.finished(world.victim, "SUCCEEDED", now=b.later(110))
    assert messages(world.victim.job, "attempt_ended") == [
        "attempt 1 ended: SUCCEEDED (it was done before it had to leave)"
    ]
    assert (state(world.victim.job), world.tick(111).started, state(job)) == ("SUCCEEDED", 1, "DISPATCHING")


def test_a_victim_that_is_cancelled_meanwhile_is_cancelled():
    world = World()
    world.evicted()
    jobs.cancel(world.victim.job, world.who["alice"], b.later(105))
    assert state(world.victim.job) == "CANCELLING"
    world.leaves(110)
    assert state(world.victim.job) == "CANCELLED"


def test_no_victims_are_chosen_while_checkpoints_can_not_be_stored_and_the_board_says_so(monkeypatch):
    world = World()
    monkeypatch.setattr(artifact_files, "can_store", lambda: False)
    world.evicted()
    assert state(world.victim.job) == "RUNNING"
    (alarm,) = SchedulerState.objects.get().alarms
    assert (alarm["code"], "no job is preempted" in alarm["message"]) == ("STORE_DOWN", True)
    monkeypatch.undo()
    world.tick(103)
    assert state(world.victim.job) == "PREEMPTING"


# Lost work


def test_what_was_not_saved_is_lost_to_the_preemption_and_given_back():
    world = World()
    world.evicted()
    world.leaves(160)
    lost = LostWork.objects.get()
    assert (lost.cause, lost.redo_since, lost.gpu_ms) == ("preempt", b.NOON, 4 * 160_000)
    assert Balance.objects.get(ledger="project", key="alpha").gpu_ms == pytest.approx(0.0, abs=1e-6)


def test_the_share_page_and_rest_tell_what_was_given_back_by_project_and_cause():
    world = World()
    world.evicted()
    world.leaves(160)
    found = share.share(world.who["bob"], b.later(161))["lost"]
    assert found == [{"project": "alpha", "cause": "preempt", "gpu_hours": round(4 * 160 / 3600, 4), "attempts": 1,
                      "in_vain": 0}]  # fmt: skip
    assert share_words.lost_words(found)[0]["words"] == "preempted for jobs of higher priority"
    assert share.share(world.who["bob"], b.later(161 + 31 * 86_400))["lost"] == []


def test_of_a_victim_that_saved_only_the_time_of_saving_is_lost():
    world = World()
    world.evicted()
    world.leaves(130, checkpoint=world.saves(129), step=7)
    lost = LostWork.objects.get()
    assert (lost.redo_since, lost.gpu_ms) == (b.later(100), 4 * 30_000)
    assert Balance.objects.get(ledger="project", key="alpha").gpu_ms == pytest.approx(4 * 100_000, rel=1e-4)


def test_a_checkpoint_of_its_own_bounds_what_a_lost_node_costs():
    world = World()
    saved = world.saves(40)
    report = {"type": "checkpoint", "attempt": world.victim.attempt, "epoch": world.victim.epoch, "artifact": saved,
              "step": 3}  # fmt: skip
    b.beat("n1", now=b.later(40), reports=[report])
    b.listening(140)
    b.ticked(b.later(140))
    lost = LostWork.objects.get()
    assert (lost.cause, lost.redo_since, lost.gpu_ms) == ("lost", b.later(40), 4 * 100_000)


def test_the_job_pays_for_its_own_failures():
    world = World()
    b.finished(world.victim, "FAILED", exit_code=1, now=b.later(100))
    assert LostWork.objects.count() == 0
    assert Balance.objects.get(ledger="project", key="alpha").gpu_ms == pytest.approx(4 * 100_000, rel=1e-3)


def test_balances_counted_anew_know_what_was_given_back():
    world = World()
    world.evicted()
    world.leaves(130, checkpoint=world.saves(129), step=7)
    assert balances.rebuild(b.later(131)) == 0


# What saving and resuming cost


def test_what_saving_and_resuming_takes_is_measured_and_expected_of_others_of_the_kind():
    world = World()
    job = world.evicted()
    world.leaves(130, checkpoint=world.saves(129), step=7)
    world.tick(131)
    jobs.cancel(job, world.who["admin"], b.later(132))
    world.tick(133)
    again = Attempt.objects.get(job_id=world.victim.job, ended_at__isnull=True)
    pool.claim("n1", str(again.pk), again.epoch, b.later(133))
    run = {"attempt": str(again.pk), "epoch": again.epoch}
    b.beat("n1", now=b.later(134), reports=[{"type": "started", "pid": 1, **run}])
    for seconds, step in ((140, 7), (152, 8), (160, 9)):
        b.beat("n1", now=b.later(seconds), reports=[{"type": "progress", "step": step, "total": 10, **run}])
    (attempt,) = load.snapshot(b.later(160)).live
    assert (attempt.save_s, attempt.restore_s) == (50, 20)


def resuming() -> tuple[b.Running, Callable[[float], None]]:
    """A victim that saved at step 7 runs again since 134; calling the second lets it reach step 8 at that second."""
    world = World()
    job = world.evicted()
    world.leaves(130, checkpoint=world.saves(129), step=7)
    jobs.cancel(job, world.who["admin"], b.later(131))
    world.tick(133)
    again = Attempt.objects.get(job_id=world.victim.job, ended_at__isnull=True)
    run = replace(world.victim, attempt=str(again.pk), epoch=again.epoch)
    pool.claim("n1", run.attempt, run.epoch, b.later(133))
    told = {"attempt": run.attempt, "epoch": run.epoch}
    b.beat("n1", now=b.later(134), reports=[{"type": "started", "pid": 1, **told}])
    progress = {"type": "progress", "step": 8, "total": 10, **told}
    return run, lambda seconds: b.beat("n1", now=b.later(seconds), reports=[progress])


def test_the_time_of_resuming_is_given_back_as_lost_to_what_made_it_resume():
    run, gets_on = resuming()
    gets_on(143)
    b.finished(run, "SUCCEEDED", now=b.later(200))
    lost = LostWork.objects.get(attempt_id=run.attempt)
    assert (lost.cause, lost.redo_since, lost.gpu_ms) == ("preempt", None, 4 * 10_000)
    assert balances.rebuild(b.later(201)) == 0


def test_time_in_which_it_resumed_and_was_asked_to_stop_again_is_given_back_once():
    run, gets_on = resuming()
    Attempt.objects.filter(pk=run.attempt).update(why="drain", asked_at=b.later(140))
    gets_on(143)
    saved = b.output(run, "save", b"{}", now=b.later(149), kind="checkpoint")
    b.finished(run, "PREEMPTED", why="drain", checkpoint=saved, step=8, now=b.later(150))
    lost = LostWork.objects.get(attempt_id=run.attempt)
    assert (lost.redo_since, lost.resume_until, lost.gpu_ms) == (b.later(140), b.later(140), 4 * 17_000)
    assert balances.rebuild(b.later(201)) == 0


@pytest.mark.parametrize(("seconds", "step"), [(0, 1), (1, 1), (1.01, 2), (3, 5), (20, 20), (21, 50), (700, 1000)])
def test_measured_seconds_are_rounded_up_so_that_they_seldom_change(seconds, step):
    assert measured.rounded_up(seconds) == step
