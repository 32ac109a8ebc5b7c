"""The same job off the same GPUs for the same job again and again: the third time within an hour is refused (D10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.models import Attempt, Job, SchedulerState
from scheduling.services import jobs, pool, whatif
from scheduling.store.clock import to_ms
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.evictions import in_order
from tests import builders as b
from tests.api.calls import Caller
from tests.checker.check import check_database
from tests.services.test_eviction import World, messages, state
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db

LOOP = "it was to evict the same job from the same GPUs a third time within an hour: for an hour it evicts nobody"


class Loop:
    """A Critical job that wants all GPUs, and a victim that has them again whenever that one does not take them."""

    def __init__(self) -> None:
        self.world = World(max_duration=14_400)
        self.owner = self.world.who["admin"]
        self.job = self.world.critical(100, gpu_count=4)

    @property
    def victim(self) -> str:
        """The state of the victim."""
        return state(self.world.victim.job)

    def evicts(self, seconds: float) -> bool:
        """The scheduler looks at the job, which waits; whether it has the victim asked to leave."""
        self.world.tick(seconds)
        return self.victim == "PREEMPTING"

    def held_while_it_leaves(self, seconds: float) -> None:
        """The job is held, so the victim may run on, but it leaves as it was asked to; then the job is released."""
        jobs.hold(self.job, self.owner, b.later(seconds))
        self.world.tick(seconds + 1)
        assert self.victim == "RUNNING"
        self.world.leaves(seconds + 2)
        self.begins(seconds + 3)
        jobs.hold(self.job, self.owner, b.later(seconds + 5), release=True)

    def held_once_it_has_left(self, seconds: float) -> None:
        """The victim leaves, and the job is held before it starts; then it is released."""
        self.world.leaves(seconds)
        jobs.hold(self.job, self.owner, b.later(seconds + 1))
        self.begins(seconds + 2)
        jobs.hold(self.job, self.owner, b.later(seconds + 5), release=True)

    def runs_on(self, seconds: float) -> None:
        """The job is held, and the victim, which may run on, does."""
        jobs.hold(self.job, self.owner, b.later(seconds))
        self.world.tick(seconds + 1)
        assert self.victim == "RUNNING"
        jobs.hold(self.job, self.owner, b.later(seconds + 2), release=True)

    def begins(self, seconds: float) -> None:
        """The victim has its GPUs again and runs."""
        self.world.tick(seconds)
        attempt = Attempt.objects.get(job_id=self.world.victim.job, ended_at__isnull=True)
        self.world.victim = replace(self.world.victim, attempt=str(attempt.pk), epoch=attempt.epoch)
        pool.claim("n1", str(attempt.pk), attempt.epoch, b.later(seconds))
        started = {"type": "started", "attempt": str(attempt.pk), "epoch": attempt.epoch, "pid": 1}
        b.beat("n1", now=b.later(seconds + 1), reports=[started])
        assert self.victim == "RUNNING"

    def changed(self, **kw) -> dict:
        """The body of a job that replaces it."""
        body = b.merge_body(self.world.models, priority="Critical", purpose="regression_gate", gpu_count=4)
        return {**body, "replaces": self.job, **kw}

    def edited(self, seconds: float, **kw) -> None:
        """Its owner changes the job: another takes its place, or one of its own."""
        found = jobs.submit(self.changed(**kw), self.owner, b.later(seconds))
        self.job = str(found.job_id)


def test_its_page_and_rest_tell_of_it_beside_why_it_waits_now():
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_while_it_leaves(start + 10)
    assert not loop.evicts(300)
    Job.objects.filter(pk=loop.job).update(no_evict_until=timezone.now() + timedelta(minutes=30))
    loop.world.tick(303)
    codes = [r["code"] for r in Caller(session="admin").get(f"jobs/{loop.job}/").json()["reasons"]]
    assert (len(codes) > 1, codes[0]) == (True, "EVICTS_NOBODY")
    assert "It may evict nobody until" in text(browser("admin").get(f"/jobs/{loop.job}/"))
    assert "It may evict nobody until" in text(browser("admin").get("/jobs/?state=waiting"))


def told(job: str, seconds: float) -> list[dict]:
    """The job's reasons beside the scheduler's own."""
    row = queries.full(Job.objects.filter(pk=job)).get()
    return [r for r in queries.as_dict(row, now=b.later(seconds))["reasons"] if r["code"] == "EVICTS_NOBODY"]


@pytest.mark.parametrize("way", [Loop.held_while_it_leaves, Loop.held_once_it_has_left])
def test_the_third_eviction_of_one_job_by_another_from_the_same_gpus_within_an_hour_is_refused_with_an_alarm(way):
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        assert told(loop.job, start) == []
        way(loop, start + 10)
    assert not loop.evicts(300)
    assert (loop.victim, state(loop.job), messages(loop.job, "eviction_loop")) == ("RUNNING", "QUEUED", [LOOP])
    assert Job.objects.get(pk=loop.job).no_evict_until == b.later(300 + 3600)
    loop.world.tick(303)
    (alarm,) = SchedulerState.objects.get().alarms
    assert (loop.victim, alarm["code"], alarm["message"]) == (
        "RUNNING", "EVICTION_LOOP",
        "1 job was to evict the same job from the same GPUs a third time within an hour and may evict nobody for an "
        f"hour: look at why it does not stay on them ({loop.job}).",
    )  # fmt: skip
    jobs.cancel(loop.job, loop.owner, b.later(304))
    loop.world.tick(305)
    assert SchedulerState.objects.get().alarms == []


def test_a_job_that_may_evict_nobody_says_until_when_and_then_evicts_again():
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_while_it_leaves(start + 10)
    assert not loop.evicts(300)
    until = b.later(300 + 3600)
    assert told(loop.job, 301) == [{
        "code": "EVICTS_NOBODY",
        "message": "It may evict nobody until 2 Mar 2026, 13:05 UTC: twice within an hour the same job left the same "
                   "GPUs for it or for what it replaced, and a third time would be a loop.",
        "numbers": {"until_ms": to_ms(until)},
    }]  # fmt: skip
    assert told(loop.job, 300 + 3600) == []
    assert not loop.evicts(3890)
    assert loop.evicts(3905)


def test_a_victim_that_runs_on_has_not_been_evicted_however_often_it_was_asked():
    loop = Loop()
    for start in (100, 200, 300, 400):
        assert loop.evicts(start)
        loop.runs_on(start + 10)
    assert (loop.evicts(500), messages(loop.job, "eviction_loop")) == (True, [])
    with connection.cursor() as cursor:
        found = check_database(cursor, now=b.later(501).timestamp())
    assert [each for each in found if "I19" in each] == []


@pytest.mark.parametrize("changed", [{}, {"max_duration": "2h"}])
def test_a_changed_job_goes_on_with_the_count_of_the_one_that_it_replaces_at_whatever_place(changed):
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_once_it_has_left(start + 10)
        loop.edited(start + 20, **changed)
    assert not loop.evicts(300)
    assert messages(loop.job, "eviction_loop") == [LOOP]


def test_the_plan_of_a_change_knows_that_it_would_be_the_third_time():
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_once_it_has_left(start + 10)
    found = whatif.plan(loop.changed(), loop.owner, b.later(290))
    assert (found.verdict, found.victims, found.reasons[0]["code"]) == ("later", (), "EVICTS_NOBODY")
    assert found.reasons[0]["message"].startswith("It would evict nobody for an hour: twice within an hour the same")


def test_a_job_that_has_no_right_to_evict_any_more_has_no_alarm_and_the_right_again_is_kept_from_it():
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_while_it_leaves(start + 10)
    assert not loop.evicts(300)
    loop.edited(302, priority="Normal")
    loop.world.tick(303)
    assert (told(loop.job, 303), SchedulerState.objects.get().alarms) == ([], [])
    again = whatif.plan(loop.changed(), loop.owner, b.later(303))
    assert (again.verdict, again.victims, again.reasons[0]["code"]) == ("later", (), "EVICTS_NOBODY")
    assert again.reasons[0]["message"].startswith("It may evict nobody until 2 Mar 2026, 13:05 UTC")
    still = whatif.plan(loop.changed(priority="Normal"), loop.owner, b.later(303))
    assert (still.verdict, [r for r in still.reasons if r["code"] == "EVICTS_NOBODY"]) == ("later", [])
    loop.edited(304)
    loop.world.tick(305)
    assert (len(told(loop.job, 305)), len(SchedulerState.objects.get().alarms)) == (1, 1)


@pytest.mark.parametrize("changed", [{}, {"max_duration": "2h"}])
def test_a_changed_job_may_evict_nobody_as_long_as_the_one_that_it_replaces_and_its_plan_and_timeline_say_so(changed):
    loop = Loop()
    for start in (100, 200):
        assert loop.evicts(start)
        loop.held_while_it_leaves(start + 10)
    assert not loop.evicts(300)
    found = whatif.plan(loop.changed(**changed), loop.owner, b.later(301))
    assert (found.verdict, found.victims, found.reasons[0]["code"]) == ("later", (), "EVICTS_NOBODY")
    loop.edited(302, **changed)
    assert not loop.evicts(303)
    assert Job.objects.get(pk=loop.job).no_evict_until == b.later(300 + 3600)
    (told,) = messages(loop.job, "submitted")
    assert "like that one it may evict nobody until 2 Mar 2026, 13:05 UTC" in told


def test_who_left_although_it_might_have_run_on_has_its_gpus_back_once():
    loop = Loop()
    loop.evicts(100)
    loop.held_while_it_leaves(110)
    jobs.cancel(loop.world.victim.job, loop.owner, b.later(120), force=True)
    b.finished(loop.world.victim, "CANCELLED", why="cancel", now=b.later(121))
    loop.world.tick(122)
    assert len(messages(loop.world.victim.job, "given_back")) == 1


@pytest.mark.parametrize("alone", ["HELD", "AFTER", "SWEEP_LIMIT"])
def test_what_keeps_a_job_out_of_the_queue_is_told_before_that_it_may_evict_nobody(alone):
    codes = ["UNHEARD", "RULE", alone, "EVICTS_NOBODY"]
    assert [each["code"] for each in in_order([{"code": code} for code in codes])] == [
        alone, "EVICTS_NOBODY", "UNHEARD", "RULE",
    ]  # fmt: skip
