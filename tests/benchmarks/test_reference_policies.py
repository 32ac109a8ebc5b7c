"""The simulator that EMEP is compared with does what its text says: worked by hand, on one or two small nodes."""

from __future__ import annotations

import pytest

from benchmarks.reference_policies import Figures, Reference
from benchmarks.shares import max_min
from benchmarks.traces import TraceJob, parse_nodes

CRITICAL, NORMAL, LOW = 0, 2, 3


def job(name: str, submit_s: int, duration_s: int, gpus: int, *, nodes: int = 1, rank: int = NORMAL) -> TraceJob:
    return TraceJob(name, submit_s, duration_s, gpus * nodes, nodes, gpus, 0, name[0], rank)


def replay(*jobs: TraceJob, sizes: str = "4x1", policy: str = "fifo", preempt: bool = False) -> Figures:
    return Reference(jobs, parse_nodes(sizes), policy=policy, preempt=preempt, restore_s=60).run()


BLOCKED = (job("a", 0, 100, 3), job("b", 1, 100, 4), job("c", 2, 50, 1))


def test_in_fifo_a_job_that_fits_waits_behind_one_that_does_not():
    # b from 100 to 200, then c: waits of 0, 99 and 198 s.
    assert replay(*BLOCKED).mean_wait == pytest.approx((0 + 99 + 198) / 3)


def test_easy_starts_at_once_what_ends_by_the_shadow_time():
    assert replay(*BLOCKED, policy="fifo-easy").mean_wait == pytest.approx(99 / 3)


def test_easy_keeps_waiting_what_would_delay_the_head():
    late = (*BLOCKED[:2], job("c", 2, 99, 1))
    assert replay(*late, policy="fifo-easy").mean_wait == pytest.approx((99 + 198) / 3)


def test_easy_starts_a_long_job_that_leaves_the_head_room_enough():
    # b gets the first node at 100; c takes what is beside it.
    jobs = (job("a", 0, 100, 4), job("x", 0, 500, 2), job("b", 1, 100, 4), job("c", 2, 900, 2))
    assert replay(*jobs, sizes="4x2", policy="fifo-easy").mean_wait == pytest.approx(99 / 4)


def test_sjf_takes_the_shortest_first():
    assert replay(job("a", 0, 100, 4), job("b", 1, 90, 4), job("c", 2, 10, 4), policy="sjf").mean_wait == pytest.approx(
        (0 + 109 + 98) / 3
    )


def test_priofs_takes_the_project_that_has_used_least():
    # Both a2 and b wait when a1 ends; a has used 400 GPU-seconds.
    jobs = (job("a1", 0, 100, 4), job("a2", 1, 100, 4), job("b", 2, 100, 4))
    assert replay(*jobs, policy="priofs").mean_wait == pytest.approx((0 + 199 + 98) / 3)


def test_a_critical_job_evicts_the_lowest_class_that_suffices_and_the_victim_runs_what_was_left_and_restores():
    jobs = (
        job("n", 0, 1000, 2),
        job("l", 1, 1000, 2, rank=LOW),
        job("c", 11, 100, 2, rank=CRITICAL),
    )
    found = replay(*jobs, policy="priofs", preempt=True)
    # l did 10 s; it goes on at 111 for 990 + 60 s and ends 1160 s after its submission, n and c without delay.
    assert (found.preemptions, found.critical_wait, found.bsld) == (1, 0.0, pytest.approx((1 + 1.16 + 1) / 3))


def test_a_critical_job_spares_victims_it_does_not_need():
    jobs = (job("l1", 0, 1000, 4, rank=LOW), job("l2", 1, 1000, 1, rank=LOW), job("c", 9, 100, 4, rank=CRITICAL))
    assert replay(*jobs, sizes="4x1,1x1", policy="priofs", preempt=True).preemptions == 1


def test_a_job_of_several_nodes_needs_them_all():
    jobs = (job("a", 0, 100, 4), job("g", 1, 100, 4, nodes=2))
    assert replay(*jobs, sizes="4x2").mean_wait == pytest.approx(99 / 2)


def test_what_a_project_does_not_demand_is_due_to_the_others():
    assert max_min(10, {"a": 2, "b": 9, "c": 9}, {}) == {"a": 2, "b": 4, "c": 4}


def test_an_unknown_policy_is_refused_with_the_names_of_the_known_ones():
    with pytest.raises(ValueError, match="fifo-easy"):
        replay(policy="lottery")
