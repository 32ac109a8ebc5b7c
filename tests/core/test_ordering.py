"""The order of the queue: D1, D3 and D4, told by what starts first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide

from .build import DEFAULT_POLICY, codes_of, job, loose, order_of, used, weighted, world


def test_d4_weight_zero_has_no_score_and_the_others_have_one():
    plan = decide(world(loose(2), job("Z", project="Z"), job("B", project="B"), policy=weighted(Z=0.0)))
    assert plan.scores["Z"].project.score is None
    assert plan.scores["B"].project.score is not None


def test_d4_a_higher_level_of_weight_zero_still_goes_first():
    jobs = [job("Z", project="Z", level="High"), job("B", project="B")]
    assert order_of(decide(world(loose(1), *jobs, policy=weighted(Z=0.0)))) == ["Z"]


def test_d4_when_all_weights_are_zero_submission_decides():
    jobs = [job("2", at=2, project="A"), job("1", at=1, project="B")]
    assert order_of(decide(world(loose(2), *jobs, policy=weighted(A=0.0, B=0.0)))) == ["1", "2"]


def test_d1_equal_deficits_go_by_submission_time():
    assert order_of(decide(world(loose(1), job("late", at=2), job("early", at=1)))) == ["early"]


def test_d1_equal_submission_times_go_by_id():
    assert order_of(decide(world(loose(1), job("b"), job("a")))) == ["a"]


def test_d1_the_level_comes_before_the_deficit():
    jobs = [job("rich high", level="High", project="A"), job("poor normal", project="B")]
    assert order_of(decide(world(loose(1), *jobs, usage=used(project={"A": 1000})))) == ["rich high"]


def test_d3_the_queue_comes_before_the_project():
    jobs = [job("poor project", queue="merge", project="B"), job("poor queue", queue="eval", at=1)]
    past = used(queue={"merge": 10}, project={"A": 10})
    assert order_of(decide(world(loose(1), *jobs, usage=past))) == ["poor queue"]


def test_d3_the_project_comes_before_the_user():
    jobs = [job("poor user", user="x"), job("poor project", project="B", at=1)]
    assert order_of(decide(world(loose(1), *jobs, usage=used(project={"A": 10})))) == ["poor project"]


def test_d3_users_of_a_project_share_it_by_their_own_ledger():
    jobs = [job(f"{user}{n}", at=n, user=user) for user in "xy" for n in range(2)]
    assert order_of(decide(world(loose(4), *jobs))) == ["x0", "y0", "x1", "y1"]


def test_d3_user_weights_count_inside_their_project():
    policy = replace(weighted(), user_weights={("A", "x"): 3.0})
    jobs = [job(f"{user}{n}", at=n, user=user) for user in "xy" for n in range(3)]
    assert order_of(decide(world(loose(4), *jobs, policy=policy))) == ["x0", "y0", "x1", "x2"]


@pytest.mark.parametrize(
    ("ledgers", "first"), [(("queue", "project", "user"), "poor queue"), (("project",), "poor project")]
)
def test_d3_a_ledger_that_is_not_compared_does_not_order(ledgers, first):
    jobs = [job("poor project", queue="merge", project="B"), job("poor queue", queue="eval", at=1)]
    past = used(queue={"merge": 10}, project={"A": 10})
    policy = replace(DEFAULT_POLICY, ledgers=ledgers)
    assert order_of(decide(world(loose(1), *jobs, usage=past, policy=policy))) == [first]


def test_a_job_that_is_backing_off_is_not_placed_and_keeps_its_rank():
    jobs = [job("early", at=1, eligible_at_ms=60_000), job("late", at=2)]
    plan = decide(world(loose(2), *jobs))
    assert (order_of(plan), codes_of(plan)) == (["late"], {"early": ["BACKOFF"]})


def test_a_job_that_is_not_to_start_yet_is_not_placed():
    plan = decide(world(loose(2), job("later", not_before_ms=60_000)))
    assert (order_of(plan), codes_of(plan), plan.next_wakeup_ms) == ([], {"later": ["NOT_BEFORE"]}, 60_000)


def test_a_job_that_is_not_to_start_yet_starts_when_its_time_has_come():
    assert order_of(decide(world(loose(2), job("now", not_before_ms=10_000), now_ms=10_000))) == ["now"]


@pytest.mark.parametrize(("start_by", "gone"), [(9_999, True), (10_000, True), (10_001, False)])
def test_a_job_that_was_to_start_by_now_leaves_the_queue(start_by, gone):
    plan = decide(world(loose(1), job("1", start_by_ms=start_by), now_ms=10_000))
    assert ([each.job for each in plan.expired], order_of(plan)) == ((["1"], []) if gone else ([], ["1"]))


def test_a_job_that_has_to_start_by_an_instant_wakes_the_scheduler_then():
    assert decide(world(loose(1), job("1", 2, start_by_ms=50_000))).next_wakeup_ms == 50_000


def test_a_ranks_order_is_that_in_which_they_would_start():
    jobs = [job("low", 2, level="Low"), job("late", 2, at=2), job("early", 2, at=1), job("high", 2, level="High", at=9)]
    holds = decide(world(loose(1), *jobs)).holds
    assert [hold.job for hold in holds] == ["high", "early", "late", "low"]
