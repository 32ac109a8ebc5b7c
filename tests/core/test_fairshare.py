"""Targets, consumption and the score: decisions D3 to D5, and property 13, the laws of the formula."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decay import decay, interval
from scheduling.core.decide import decide
from scheduling.core.fairshare import FairShare, billing_micro, score_of, window_ms
from scheduling.core.lifecycle import GpuState
from scheduling.core.plan import Score
from scheduling.core.policy import DEFAULT_POLICY, Policy, QueuePolicy
from scheduling.core.pool import Pool

from .build import (
    HOUR_MS,
    HOUR_S,
    NOW,
    gpus,
    groups,
    job,
    lease,
    live,
    loose,
    order_of,
    pool,
    used,
    weighted,
    world,
)

WEEK_MS = 7 * 86_400_000
WINDOW_H = 242.373
finite = st.floats(0, 1e9, allow_nan=False)


def project_of(plan, name: str = "1") -> Score:
    """The project's numbers of a waiting job."""
    return plan.scores[name].project


def targets(the_pool: Pool, *names: str, policy: Policy = DEFAULT_POLICY) -> list[float]:
    """The target of each of these projects, in GPU-hours, when each has one job."""
    share = FairShare.of(world(the_pool, *(job(name, project=name) for name in names), policy=policy))
    return [share.projects.target(name) / HOUR_MS for name in names]


def test_property_13_decay_in_two_steps_is_decay_in_one():
    assert decay(decay(64.0, 5_000_000, WEEK_MS), 7_000_000, WEEK_MS) == pytest.approx(decay(64.0, 12_000_000, WEEK_MS))


def test_d5_a_half_life_of_zero_means_no_decay():
    assert (decay(64.0, WEEK_MS, 0), interval(2.0, 0, 10, 99, half_life_ms=0)) == (64.0, 20.0)


def test_d5_without_decay_the_window_is_the_accounting_period():
    assert window_ms(replace(DEFAULT_POLICY, half_life_s=0, share_window_s=100)) == 100_000


def test_d5_one_always_busy_gpu_is_worth_the_window_in_the_long_run():
    ever = interval(1.0, -200 * WEEK_MS, 0, 0, half_life_ms=WEEK_MS) / HOUR_MS
    assert (ever, window_ms(DEFAULT_POLICY) / HOUR_MS) == pytest.approx((WINDOW_H, WINDOW_H), abs=1e-3)


def test_d5_the_billing_weights_of_the_models_add_up():
    both = [*gpus("n0", 1, model="A100"), *gpus("n0", 1, model="T4", first=1)]
    assert billing_micro(replace(DEFAULT_POLICY, billing={"T4": 0.25}), both) == 1_250_000


def test_d5_the_billing_weight_of_the_model_multiplies_what_is_charged():
    the_pool = pool(gpus("n0", 1, model="A100"), gpus("n0", 1, model="T4", first=1))
    policy = replace(DEFAULT_POLICY, billing={"T4": 0.25})
    running = live("r", "n0/0", "n0/1", project="A", seconds=HOUR_S)
    assert project_of(decide(world(the_pool, job("1"), running=[running], policy=policy))).in_flight_gpu_h == 1.25


def test_d5_the_billing_weight_as_it_was_granted_counts_for_what_runs():
    running = live("r", "n0/0", project="A", seconds=HOUR_S, billing_micro=3_000_000)
    assert project_of(decide(world(loose(1), job("1"), running=[running]))).in_flight_gpu_h == 3.0


def test_d5_what_runs_counts_at_its_remaining_duration_and_is_shown_apart():
    running = live("r", "n0/0", "n0/1", project="A", seconds=HOUR_S)
    plan = decide(world(loose(2), job("1"), running=[running], usage=used(project={"A": 5})))
    assert (project_of(plan).consumed_gpu_h, project_of(plan).in_flight_gpu_h) == (7.0, 2.0)


def test_d5_what_runs_has_consumed_since_its_grant():
    running = live("r", "n0/0", project="A", granted_ms=0, now_ms=HOUR_MS, seconds=0)
    plan = decide(world(loose(1), job("1"), running=[running], now_ms=HOUR_MS))
    assert project_of(plan).consumed_gpu_h == pytest.approx(1.0, abs=0.003)


def test_d5_what_was_consumed_fades_from_when_it_was_settled():
    plan = decide(world(loose(1), job("1", 2), usage=used(project={"A": 64}, at_ms=0), now_ms=WEEK_MS))
    assert project_of(plan).consumed_gpu_h == 32.0


@pytest.mark.parametrize(("in_flight", "hours"), [("full", 1.0), ("cycle", 0.0), ("off", 0.0)])
def test_d5_whether_what_runs_counts_ahead_is_a_matter_of_policy(in_flight, hours):
    running = live("r", "n0/0", project="A", seconds=HOUR_S)
    policy = replace(DEFAULT_POLICY, in_flight=in_flight)
    assert project_of(decide(world(loose(1), job("1"), running=[running], policy=policy))).in_flight_gpu_h == hours


