"""Jobs of a trace in our queue: levels, limits, requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.resources import AffinityTerm
from scheduling.core.units import parse_memory
from scheduling.simulation.queueing import QueueingError, beyond_limit, hash_level, queue_jobs, request_of
from scheduling.simulation.workload import MAX_MEM_GB, Trace, TraceJob


def job(name: str = "a", **more) -> TraceJob:
    return TraceJob(name, 2, 1000, more.pop("duration_ms", 90_000), more.pop("nodes", 1), more.pop("each", 1), **more)


def queued(*jobs: TraceJob, policy=DEFAULT_POLICY, **more):
    return queue_jobs(Trace("jobs.csv", jobs), policy, **more)


@pytest.mark.parametrize(
    ("job_id", "level"),
    [("83", "Critical"), ("26", "High"), ("77", "High"), ("126", "Normal"), ("257", "Normal"), ("46", "Low")],
)
def test_a_level_is_drawn_from_the_sha256_of_the_id(job_id, level):
    """Their hashes modulo 100 are 1, 2, 11, 12, 71 and 72."""
    assert hash_level(job_id) == level


def test_the_levels_drawn_are_2_10_60_and_28_of_100():
    drawn = Counter(hash_level(str(number)) for number in range(20_000))
    shares = {level: round(count / 200) for level, count in drawn.items()}
    assert shares == {"Critical": 2, "High": 10, "Normal": 60, "Low": 28}


def test_without_classes_all_are_normal_in_the_merge_queue():
    waiting = queued(job("83"))[0].waiting
    assert (waiting.queue, waiting.level, waiting.level_value) == ("merge", "Normal", 2)


def test_with_classes_the_level_has_the_value_of_the_policy():
    waiting = queued(job("83"), classes="hash")[0].waiting
    assert (waiting.level, waiting.level_value) == ("Critical", 4)


def test_the_oracle_knows_the_recorded_duration_rounded_up():
    found = queued(job(duration_ms=90_500))[0]
    assert (found.waiting.remaining_s, found.runs_ms) == (91, 90_500)


def test_a_job_that_ran_longer_than_its_requested_walltime_runs_on_as_it_did():
    found = queued(job(walltime_s=60.0), estimates="requested")[0]
    assert (found.waiting.remaining_s, found.waiting.request.max_duration_s, found.runs_ms) == (60, 60, 90_000)


@pytest.mark.parametrize(
    ("walltimes", "words"),
    [
        ((60.0, 90.0), "1 job ran longer than req_walltime_s says: it runs on"),
        ((60.0, 89.0), "2 jobs ran longer than req_walltime_s says: each runs on"),
    ],
)
def test_how_many_jobs_run_beyond_their_walltime_is_said(walltimes, words):
    trace = Trace("jobs.csv", tuple(job(f"{each}", walltime_s=each) for each in walltimes))
    there = "to its recorded end, where a live pool would end it at that limit"
    assert beyond_limit(trace, "requested") == (f"{words} {there}",)
    assert beyond_limit(trace, "oracle") == ()


def test_a_job_without_a_walltime_is_refused_when_walltimes_are_to_be_used():
    with pytest.raises(
        QueueingError, match=r"^--jobs: jobs\.csv, line 2, column req_walltime_s: is empty.*use --estimates oracle"
    ):
        queued(job(), estimates="requested")


def test_a_walltime_of_0_is_refused_when_walltimes_are_to_be_used():
    with pytest.raises(QueueingError, match=r"column req_walltime_s: is 0; .*write seconds above 0, or use"):
        queued(job(walltime_s=0.0), estimates="requested")


def test_a_walltime_of_0_matters_to_nobody_when_durations_are_used():
    assert queued(job(walltime_s=0.0), estimates="oracle")[0].waiting.remaining_s == 90


def test_the_most_memory_that_a_trace_may_ask_for_can_be_asked_for():
    assert request_of(job(gpu_mem_gb=MAX_MEM_GB), limit_s=60).gpu_memory_min_mib == parse_memory(f"{MAX_MEM_GB}GB")


def test_a_policy_without_the_level_of_a_class_is_refused():
    merge = DEFAULT_POLICY.queues[0]
    poorer = replace(DEFAULT_POLICY, queues=(replace(merge, levels=merge.levels[2:]),), preemption=())
    with pytest.raises(QueueingError, match=r"--policy has no level .Critical. in queues\.merge\.levels"):
        queued(job(), policy=poorer, classes="hash")


def test_a_policy_without_the_queue_is_refused():
    with pytest.raises(QueueingError, match="--policy has no queue 'merge'"):
        queued(job(), policy=replace(DEFAULT_POLICY, queues=DEFAULT_POLICY.queues[1:], preemption=()))


def test_full_nodes_and_a_remainder_make_a_gang():
    request = request_of(job(nodes=2, each=8, remainder=5), limit_s=60)
    assert (request.gpu_count, request.node_count, request.gpus_per_node, request.remainder) == (21, 2, 8, 5)


def test_gpus_anywhere_may_span_nodes():
    assert request_of(job(each=30, span=True), limit_s=60).allow_span


def test_accepted_types_are_a_required_rule():
    request = request_of(job(gpu_types=("V100", "T4")), limit_s=60)
    assert request.required_terms == (AffinityTerm("gpu_model", "In", ("V100", "T4")),)


def test_types_are_no_rule_on_a_cluster_that_states_none():
    assert request_of(job(gpu_types=("V100",)), limit_s=60, types=False).affinity == ()


def test_memory_is_asked_for_in_decimal_gigabytes():
    assert request_of(job(gpu_mem_gb=24), limit_s=60).gpu_memory_min_mib == parse_memory("24GB")
