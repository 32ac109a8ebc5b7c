"""The queue played forward: who starts when, and who comes back after having been evicted."""

from __future__ import annotations

from scheduling.core.likeness import back_in_line, likeness
from scheduling.core.played import played
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, Window

from .agreement import essence
from .build import NOW, gpus, job, live, loose, pool, rule, used, world

S = 1000


def after_a_cycle(snapshot: Snapshot) -> Scheduler:
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return scheduler


def seconds(found: dict[str, int]) -> dict[str, int]:
    return {name: instant // S for name, instant in found.items()}


def test_the_victim_of_an_eviction_leaves_after_its_grace_and_comes_back_behind_what_is_ahead_of_it():
    jobs = [job("urgent", level="Critical", seconds=100), job("normal", seconds=200)]
    scheduler = after_a_cycle(world(loose(1), *jobs, running=[live("victim", "n0/0", level="Low", granted_ms=0)]))
    assert seconds(played(scheduler)) == {"urgent": 130, "normal": 230, "victim": 430}


def test_a_job_more_is_played_with_the_others():
    scheduler = after_a_cycle(world(loose(1), job("low", level="Low"), running=[live("r", "n0/0", ends=100)]))
    found = played(scheduler, more=job("more", level="High", seconds=50))
    assert seconds(found) == {"more": 100, "low": 150}


def test_a_job_that_waits_is_played_as_it_would_be_if_it_were_changed():
    scheduler = after_a_cycle(world(loose(1), job("1", start_by_ms=60 * S), running=[live("r", "n0/0", ends=100)]))
    assert seconds(played(scheduler, more=job("1", start_by_ms=101 * S))) == {"1": 100}


def test_who_is_being_taken_back_leaves_at_once():
    scheduler = after_a_cycle(world(loose(1), job("1"), running=[live("r", "n0/0")]))
    assert seconds(played(scheduler, gone=frozenset({"r"}))) == {"1": NOW // S}


def test_a_job_that_may_not_wait_so_long_leaves_then():
    jobs = [job("1", start_by_ms=60 * S), job("2", at=1)]
    scheduler = after_a_cycle(world(loose(1), *jobs, running=[live("r", "n0/0", ends=100)]))
    assert seconds(played(scheduler)) == {"1": 60, "2": 100}


def test_what_can_never_start_has_no_instant():
    scheduler = after_a_cycle(world(loose(1), job("1", rules=[rule("node", "In", "n9")])))
    assert played(scheduler) == {}


def test_playing_changes_nothing():
    snapshot = world(loose(2), job("1"), job("2", 2, at=1), running=[live("r", "n0/0", "n0/1", ends=100)])
    scheduler, other = after_a_cycle(snapshot), after_a_cycle(snapshot)
    played(scheduler)
    for each in (scheduler, other):
        each.ended("r", 50 * S)
    assert essence(scheduler.cycle(50 * S)) == essence(other.cycle(50 * S))


def test_a_scheduler_built_from_the_likeness_decides_the_same():
    closed = Window("service", ("n1",), 400 * S, 500 * S, "B")
    running = [live("r", "n0/0", "n0/1", ends=100, project="A", granted_ms=0), live("s", "n1/0", ends=300)]
    jobs = [job("1", 2, at=1), job("2", 2, at=2, project="B"), job("3", at=3, not_before_ms=200 * S)]
    snapshot = world(
        pool(gpus("n0", 2), gpus("n1", 2)), *jobs, running=running, windows=(closed,), usage=used(project={"A": 9.0})
    )
    scheduler = after_a_cycle(snapshot)
    other = Scheduler(likeness(scheduler))
    for each in (scheduler, other):
        each.ended("r", 100 * S)
    assert essence(scheduler.cycle(100 * S)) == essence(other.cycle(100 * S))


def test_a_job_that_comes_back_asks_for_what_it_had():
    the_pool = pool(gpus("n0", 2), gpus("n1", 2))
    running = [live("even", "n0/0", "n1/0", ends=70), live("alone", "n0/1", ends=70)]
    scheduler = Scheduler(world(the_pool, running=running))
    even, alone = (back_in_line(scheduler, scheduler.live[name], NOW) for name in ("even", "alone"))
    assert (even.request.node_count, even.request.gpus_per_node, even.remaining_s) == (2, 1, 60)
    assert (alone.request.gpu_count, alone.request.is_gang, alone.request.allow_span) == (1, False, False)


def test_a_job_of_unequal_parts_comes_back_for_as_many_gpus_anywhere():
    running = [live("r", "n0/0", "n0/1", "n1/0")]
    scheduler = Scheduler(world(pool(gpus("n0", 2), gpus("n1", 2)), running=running))
    found = back_in_line(scheduler, scheduler.live["r"], NOW).request
    assert (found.gpu_count, found.is_gang, found.allow_span) == (3, False, True)
