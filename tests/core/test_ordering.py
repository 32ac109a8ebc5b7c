"""The order of the queue: D1, D4, D5 and the worked examples 2 and 5 to 9 and 24."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.decay import decay
from scheduling.core.decide import decide
from scheduling.core.fairshare import FairShare
from scheduling.core.ordering import Order, rank_key

from .build import HOUR_S, codes_of, job, live, loose, order_of, used, weighted, world

WEEK_MS = 7 * 86_400_000


def two_projects(*, hours_of_a: int = 1, hours_of_b: int = 1, count: int = 8) -> list:
    """Jobs a0, a1, ... of A at 0 s on, b0, b1, ... of B at 10 s on."""
    of_a = [job(f"a{n}", at=n, seconds=hours_of_a * HOUR_S) for n in range(count)]
    return of_a + [job(f"b{n}", at=10 + n, project="B", seconds=hours_of_b * HOUR_S) for n in range(count)]


def test_example_2_the_level_comes_before_the_score():
    past = decay(500.0, 10_000, WEEK_MS)
    high, normal = job("J1", at=9, level="High"), job("J2", at=1, project="B")
    plan = decide(world(loose(1), high, normal, usage=used(project={"A": past})))
    assert order_of(plan) == ["J1"]


def test_example_2_shows_the_scores_unclamped():
    past = decay(500.0, 10_000, WEEK_MS)
    high, normal = job("J1", at=9, level="High"), job("J2", at=1, project="B")
    plan = decide(world(loose(1), high, normal, usage=used(project={"A": past})))
    assert [plan.scores[name].project.score for name in ("J1", "J2")] == pytest.approx([-6.3775, 4.0], abs=1e-4)


def test_example_5_weight_zero_sorts_after_everything_with_a_target_in_its_level():
    jobs = [job("Z", at=0, project="Z"), job("B1", at=5, project="B"), job("B2", at=6, project="B")]
    assert order_of(decide(world(loose(2), *jobs, policy=weighted(Z=0.0)))) == ["B1", "B2"]


def test_example_5_weight_zero_starts_when_there_is_room():
    jobs = [job("Z", at=0, project="Z"), job("B1", at=5, project="B"), job("B2", at=6, project="B")]
    assert order_of(decide(world(loose(3), *jobs, policy=weighted(Z=0.0)))) == ["B1", "B2", "Z"]


def test_example_5_weight_zero_has_no_score():
    plan = decide(world(loose(2), job("Z", project="Z"), job("B", project="B"), policy=weighted(Z=0.0)))
    assert plan.scores["Z"].project.score is None


def test_d4_a_higher_level_of_weight_zero_still_goes_first():
    jobs = [job("Z", project="Z", level="High"), job("B", project="B")]
    assert order_of(decide(world(loose(1), *jobs, policy=weighted(Z=0.0)))) == ["Z"]


def test_d4_when_all_weights_are_zero_submission_decides():
    jobs = [job("2", at=2, project="A"), job("1", at=1, project="B")]
    assert order_of(decide(world(loose(2), *jobs, policy=weighted(A=0.0, B=0.0)))) == ["1", "2"]


def test_example_6_each_placed_job_is_charged_at_once():
    assert order_of(decide(world(loose(4), *two_projects()))) == ["a0", "b0", "a1", "b1"]


def test_example_6_longer_jobs_are_charged_more_and_an_exact_tie_goes_to_the_earlier():
    assert order_of(decide(world(loose(4), *two_projects(hours_of_a=2)))) == ["a0", "b0", "b1", "a1"]


def test_example_7_weights_three_to_one_give_six_and_two_of_eight():
    plan = decide(world(loose(8), *two_projects(), policy=weighted(A=3.0, B=1.0)))
    assert order_of(plan) == ["a0", "b0", "a1", "a2", "a3", "b1", "a4", "a5"]


def test_example_7_both_projects_then_have_the_same_ratio():
    plan = decide(world(loose(8), *two_projects(), policy=weighted(A=3.0, B=1.0)))
    deficits = [plan.scores[name].project.deficit for name in ("a6", "b2")]
    assert deficits == pytest.approx([1 - 0.004125876] * 2, abs=1e-9)


def test_example_8_queue_weights_two_one_three():
    jobs = [
        job(f"{queue[0]}{n}", at=100 * place + n, queue=queue)
        for place, queue in enumerate(("merge", "eval", "inference"))
        for n in range(6)
    ]
    assert order_of(decide(world(loose(6), *jobs))) == ["m0", "e0", "i0", "i1", "m1", "i2"]


def test_example_9_the_project_ledger_spans_all_queues():
    past = used(queue={"inference": 50}, project={"A": 50})
    jobs = [job("A", at=1, queue="eval"), job("B", at=2, queue="eval", project="B")]
    plan = decide(world(loose(2), *jobs, usage=past, running=[live("z", "n0/0", project="Z")]))
    assert order_of(plan) == ["B"]


def test_example_9_shows_the_scores_of_both_projects():
    past = used(queue={"inference": 50}, project={"A": 50})
    jobs = [job("A", at=1, queue="eval"), job("B", at=2, queue="eval", project="B")]
    plan = decide(world(loose(2), *jobs, usage=past, running=[live("z", "n0/0", project="Z")]))
    assert [plan.scores[name].project.score for name in "AB"] == pytest.approx([3.3811, 4.0], abs=1e-4)


def test_example_24_critical_and_realtime_are_equal_and_the_queue_ledger_decides():
    jobs = [job("critical", at=5, level="Critical"), job("realtime", at=6, level="Realtime", queue="inference")]
    plan = decide(world(loose(1), *jobs, usage=used(queue={"merge": 1}), now_ms=3_600_000))
    assert order_of(plan) == ["realtime"]


def test_d1_equal_deficits_go_by_submission_time():
    assert order_of(decide(world(loose(1), job("late", at=2), job("early", at=1)))) == ["early"]


def test_d1_equal_submission_times_go_by_id():
    assert order_of(decide(world(loose(1), job("b"), job("a")))) == ["a"]


def test_d3_users_of_a_project_share_it_by_their_own_ledger():
    jobs = [job(f"{user}{n}", at=n, user=user) for user in "xy" for n in range(2)]
    assert order_of(decide(world(loose(4), *jobs))) == ["x0", "y0", "x1", "y1"]


def test_d3_user_weights_count_inside_their_project():
    policy = replace(weighted(), user_weights={("A", "x"): 3.0})
    jobs = [job(f"{user}{n}", at=n, user=user) for user in "xy" for n in range(3)]
    assert order_of(decide(world(loose(4), *jobs, policy=policy))) == ["x0", "y0", "x1", "x2"]


def test_a_job_that_is_backing_off_is_not_placed_and_keeps_its_rank():
    jobs = [job("early", at=1, eligible_at_ms=60_000), job("late", at=2)]
    plan = decide(world(loose(2), *jobs))
    assert (order_of(plan), codes_of(plan)) == (["late"], {"early": ["BACKOFF"]})


jobs_of_any_kind = st.lists(
    st.builds(
        lambda level, queue, project, user, at, seconds, count: (level, queue, project, user, at, seconds, count),
        st.sampled_from(["High", "Normal", "Low"]),
        st.sampled_from(["merge", "eval"]),
        st.sampled_from("AB"),
        st.sampled_from("xy"),
        st.integers(0, 5),
        st.sampled_from([600, 3600, 7200]),
        st.integers(1, 2),
    ),
    max_size=14,
)


def built(rows) -> list:
    return [
        job(f"j{n}", count, at=at, level=level, queue=queue, project=project, user=user, seconds=seconds)
        for n, (level, queue, project, user, at, seconds, count) in enumerate(rows)
    ]


@settings(max_examples=100, deadline=None)
@given(jobs_of_any_kind)
def test_the_order_is_that_of_a_naive_loop_that_picks_the_smallest_key_after_every_start(rows):
    jobs = built(rows)
    share, naive_share = FairShare(world(loose(4), *jobs)), FairShare(world(loose(4), *jobs))
    order, left, chosen, expected = Order(jobs, share), list(jobs), [], []
    while (head := order.peek()) is not None:
        share.charge(head, ["n0/0"] * head.request.gpu_count)
        order.take(head)
        chosen.append(head.id)
    while left:
        head = min(left, key=lambda each: rank_key(each, naive_share))
        naive_share.charge(head, ["n0/0"] * head.request.gpu_count)
        left.remove(head)
        expected.append(head.id)
    assert chosen == expected


@settings(max_examples=50, deadline=None)
@given(jobs_of_any_kind)
def test_a_fit_class_that_was_dropped_does_not_come_up_again(rows):
    jobs = built(rows)
    order = Order(jobs, FairShare(world(loose(4), *jobs)))
    head = order.peek()
    if head is not None:
        order.drop(head)
    rest = []
    while (other := order.peek()) is not None:
        rest.append(other)
        order.take(other)
    gone = head.request.gpu_count if head else 0
    assert sorted(each.id for each in rest) == sorted(each.id for each in jobs if each.request.gpu_count != gone)
