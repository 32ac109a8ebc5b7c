"""A node that can't start what it was given: its GPUs are free at once, the job goes elsewhere, slowly if it must."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduling.models import Allocation, Attempt, Event, Gpu, Job, NodeLive
from scheduling.services import pool, tick
from scheduling.services.tick import Ticker
from tests import builders as b

pytestmark = pytest.mark.django_db

WHY = "no space left on device"


def refused(job: str, at: float) -> str:
    """The node that has the job's attempt claims it and can't start it; returns its name."""
    run = Attempt.objects.get(job_id=job, ended_at=None)
    name = run.nodes.get().node.name
    pool.claim(name, str(run.pk), run.epoch, b.later(at))
    end = {"type": "finished", "attempt": str(run.pk), "epoch": run.epoch, "outcome": "LOST", "error": WHY}
    assert b.beat(name, now=b.later(at), reports=[end])["answers"][0]["ok"]
    return name


def ticks(at: float, *names: str) -> None:
    b.listening(at, max(0, at - 5))
    for name in names:
        b.beat(name, now=b.later(at))
    b.ticked(b.later(at))


def test_its_gpus_are_free_with_the_same_word_that_ends_the_attempt():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, gpu_count=4))
    b.ticked()
    refused(job, 1)
    row = Job.objects.get(pk=job)
    assert (row.state, row.error, row.app_failures) == ("QUEUED", WHY, 0)
    assert not Allocation.objects.filter(released_at=None).exists()
    other = b.submitted(lab.who["alice"], b.merge_body(lab.models, gpu_count=4, name="other"), now=b.later(2))
    ticks(2, "n1")
    assert Job.objects.get(pk=other).state == "DISPATCHING"


def test_the_job_goes_to_another_node_and_its_own_retries_are_not_touched():
    lab = b.lab()
    b.node("n2")
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, retries=1))
    b.ticked()
    first = refused(job, 1)
    ticks(12, "n1", "n2")
    again = Attempt.objects.get(job_id=job, ended_at=None).nodes.get().node.name
    row = Job.objects.get(pk=job)
    assert ({first, again}, row.app_failures, row.infra_failures) == ({"n1", "n2"}, 0, 1)


def test_where_there_is_no_other_node_it_is_tried_once_in_each_doubling_pause_and_then_fails_with_the_reason():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.ticked()
    tried, at = [], 1.0
    while Job.objects.get(pk=job).state != "FAILED":
        refused(job, at)
        tried.append(at)
        pause = (Job.objects.get(pk=job).eligible_at or b.later(at)) - b.later(at)
        ticks(at + pause.total_seconds() - 0.5, "n1")
        assert not Attempt.objects.filter(ended_at=None).exists()
        at += pause.total_seconds()
        ticks(at, "n1")
    assert [after - before for before, after in pairwise(tried)] == [10, 20, 40, 80, 160]
    error = Job.objects.get(pk=job).error
    assert error.startswith("lost to the infrastructure 6 times; the budget is 5; the last time: ")
    assert len(error) > len("lost to the infrastructure 6 times; the budget is 5; the last time: ")


def test_a_plan_that_the_rows_refuse_is_not_made_again_and_holds_up_nobody_else():
    lab = b.lab()
    b.node("n2", gpus=1)
    ticker = Ticker()
    tick.run_tick("test", b.NOON, ticker)  # what it keeps has all five GPUs free
    run = b.running(lab.who["alice"], lab.models, gpu_count=4, now=b.later(1))
    Event.objects.filter(object_id=run.job).delete()  # it never hears of that job
    wide = b.submitted(lab.who["alice"], b.merge_body(lab.models, gpu_count=4, name="wide"), now=b.later(2))
    small = b.submitted(lab.who["alice"], b.command_body(gpu_count=1, name="small"), now=b.later(3))
    first = tick.run_tick("test", b.later(4), ticker)
    assert (first.stale, Job.objects.get(pk=small).state) == ((f"start {wide}",), "DISPATCHING")
    assert tick.run_tick("test", b.later(6), ticker).stale == ()
    assert Job.objects.get(pk=wide).state == "QUEUED"


def test_a_node_short_of_disk_gets_work_again_as_soon_as_there_is_room():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.beat(disk_low=True)
    b.ticked(b.later(1))
    assert (Job.objects.get(pk=job).state, NodeLive.objects.get().disk_low) == ("QUEUED", True)
    b.beat(now=b.later(2), seq=2)
    b.ticked(b.later(3))
    assert (Job.objects.get(pk=job).state, Gpu.objects.filter(state="HEALTHY").count()) == ("DISPATCHING", 4)
