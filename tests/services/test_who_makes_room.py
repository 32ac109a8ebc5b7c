"""Preemption among several jobs: nobody leaves in vain, or twice, and what was freed goes to whom it was freed for."""

from __future__ import annotations

import pytest

from scheduling.models import Allocation, Attempt, Event, Gpu, Job, Nomination
from scheduling.services import jobs
from tests import builders as b

pytestmark = pytest.mark.django_db


class Pool:
    """One node of four GPUs in one NVLink group; alice's jobs start at noon, admin's Critical ones come after 100 s."""

    def __init__(self, *gpus: int) -> None:
        lab = b.lab()
        self.who, self.models = lab.who, lab.models
        self.low = [self.runs(n) for n in gpus]

    def runs(self, gpus: int, **kw) -> b.Running:
        return b.running(self.who["alice"], self.models, priority="Low", gpu_count=gpus, **kw)

    def asks(self, gpus: int, at: float = 100, *, level: str = "Critical", **kw) -> str:
        more = {"purpose": "regression_gate"} if level == "Critical" else {}
        body = b.merge_body(self.models, priority=level, gpu_count=gpus, **more, **kw)
        return b.submitted(self.who["admin"], body, now=b.later(at))

    def ticks(self, *moments: float) -> None:
        for at in moments:
            b.listening(at, max(0, at - 5))
            b.beat("n1", now=b.later(at))
            b.ticked(b.later(at))

    def leaves(self, run: b.Running, at: float) -> None:
        assert b.finished(run, "PREEMPTED", exit_code=85, why="preempt", now=b.later(at))["ok"]


def states(*ids: str) -> list[str]:
    return [Job.objects.get(pk=job).state for job in ids]


def evictions() -> int:
    return Event.objects.filter(type="preempting").count()


def test_a_group_that_is_packed_with_low_jobs_is_emptied_for_a_critical_one_that_needs_it_all():
    pool = Pool(1, 1, 1, 1)
    job = pool.asks(4)
    pool.ticks(100)
    assert states(*(run.job for run in pool.low)) == ["PREEMPTING"] * 4
    assert Nomination.objects.get(job=job).gpus == [f"GPU-n1-{i}" for i in range(4)]


def test_a_job_that_the_pool_can_not_hold_any_more_evicts_nobody_and_the_next_one_is_served():
    pool = Pool(2)
    b.node("n2", gpus=8)
    impossible = pool.asks(8)
    Gpu.objects.filter(node__name="n2").update(state="RETIRED")
    possible = pool.asks(4, 101)
    pool.ticks(102, 104, 106)
    assert states(impossible, possible, pool.low[0].job) == ["QUEUED", "QUEUED", "PREEMPTING"]
    pool.leaves(pool.low[0], 110)
    pool.ticks(111, 113, 115)
    assert states(impossible, possible, pool.low[0].job) == ["QUEUED", "DISPATCHING", "QUEUED"]
    assert (evictions(), Nomination.objects.count()) == (1, 0)


def test_what_one_victim_has_left_waits_for_the_other_and_goes_neither_to_a_newcomer_nor_back_to_it():
    pool = Pool(1, 3)
    job = pool.asks(4)
    pool.ticks(100)
    pool.leaves(pool.low[0], 101)
    newcomer = pool.asks(1, 102, level="Normal", nvlink_required=False)
    pool.ticks(103, 120, 180)
    assert states(job, newcomer, pool.low[0].job) == ["QUEUED"] * 3
    pool.leaves(pool.low[1], 200)
    pool.ticks(201)
    assert states(job) == ["DISPATCHING"]
    assert (evictions(), Allocation.objects.filter(released_at=None).count()) == (2, 4)


def test_while_a_victim_is_leaving_no_second_one_is_asked_however_often_the_scheduler_looks():
    pool = Pool(2, 2)
    pool.asks(2)
    pool.ticks(100, 102, 104, 130)
    assert sorted(states(*(run.job for run in pool.low))) == ["PREEMPTING", "RUNNING"]


def test_what_a_cancelled_job_is_about_to_leave_is_waited_for_rather_than_evict_another():
    pool = Pool(2, 2)
    jobs.cancel(pool.low[0].job, pool.who["alice"], b.later(99))
    pool.asks(2)
    pool.ticks(100)
    assert (states(*(run.job for run in pool.low)), evictions()) == (["CANCELLING", "RUNNING"], 0)


def test_two_critical_jobs_get_a_victim_each():
    pool = Pool(2, 2)
    pool.asks(2)
    pool.asks(2, 101)
    pool.ticks(102)
    assert states(*(run.job for run in pool.low)) == ["PREEMPTING"] * 2
    assert Nomination.objects.count() == 2


def test_a_preempted_job_starts_before_one_that_was_submitted_after_it():
    pool = Pool(4)
    job = pool.asks(4)
    pool.ticks(100)
    later = b.submitted(
        pool.who["alice"], b.merge_body(pool.models, priority="Low", gpu_count=4, name="later"), now=b.later(105)
    )
    pool.leaves(pool.low[0], 110)
    pool.ticks(111)
    jobs.cancel(job, pool.who["admin"], b.later(112))
    pool.ticks(113)
    assert states(pool.low[0].job, later) == ["DISPATCHING", "QUEUED"]


def test_of_two_gangs_that_need_the_whole_pool_one_runs_and_the_other_holds_nothing():
    who = b.people()
    names = [f"n{i}" for i in range(1, 5)]
    for name in names:
        b.node(name, gpus=2)
    gangs = [
        b.submitted(who["alice"], b.command_body(name=f"gang-{n}", gpu_count=8, node_count=4), now=b.later(n))
        for n in range(2)
    ]
    for at in (2, 3, 4):
        b.ticked(b.later(at), holder="one")
        b.ticked(b.later(at), holder="two")  # which does not lead
    assert states(*gangs) == ["DISPATCHING", "QUEUED"]
    assert list(Attempt.objects.values_list("job_id", flat=True).distinct()) == [Job.objects.get(pk=gangs[0]).pk]
    assert Allocation.objects.filter(released_at=None).count() == 8
