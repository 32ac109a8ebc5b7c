"""What a policy says of whom or what a simulation does not have is told, and nothing else is."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.simulation.cluster import cluster
from scheduling.simulation.idle import SAVES_AT_ONCE, idle_columns, idle_policy, idle_rules, idle_values
from scheduling.simulation.policy_patch import patched
from scheduling.simulation.workload import Trace, TraceJob

JOB = TraceJob("a", 2, 0, 1000, 1, 1, user="ann", project="alpha", gpu_types=("A100",), gpu_mem_gb=16)
TRACE = Trace("jobs.csv", (JOB,))
TYPED = cluster("8x2:A100").pool


@pytest.mark.parametrize(
    ("patch", "notes"),
    [
        ({"project_weights": {"alpha": 2}, "user_weights": {"alpha/ann": 2}, "billing": {"A100": 2}}, []),
        ({"user_weights": {"alpha/bob": 2}}, ["user_weights of the policy names 'alpha/bob' (did you mean 'alpha/ann'?)"
                                              ", which is no user of the jobs: it changes nothing"]),
        ({"billing": {"T4": 2, "V100": 3}}, ["billing of the policy names 'T4', 'V100', which is no GPU type of the "
                                             "cluster: it changes nothing"]),
        ({"queues": {"eval": {"weight": 3}}}, ["queues.eval of the policy changes nothing here: all jobs are in queue "
                                               "merge"]),
        ({"retry": {"backoff_s": 1}}, ["retry of the policy changes nothing here: no hardware fails"]),
    ],
)  # fmt: skip
def test_a_policy_is_noted_where_it_speaks_of_what_the_trace_or_cluster_lacks(patch, notes):
    assert list(idle_policy(patched(DEFAULT_POLICY, patch), TRACE, TYPED)) == notes


def test_many_strangers_are_counted_after_the_first_five():
    weights = {f"p{number}": 2.0 for number in range(7)}
    (note,) = idle_policy(replace(DEFAULT_POLICY, project_weights=weights), TRACE, TYPED)
    assert note.startswith("project_weights of the policy names 'p0', 'p1', 'p2', 'p3', 'p4' and 2 more, which")


def test_types_are_asked_for_where_the_cluster_states_some():
    notes = idle_columns(TRACE, TYPED, classes="hash", estimates="oracle")
    assert [note.split(",")[0] for note in notes] == ["1 job asks for gpu_mem_gb"]


@pytest.mark.parametrize(
    ("classes", "words"), [("hash", "levels are drawn by job id"), ("none", "all jobs are Normal")]
)
def test_classes_of_the_trace_are_not_ours_and_the_note_says_where_levels_come_from(classes, words):
    trace = Trace("jobs.csv", (), said=frozenset({"class"}))
    assert idle_columns(trace, TYPED, classes=classes, estimates="oracle") == (
        f"the column class is not used: {words} (--classes {classes})",
    )


def test_rules_for_submitting_and_the_grace_do_nothing_to_what_waits():
    policy = patched(DEFAULT_POLICY, {"queues": {"eval": {"max_duration_cap_s": 90_000, "grace_s": 7, "weight": 2}}})
    assert idle_rules(DEFAULT_POLICY, policy, saving=SAVES_AT_ONCE) == (
        "queues.eval.max_duration_cap_s of the policy changes nothing here: it is a rule for jobs that are submitted",
        "queues.eval.grace_s of the policy changes nothing here: evicted jobs save at once",
    )


MERGE = DEFAULT_POLICY.queue("merge")


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        ({"project_weights": {"alpha": 2, "beta": 3, "new": 1}, "user_weights": {"alpha/ann": 1, "alpha/bob": 2}},
         ["project_weights.alpha", "project_weights.new", "user_weights.alpha/ann"]),
        ({"half_life_s": 7 * 86400, "in_flight": "off"}, ["half_life_s"]),
        ({"queues": {"merge": {"weight": MERGE.weight, "grace_s": MERGE.grace_s + 1,
                               "levels": {level.name: level.value for level in reversed(MERGE.levels)}}}},
         ["queues.merge.weight", "queues.merge.levels"]),
        ({"retry": {"backoff_s": DEFAULT_POLICY.retry.backoff_s}, "evict": {"protect_s": 1}}, ["retry.backoff_s"]),
        ({"preemption": [asdict(rule) for rule in DEFAULT_POLICY.preemption]}, ["preemption"]),
        ({"queues": {}, "project_weights": {}}, []),
    ],
)  # fmt: skip
def test_each_value_that_holds_already_is_noted_by_its_key_and_no_other(patch, paths):
    old = replace(DEFAULT_POLICY, project_weights={"alpha": 2.0, "beta": 2.0})
    assert patched(old, patch)
    notes = idle_values(old, patch)
    assert [note.split(" of the policy is ")[0] for note in notes] == paths
    assert all(note.endswith(" already: it changes nothing") for note in notes)
