"""``max_duration`` over attempts, as the server keeps it: whoever restarts, and whatever the node does (D25)."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event, Job
from scheduling.services import pool
from scheduling.services.tick import Ticker, run_tick
from tests import builders as b

pytestmark = pytest.mark.django_db

LIMIT_S = 60
# The node speaks first: the server waits for its kill and a heartbeat.
LATE_S = 20


@pytest.fixture
def run():
    lab = b.lab()
    return b.running(lab.who["alice"], lab.models, max_duration=LIMIT_S)


def wanted(at):
    b.listening(at, max(0, at - 20))
    return [(w["action"], w["why"]) for w in b.beat(now=b.later(at))["desired"]]


def test_a_node_that_does_not_enforce_it_is_told_to_kill(run):
    wanted(LIMIT_S + LATE_S - 1)
    b.ticked(b.later(LIMIT_S + LATE_S - 0.1))
    assert wanted(LIMIT_S + LATE_S)[0][0] == "run"
    b.ticked(b.later(LIMIT_S + LATE_S + 0.1))
    assert wanted(LIMIT_S + LATE_S + 1) == [("kill", "time_limit")]
    b.finished(run, "TIMED_OUT", why="time_limit", now=b.later(LIMIT_S + LATE_S + 2))
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.infra_failures, job.app_failures) == ("TIMED_OUT", 0, 0)


def test_a_scheduler_that_starts_anew_counts_from_the_recorded_start(run):
    b.listening(30)
    b.beat(now=b.later(30))
    run_tick("before", b.later(30), Ticker())
    wanted(LIMIT_S + LATE_S)
    assert run_tick("after", b.later(LIMIT_S + LATE_S + 0.1), Ticker()).led
    assert wanted(LIMIT_S + LATE_S + 1) == [("kill", "time_limit")]


def test_an_outage_of_the_server_lengthens_nothing(run):
    b.listening(10)
    b.listening(LIMIT_S + 300, LIMIT_S + 299)
    b.beat(now=b.later(LIMIT_S + 300))
    b.ticked(b.later(LIMIT_S + 300))
    assert wanted(LIMIT_S + 301) == [("kill", "time_limit")]


def test_a_node_that_registers_again_with_the_job_does_not_start_its_time_anew(run):
    held = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}]
    assert pool.register("n1", b.description("n1", attempts=held), b.later(50))["adopt"] == [run.attempt]
    report = {"type": "started", "attempt": run.attempt, "epoch": run.epoch, "pid": 1}
    b.beat(now=b.later(51), reports=[report])  # an agent that was restarted tells it again
    assert Attempt.objects.get(pk=run.attempt).started_at == b.NOON
    wanted(LIMIT_S + LATE_S)
    b.ticked(b.later(LIMIT_S + LATE_S + 0.1))
    assert wanted(LIMIT_S + LATE_S + 1) == [("kill", "time_limit")]


def test_the_next_attempt_has_what_the_ones_before_have_left(run):
    b.finished(run, "PREEMPTED", exit_code=85, why="drain", now=b.later(45))
    b.ticked(b.later(46))
    assert Attempt.objects.get(number=2).remaining_s == pytest.approx(15, abs=1)


def test_time_before_the_start_does_not_count():
    lab = b.lab()
    b.submitted(lab.who["alice"], b.merge_body(lab.models, max_duration=LIMIT_S))
    b.ticked()
    one = b.beat()["desired"][0]
    pool.claim("n1", one["attempt"], one["epoch"], b.NOON)
    b.listening(50)
    b.beat(now=b.later(50), reports=[{"type": "started", "attempt": one["attempt"], "epoch": one["epoch"], "pid": 1}])
    b.listening(LIMIT_S + 40, 50)
    b.beat(now=b.later(LIMIT_S + 40))
    b.ticked(b.later(LIMIT_S + 40))
    assert wanted(LIMIT_S + 41)[0][0] == "run"


def test_a_job_that_timed_out_is_not_tried_again_whatever_its_retries():
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models, max_duration=LIMIT_S, retries=5)
    b.finished(run, "TIMED_OUT", why="time_limit", now=b.later(LIMIT_S))
    assert (Job.objects.get(pk=run.job).state, Event.objects.filter(type="requeued").count()) == ("TIMED_OUT", 0)