@pytest.mark.parametrize(
    ("in_flight", "order"), [("full", ["a0", "b0"]), ("cycle", ["a0", "b0"]), ("off", ["a0", "a1"])]
)
def test_d5_whether_what_was_just_placed_counts_is_a_matter_of_policy(in_flight, order):
    jobs = [job("a0", at=0), job("a1", at=1), job("b0", at=2, project="B")]
    policy = replace(DEFAULT_POLICY, in_flight=in_flight)
    assert order_of(decide(world(loose(2), *jobs, policy=policy))) == order


def test_d5_an_attempt_that_is_taken_back_uses_nothing_more_but_its_project_stays_active():
    running, silent = live("r", "n0/0", project="B"), lease("n0", silent_s=60)
    plan = decide(world(groups(1, 2), job("1"), job("2", project="B"), running=[running], leases=[silent]))
    assert (project_of(plan, "2").in_flight_gpu_h, project_of(plan).target_gpu_h) == (0.0, pytest.approx(WINDOW_H))


def test_d3_targets_count_installed_gpus_and_not_only_healthy_ones():
    flapping = pool(gpus("n0", 3), gpus("n0", 1, first=3, state=GpuState.UNHEALTHY))
    assert targets(flapping, "A") == targets(loose(4), "A")


def test_d3_targets_do_not_count_retired_gpus():
    retired = pool(gpus("n0", 4), gpus("n0", 1, first=4, state=GpuState.RETIRED))
    assert targets(retired, "A") == targets(loose(4), "A")


def test_d3_the_headline_score_is_the_projects_and_the_others_stand_beside_it():
    plan = decide(world(loose(1), job("1"), usage=used(queue={"merge": 100}, project={"A": 200})))
    scores = plan.scores["1"]
    expected = (2 * (2 - 100 / WINDOW_H), 2 * (2 - 200 / WINDOW_H))
    assert (scores.queue.score, scores.project.score) == pytest.approx(expected)


def test_d4_weight_zero_has_no_target_no_deficit_and_no_score():
    plan = decide(world(loose(1), job("1"), job("2", project="B"), policy=weighted(A=0.0)))
    score = project_of(plan)
    assert (score.target_gpu_h, score.deficit, score.score) == (0.0, None, None)


def test_d4_nothing_consumed_yet_scores_twice_the_priority():
    assert project_of(decide(world(loose(1), job("1", level="High")))).score == 6.0


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e7])
def test_d4_weights_that_are_negative_or_not_finite_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        weighted(A=weight)


def test_d4_a_queue_with_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="weight"):
        QueuePolicy("merge", -0.5, ())


def test_a_pool_without_gpus_gives_no_scores_and_no_exception():
    assert project_of(decide(world(pool(), job("1")))).score is None


def test_an_unknown_queue_counts_with_weight_one():
    assert decide(world(loose(1), job("1"), policy=Policy(queues=()))).scores["1"].queue.target_gpu_h > 0


@given(st.integers(1, 4), st.floats(1, 1e12))
def test_property_13_at_the_fair_share_the_score_is_the_priority(priority, target):
    assert score_of(priority, target=target, consumed=target) == priority


@given(st.integers(1, 4), finite, finite)
def test_property_13_the_score_is_finite_or_none(priority, target, consumed):
    score = score_of(priority, target=target if target >= 1 else 0.0, consumed=consumed)
    assert score is None if target < 1 else score is not None and math.isfinite(score)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6), st.floats(0.5, 8))
def test_property_13_scaling_all_weights_changes_no_target(weights, factor):
    names = [f"p{number}" for number in range(len(weights))]
    plain = weighted(**dict(zip(names, weights, strict=True)))
    scaled = weighted(**{name: weight * factor for name, weight in plain.project_weights.items()})
    assert targets(loose(4), *names, policy=scaled) == pytest.approx(targets(loose(4), *names, policy=plain))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_targets_sum_to_the_capacity_or_all_are_zero(weights):
    names = [f"p{number}" for number in range(len(weights))]
    total = sum(targets(loose(4), *names, policy=weighted(**dict(zip(names, weights, strict=True)))))
    assert total == 0.0 or total == pytest.approx(4 * WINDOW_H, rel=1e-5)


@settings(max_examples=50)
@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 4))
def test_inside_a_level_the_order_by_score_is_the_order_by_deficit(one, other, priority):
    scores = [score_of(priority, target=1e9, consumed=consumed) for consumed in (one, other)]
    deficits = [(1e9 - consumed) / 1e9 for consumed in (one, other)]
    assert (scores[0] > scores[1]) == (deficits[0] > deficits[1])


def test_reading_the_ledgers_changes_nothing():
    here = world(loose(2), job("1"), running=[live("r", "n0/0")], usage=used(project={"A": 7}))
    read_often, read_once = FairShare.of(here), FairShare.of(here)
    for later in range(NOW, NOW + 10 * HOUR_MS + 1, HOUR_MS):
        read_often.move(later)
        read_often.scores(("merge", "Z", "user of Z"), 2)
    read_once.move(NOW + 10 * HOUR_MS)
    assert read_often.scores(("merge", "Z", "user of Z"), 2) == read_once.scores(("merge", "Z", "user of Z"), 2)
