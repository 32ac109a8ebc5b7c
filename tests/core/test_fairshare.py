"""Targets, consumption and the score: worked examples 1, 3, 4, decisions D3 to D5, and the laws of the formula."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decay import decay, interval
from scheduling.core.decide import decide
from scheduling.core.fairshare import FairShare, charge_of, score_of, shares, window_ms
from scheduling.core.lifecycle import GpuState
from scheduling.core.policy import DEFAULT_POLICY, Policy, QueuePolicy

from .build import HOUR_MS, HOUR_S, gpus, job, live, loose, pool, used, weighted, world

WEEK_MS = 7 * 86_400_000
WINDOW_H = 242.373
finite = st.floats(0, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("priority", "consumed", "score"),
    [(2, 0, 4.0), (2, 50, 3.0), (2, 100, 2.0), (2, 200, 0.0), (2, 300, -2.0), (4, 300, -4.0), (1, 300, -1.0)],
)
def test_example_1_the_score_is_the_formula_unclamped(priority, consumed, score):
    assert score_of(priority, target=100, consumed=consumed) == score


def test_example_3_targets_follow_the_weights_of_the_active_siblings():
    jobs = [
        job("1", queue="merge", project="A", user="a"),
        job("2", queue="eval", project="A", user="b"),
        job("3", queue="inference", project="B"),
    ]
    share = FairShare(world(loose(16), *jobs, policy=weighted(A=3.0, B=1.0)))
    hours = {
        **{name: share.queues.targets[name] / HOUR_MS for name in ("merge", "eval", "inference")},
        **{name: share.projects.targets[name] / HOUR_MS for name in "AB"},
        "a": share.users.targets[("A", "a")] / HOUR_MS,
        "b": share.users.targets[("A", "b")] / HOUR_MS,
    }
    expected = {"merge": 1292.655, "eval": 646.327, "inference": 1938.982, "A": 2908.473, "B": 969.491}
    assert hours == pytest.approx({**expected, "a": 1454.237, "b": 1454.237}, abs=1e-3)


def test_example_4_idle_consumption_halves_in_a_half_life():
    assert decay(64.0, WEEK_MS, WEEK_MS) == 32.0


def test_example_4_two_gpus_that_run_all_the_time_add_half_their_window():
    running = 2 * interval(1.0, 0, WEEK_MS, WEEK_MS, half_life_ms=WEEK_MS) / HOUR_MS
    assert decay(64.0, WEEK_MS, WEEK_MS) + running == pytest.approx(274.373, abs=1e-3)


def test_d5_decay_in_two_steps_is_decay_in_one():
    assert decay(decay(64.0, 5_000_000, WEEK_MS), 7_000_000, WEEK_MS) == pytest.approx(decay(64.0, 12_000_000, WEEK_MS))


def test_d5_a_half_life_of_zero_means_no_decay():
    assert (decay(64.0, WEEK_MS, 0), interval(2.0, 0, 10, 99, half_life_ms=0)) == (64.0, 20.0)


def test_d5_without_decay_the_window_is_the_accounting_period():
    assert window_ms(replace(DEFAULT_POLICY, half_life_s=0, share_window_s=100)) == 100_000


def test_d5_one_always_busy_gpu_is_worth_the_window_in_the_long_run():
    ever = interval(1.0, -200 * WEEK_MS, 0, 0, half_life_ms=WEEK_MS) / HOUR_MS
    assert (ever, window_ms(DEFAULT_POLICY) / HOUR_MS) == pytest.approx((WINDOW_H, WINDOW_H), abs=1e-3)


def test_d5_the_billing_weight_of_the_model_multiplies_what_is_charged():
    the_pool = pool(gpus("n0", 1, model="A100"), gpus("n0", 1, model="T4", first=1))
    policy = replace(DEFAULT_POLICY, billing={"T4": 0.25})
    assert charge_of(policy, the_pool, ("n0/0", "n0/1"), remaining_s=100) == 125_000


def test_d5_what_runs_counts_at_its_remaining_duration_and_is_shown_apart():
    running = live("r", "n0/0", "n0/1", project="A", seconds=HOUR_S)
    score = (
        FairShare(world(loose(4), job("1"), running=[running], usage=used(project={"A": 5}))).scores(job("1")).project
    )
    assert (score.consumed_gpu_h, score.in_flight_gpu_h) == (7.0, 2.0)


def test_d5_an_attempt_that_is_taken_back_uses_nothing_more_but_its_project_stays_active():
    running = live("r", "n0/0", project="B")
    share = FairShare(world(loose(4), job("1"), running=[running]), taken_back=frozenset({running.attempt}))
    assert (share.projects.consumed("B"), sorted(share.projects.targets)) == (0, ["A", "B"])


def test_d3_targets_count_installed_gpus_and_not_only_healthy_ones():
    healthy = FairShare(world(loose(4), job("1"))).projects.targets
    flapping = pool(gpus("n0", 3), gpus("n0", 1, first=3, state=GpuState.UNHEALTHY))
    assert FairShare(world(flapping, job("1"))).projects.targets == healthy


def test_d3_targets_do_not_count_retired_gpus():
    retired = pool(gpus("n0", 4), gpus("n0", 1, first=4, state=GpuState.RETIRED))
    assert FairShare(world(retired, job("1"))).projects.targets == FairShare(world(loose(4), job("1"))).projects.targets


def test_d3_the_headline_score_is_the_projects_and_the_others_stand_beside_it():
    plan = decide(world(loose(1), job("1"), usage=used(queue={"merge": 100}, project={"A": 200})))
    scores = plan.scores["1"]
    assert (scores.queue.score, scores.project.score) == pytest.approx(
        (2 * (2 - 100 / WINDOW_H), 2 * (2 - 200 / WINDOW_H))
    )


def test_d4_weight_zero_has_no_target_no_deficit_and_no_score():
    score = FairShare(world(loose(1), job("1"), job("2", project="B"), policy=weighted(A=0.0))).scores(job("1")).project
    assert (score.target_gpu_h, score.deficit, score.score) == (0.0, None, None)


def test_d4_nothing_consumed_yet_scores_twice_the_priority():
    assert FairShare(world(loose(1), job("1", level="High"))).scores(job("1", level="High")).project.score == 6.0


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e7])
def test_d4_weights_that_are_negative_or_not_finite_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        weighted(A=weight)


def test_d4_a_queue_with_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="weight"):
        QueuePolicy("merge", -0.5, ())


def test_a_pool_without_gpus_gives_no_scores_and_no_exception():
    assert FairShare(world(pool(), job("1"))).scores(job("1")).project.score is None


@given(st.integers(1, 4), st.floats(1, 1e12))
def test_at_the_fair_share_the_score_is_the_priority(priority, target):
    assert score_of(priority, target=target, consumed=target) == priority


@given(st.integers(1, 4), finite, finite)
def test_the_score_is_finite_or_none(priority, target, consumed):
    part = shares(target, {"A": 1.0})["A"]
    score = score_of(priority, target=part, consumed=consumed)
    assert score is None if part == 0 else score is not None and math.isfinite(score)


@settings(max_examples=50)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6), st.floats(0.5, 8))
def test_scaling_all_weights_changes_no_target(weights, factor):
    plain = shares(1e9, dict(enumerate(weights)))
    assert shares(1e9, {key: weight * factor for key, weight in enumerate(weights)}) == pytest.approx(plain)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 100), min_size=1, max_size=6))
def test_targets_sum_to_the_capacity_or_all_are_zero(weights):
    total = sum(shares(1e9, weights).values())
    assert total == 0.0 or total == pytest.approx(1e9, rel=1e-6)


@settings(max_examples=50)
@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 4))
def test_inside_a_level_the_order_by_score_is_the_order_by_deficit(one, other, priority):
    scores = [score_of(priority, target=1e9, consumed=consumed) for consumed in (one, other)]
    deficits = [(1e9 - consumed) / 1e9 for consumed in (one, other)]
    assert (scores[0] > scores[1]) == (deficits[0] > deficits[1])


def test_an_unknown_queue_counts_with_weight_one():
    policy = Policy(queues=())
    assert FairShare(world(loose(1), job("1"), policy=policy)).queues.targets["merge"] > 0
