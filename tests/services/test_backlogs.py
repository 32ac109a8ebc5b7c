"""A node that comes back with hundreds of reports: it is answered before it asks again, and one refusal is enough."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from scheduling.services import pool
from tests import builders as b

pytestmark = pytest.mark.django_db


def progress(run: b.Running, step: int, epoch: int | None = None) -> dict:
    told = {"type": "progress", "attempt": run.attempt, "epoch": run.epoch if epoch is None else epoch}
    return {**told, "step": step, "total": 100}


def test_a_fenced_attempt_is_refused_once_a_message_and_every_report_is_answered():
    _lab, run = b.busy_lab()
    answers = b.beat(reports=[progress(run, step, epoch=9) for step in range(40)])["answers"]
    assert [answer["n"] for answer in answers] == list(range(40))
    assert {answer["code"] for answer in answers} == {"stale_epoch"}
    assert Event.objects.filter(type="write_refused").count() == 1


def test_its_end_is_looked_at_all_the_same():
    _lab, run = b.busy_lab()
    b.finished(run, "FAILED", exit_code=1)
    end = {"type": "finished", "attempt": run.attempt, "epoch": run.epoch, "outcome": "FAILED", "exit_code": 1}
    answers = b.beat(reports=[progress(run, 1), end])["answers"]
    assert [answer["ok"] for answer in answers] == [False, True]  # it was delivered before: no news


def test_others_in_the_same_message_are_taken():
    _lab, run = b.busy_lab()
    answers = b.beat(reports=[progress(run, 1, epoch=9), progress(run, 7)])["answers"]
    assert ([answer["ok"] for answer in answers], Job.objects.get(pk=run.job).progress_step) == ([False, True], 7)


def test_after_a_third_of_the_agents_patience_it_is_answered_for_what_was_taken_till_then(monkeypatch):
    _lab, run = b.busy_lab()
    clock = iter(range(1000))  # a second for each look: the agent asks again after three
    monkeypatch.setattr(pool.time, "monotonic", lambda: float(next(clock)))
    answers = b.beat(reports=[progress(run, step) for step in range(1, 30)])["answers"]
    assert [answer["n"] for answer in answers] == [0, 1]
    assert Job.objects.get(pk=run.job).progress_step == 2
