"""The loop of the simulator on a trivial planner: order of events, eviction, faults, beginnings and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.lifecycle import JobState
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob
from scheduling.simulation.cluster import pool_of_spec
from scheduling.simulation.faults import Fault
from scheduling.simulation.outcome import Fate
from scheduling.simulation.runtime import SimJob, given, share_of_limit
from scheduling.simulation.world import simulate
from tests.simulation.fifo import Evicting, Fifo
from tests.simulation.scenario import line

ONE = pool_of_spec("1x1")
TWO = pool_of_spec("1x2")


def sim(name: str, at: int, runs: int, *, gpus: int = 1, level: str = "Normal", checkpoint_s: int = 0) -> SimJob:
    request = ResourceRequest(gpu_count=gpus, max_duration_s=runs)
    value = {"Critical": 4, "Normal": 2, "Low": 1}[level]
    waiting = WaitingJob(name, "merge", level, value, "A", "u", at * 1000, request, runs)
    return SimJob(waiting, runs * 1000, checkpoint_s)


def attempt(name: str, gpus: tuple[str, ...], *, end: int, state: JobState = JobState.RUNNING) -> LiveAttempt:
    return LiveAttempt(
        attempt=f"{name}#1", job=name, epoch=1, number=1, queue="merge", project="A", user="u", gpus=gpus,
        nodes=tuple(dict.fromkeys(gpu.split("/")[0] for gpu in gpus)), state=state, granted_ms=0, started_ms=0,
        end_ms=end * 1000,
    )  # fmt: skip


def ran(jobs, pool=ONE, planner=Fifo, **more):
    return simulate(jobs, pool, DEFAULT_POLICY, planner=planner, **more)


def lines(outcome) -> list[str]:
    return [line(each).partition(" on ")[0] for each in outcome.log]


def told(jobs, pool=ONE, kind=Fifo, **more):
    """What the planner was told."""
    made = []

    def make(snapshot):
        made.append(kind(snapshot))
        return made[0]

    ran(jobs, pool, make, **more)
    return made[0].told


def test_at_one_instant_ends_come_before_arrivals_and_one_cycle_closes_it():
    assert told([sim("a", 0, 10), sim("b", 10, 5)])[2:5] == [("ended", "a", 10_000), ("submit", "b"), ("cycle", 10_000)]


def test_an_arrival_that_changes_nothing_costs_no_cycle():
    assert ("cycle", 2000) not in told([sim("a", 0, 10), sim("b", 1, 5), sim("c", 2, 5)])


def test_an_end_costs_no_cycle_when_nobody_waits():
    assert [each for each in told([sim("a", 0, 10)]) if each[0] == "cycle"] == [("cycle", 0)]


def test_jobs_that_save_at_once_make_room_in_the_same_instant():
    outcome = ran([sim("low", 0, 100), sim("c", 40, 10, level="Critical")], planner=Evicting)
    assert lines(outcome)[1:4] == ["40 evict low", "40 saved low", "40 start c"]


def test_an_evicted_job_resumes_with_what_was_left_and_the_time_for_restoring():
    outcome = ran([sim("low", 0, 100), sim("c", 40, 10, level="Critical")], planner=Evicting, restore_s=7)
    assert outcome.jobs[0].end_ms == (40 + 60 + 7 + 10) * 1000


def test_saving_takes_its_time_in_which_the_work_stands_still():
    outcome = ran([sim("low", 0, 100), sim("c", 40, 10, level="Critical")], planner=Evicting, restore_s=0, save_s=20)
    assert lines(outcome)[1:3] == ["40 evict low", "60 saved low"]
    assert outcome.jobs[0].end_ms == (100 + 20 + 10) * 1000


def test_time_spent_saving_and_restoring_counts_as_lost():
    outcome = ran([sim("low", 0, 100), sim("c", 40, 10, level="Critical")], planner=Evicting, restore_s=7, save_s=20)
    assert outcome.jobs[0].lost_gpu_ms == 27_000


def test_the_planner_is_told_that_victims_save_and_how_long_that_takes():
    made = []

    def make(snapshot):
        made.append((Fifo(snapshot), snapshot.policy.queues))
        return made[0][0]

    ran([sim("a", 0, 1)], planner=make, save_s=15)
    assert made[0][0].assume_saved
    assert {queue.grace_s for queue in made[0][1]} == {15.0}


def test_a_job_that_could_never_fit_the_empty_pool_is_rejected_and_left_out():
    outcome = ran([sim("a", 0, 10), sim("big", 0, 10, gpus=2)])
    assert [(job.id, job.fate) for job in outcome.jobs] == [("a", Fate.FINISHED), ("big", Fate.REJECTED)]


def test_a_job_lost_with_its_node_starts_over_after_the_pause():
    outcome = ran([sim("a", 0, 100)], TWO, faults=[Fault(30_000, node="n0-0")])
    assert lines(outcome) == ["0 start a", "30 break n0-0", "30 lost a", "40 start a", "140 finish a"]


def test_a_job_that_saves_by_itself_loses_only_what_it_did_since():
    outcome = ran([sim("a", 0, 100, checkpoint_s=20)], faults=[Fault(50_000, gpu="n0-0/0", repaired_ms=70_000)])
    job = outcome.jobs[0]
    assert (job.end_ms, job.lost_gpu_ms) == ((70 + 60 + 60) * 1000, (10 + 60) * 1000)


def test_a_job_that_is_lost_more_often_than_its_budget_allows_fails():
    policy = replace(DEFAULT_POLICY, retry=replace(DEFAULT_POLICY.retry, infrastructure_budget=0))
    faults = [Fault(5000, gpu="n0-0/0", repaired_ms=6000)]
    outcome = simulate([sim("a", 0, 100)], ONE, policy, planner=Fifo, faults=faults)
    assert (outcome.jobs[0].fate, outcome.jobs[0].end_ms) == (Fate.FAILED, 5000)


def test_faults_that_overlap_last_until_the_last_repair():
    faults = [Fault(1000, node="n0-0", repaired_ms=9000), Fault(2000, node="n0-0", repaired_ms=5000)]
    assert ran([sim("a", 3, 1)], faults=faults).jobs[0].first_start_ms == 9000


def test_hardware_that_never_comes_back_leaves_the_job_waiting():
    outcome = ran([sim("a", 3, 1)], faults=[Fault(1000, node="n0-0")])
    assert outcome.jobs[0].fate is Fate.WAITING


def test_a_fault_of_unknown_hardware_is_refused_by_name():
    with pytest.raises(ValueError, match="no 'n7'"):
        ran([], faults=[Fault(0, node="n7")])


@pytest.mark.parametrize("wrong", [{}, {"node": "a", "gpu": "b"}, {"node": "a", "repaired_ms": 5}])
def test_a_fault_names_one_thing_and_ends_after_it_began(wrong):
    with pytest.raises(ValueError, match="fault"):
        Fault(5, **wrong)


def test_nothing_after_the_last_instant_is_looked_at():
    outcome = ran([sim("a", 0, 100), sim("b", 50, 10), sim("c", 70, 10)], until_ms=60_000)
    assert [job.fate for job in outcome.jobs] == [Fate.RUNNING, Fate.WAITING, Fate.NOT_COME]
    assert outcome.ended_ms == 60_000


def test_two_jobs_of_one_id_are_refused():
    with pytest.raises(ValueError, match="two jobs have the id a"):
        ran([sim("a", 0, 1), sim("a", 1, 1)])


def test_a_simulation_goes_on_from_a_given_world():
    first, second = sim("a", 0, 100), sim("b", 5, 10)
    begin = Snapshot(20_000, DEFAULT_POLICY, ONE, waiting=(second.waiting,), live=(attempt("a", ("n0-0/0",), end=100),))
    outcome = ran([SimJob(first.waiting, 50_000), second, sim("c", 25, 1)], initial=begin)
    assert lines(outcome) == ["70 finish a", "70 start b", "80 finish b", "80 start c", "81 finish c"]


def test_a_live_job_that_is_not_described_is_refused():
    begin = Snapshot(20_000, DEFAULT_POLICY, ONE, live=(attempt("a", ("n0-0/0",), end=100),))
    with pytest.raises(ValueError, match="job a is live"):
        ran([], initial=begin)


def test_a_job_whose_gpus_the_other_pool_lacks_is_queued_again():
    begin = Snapshot(20_000, DEFAULT_POLICY, pool_of_spec("2x2"), live=(attempt("a", ("n0-1/0", "n0-1/1"), end=100),))
    job = SimJob(sim("a", 0, 100, gpus=2).waiting, 50_000)
    outcome = ran([job], pool_of_spec("2x1"), initial=begin, restore_s=5)
    assert (lines(outcome), outcome.jobs[0].end_ms) == (["20 start a", "75 finish a"], 75_000)


def test_a_job_that_was_saving_at_the_beginning_saves_and_waits():
    begin = Snapshot(0, DEFAULT_POLICY, ONE, live=(attempt("a", ("n0-0/0",), end=100, state=JobState.PREEMPTING),))
    outcome = ran([SimJob(sim("a", 0, 100).waiting, 50_000)], initial=begin, save_s=10, restore_s=0)
    assert lines(outcome) == ["10 saved a", "10 start a", "60 finish a"]


def test_run_times_may_be_a_share_of_the_limit_or_given():
    jobs = [sim("a", 0, 100), sim("b", 0, 100)]
    outcome = ran(jobs, TWO, runtime=given({"b": 7000}, share_of_limit(0.5)))
    assert [job.end_ms for job in outcome.jobs] == [50_000, 7000]


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_of_the_limit_beyond_it_is_refused(share):
    with pytest.raises(ValueError, match="share of max_duration"):
        share_of_limit(share)


def test_a_job_runs_on_beyond_its_limit_as_recorded():
    late = replace(sim("a", 0, 10), runs_ms=30_000)
    assert ran([late]).jobs[0].end_ms == 30_000


def test_the_order_of_the_jobs_given_does_not_matter():
    jobs = [sim(name, at, 20) for at, name in enumerate("dacb")]
    assert ran(jobs).digest() == ran(jobs[::-1]).digest()


def test_busy_time_counts_from_the_first_to_the_last_submission_only():
    outcome = ran([sim("a", 10, 100), sim("b", 60, 5)])
    assert (outcome.busy_gpu_ms, outcome.window_ms) == (50_000, 50_000)


def test_a_fault_that_spares_keeps_new_work_away_and_lets_go_on_what_runs():
    jobs = [sim("a", 0, 100), sim("b", 20, 10)]
    closed = Fault(10_000, node="n0-0", repaired_ms=200_000, spares=True)
    outcome = simulate(jobs, pool_of_spec("2x1"), DEFAULT_POLICY, faults=[closed])
    times = {job.id: (job.first_start_ms, job.end_ms, job.faults) for job in outcome.jobs}
    assert times == {"a": (0, 100_000, 0), "b": (200_000, 210_000, 0)}


def test_whoever_watches_is_told_how_far_it_is_and_can_end_it(monkeypatch):
    monkeypatch.setattr("scheduling.simulation.world.LOOKS_EVERY", 1)
    seen = []
    simulate([sim("a", 0, 10), sim("b", 5, 10)], ONE, DEFAULT_POLICY, planner=Fifo, watch=seen.append)
    assert seen == [0, 5000, 10_000, 20_000]

    def enough(ms):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate([sim("a", 0, 10)], ONE, DEFAULT_POLICY, planner=Fifo, watch=enough)
