"""Promises: reservations of blocked jobs (D29), and the windows that operators set (D30)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Plan
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.snapshot import Window

from .build import NOW, codes_of, groups, job, live, loose, order_of, places_of, promised, world

DAY_S = 86_400


def planned(the_pool, *jobs, per_level: int = 1, **more) -> Plan:
    policy = replace(DEFAULT_POLICY, backfill=replace(DEFAULT_POLICY.backfill, reservations_per_level=per_level))
    return decide(world(the_pool, *jobs, policy=policy, **more))


def test_d29_the_first_blocked_job_of_a_level_that_needs_several_gpus_holds_a_reservation():
    plan = planned(loose(2), job("1", 2, at=1), job("2", 2, at=2), running=[live("r", "n0/0", ends=600)])
    assert promised(plan) == {"1": (600, ["n0/0", "n0/1"])}


def test_d29_how_many_is_a_number_of_the_policy():
    jobs = [job(f"{n}", 2, at=n) for n in range(4)]
    plan = planned(loose(2), *jobs, per_level=3, running=[live("r", "n0/0", ends=600)])
    assert [start for start, _ in promised(plan).values()] == [600, 4200, 7800]


def test_d29_none_when_the_number_is_zero():
    assert promised(planned(loose(2), job("1", 2), per_level=0, running=[live("r", "n0/0")])) == {}


def test_d29_each_level_has_its_own():
    jobs = [job("high", 2, level="High"), job("normal", 2), job("low", 2, level="Low")]
    plan = planned(loose(2), *jobs, running=[live("r", "n0/0", ends=600)])
    assert {name: start for name, (start, _) in promised(plan).items()} == {"high": 600, "normal": 4200, "low": 7800}


def test_d29_jobs_of_one_gpu_need_none():
    assert promised(planned(loose(1), job("1"), running=[live("r", "n0/0")])) == {}


@pytest.mark.parametrize(("seconds", "starts"), [(590, ["small"]), (591, [])])
def test_d29_everything_else_backfills_under_it_by_max_duration(seconds, starts):
    jobs = [job("large", 2, at=1), job("small", at=2, seconds=seconds)]
    assert order_of(planned(loose(2), *jobs, running=[live("r", "n0/0", ends=600)])) == starts


def test_d29_what_is_not_promised_may_be_used_for_any_time():
    jobs = [job("large", 2, at=1, nvlink=True), job("small", at=2, seconds=DAY_S)]
    running = [live("r", "n0/0", ends=600), live("s", "n1/0", ends=900)]
    assert places_of(planned(groups(2, 2), *jobs, running=running)) == {"small": ["n1/1"]}


@pytest.mark.parametrize(("age_s", "holds"), [(DAY_S, []), (DAY_S + 1, ["old"])])
def test_d29_a_job_waiting_over_a_day_holds_one_whatever_its_rank(age_s, holds):
    first, old = job("first", 2, level="Normal", project="B", at=0), job("old", at=0)
    now_ms = age_s * 1000
    plan = planned(loose(2), first, replace(old, level="Normal"), now_ms=now_ms,
                   running=[live("r", "n0/0", "n0/1", now_ms=now_ms)])  # fmt: skip
    assert [name for name in promised(plan) if name == "old"] == holds


def test_d29_at_most_eight_such_the_oldest_first():
    jobs = [job(f"{n:02}", at=n) for n in range(12)]
    now_ms = 2 * DAY_S * 1000
    plan = planned(loose(1), *jobs, now_ms=now_ms, running=[live("r", "n0/0", now_ms=now_ms)])
    assert sorted(promised(plan)) == [f"{n:02}" for n in range(8)]


def test_d29_a_day_of_waiting_changes_no_level():
    now_ms = (DAY_S + 60) * 1000
    jobs = [job("old", 3, at=0, level="Low"), job("new", 3, at=DAY_S, level="High")]
    holds = planned(loose(2), *jobs, now_ms=now_ms).holds
    assert [hold.job for hold in holds] == ["new", "old"]


@pytest.mark.parametrize("count", [1, 2])
def test_d29_a_job_waiting_over_a_day_starts_when_it_fits_and_holds_no_reservation_then(count):
    now_ms = (DAY_S + 60) * 1000
    plan = planned(loose(2), job("old", count, at=0), now_ms=now_ms)
    assert (order_of(plan), promised(plan)) == (["old"], {})


def test_d29_a_job_ranked_above_does_not_wait_for_one_that_waits_over_a_day():
    now_ms = (DAY_S + 60) * 1000
    jobs = [job("old", 2, at=0, level="Low"), job("new", at=DAY_S, level="Critical", seconds=DAY_S)]
    running = [live("r", "n0/0", now_ms=now_ms, seconds=600)]
    assert order_of(planned(loose(2), *jobs, now_ms=now_ms, running=running)) == ["new"]


def test_d29_an_expected_end_is_never_in_the_past():
    running = [live("r", "n0/0", ends=1)]
    assert promised(planned(loose(2), job("1", 2), running=running)) == {"1": (NOW / 1000 + 60, ["n0/0", "n0/1"])}


def test_a_job_that_no_place_could_hold_as_things_are_gets_no_reservation_and_uses_up_none():
    jobs = [job("too large", 3, at=1), job("fits", 2, at=2)]
    assert list(promised(planned(loose(2), *jobs, running=[live("r", "n0/0")]))) == ["fits"]


def window(start: float, end: float, *nodes: str, project: str | None = None) -> Window:
    return Window("w", nodes or ("n0",), round(start * 1000), round(end * 1000), project)


@pytest.mark.parametrize(("seconds", "starts"), [(90, ["1"]), (91, [])])
def test_d30_a_job_starts_before_a_window_only_if_it_ends_by_then(seconds, starts):
    plan = decide(world(loose(1), job("1", seconds=seconds), windows=(window(100, 200),)))
    assert order_of(plan) == starts


def test_d30_a_node_in_its_window_takes_no_work():
    assert codes_of(decide(world(loose(1), job("1"), windows=(window(0, 200),)))) == {"1": ["WINDOW"]}


def test_d30_a_window_that_is_over_is_forgotten():
    assert order_of(decide(world(loose(1), job("1"), windows=(window(0, 10),)))) == ["1"]


def test_d30_other_nodes_are_not_closed():
    assert places_of(decide(world(groups(2, 1), job("1"), windows=(window(0, 200),)))) == {"1": ["n1/0"]}


@pytest.mark.parametrize(("project", "starts"), [("A", ["1"]), ("B", [])])
def test_d30_an_advance_reservation_is_open_to_its_project_alone(project, starts):
    plan = decide(world(loose(1), job("1", project=project), windows=(window(0, 200, project="A"),)))
    assert order_of(plan) == starts


def test_d30_a_reservation_waits_for_the_end_of_a_window_it_would_meet():
    running = [live("r", "n0/0", ends=100)]
    plan = planned(loose(2), job("1", 2, seconds=600), running=running, windows=(window(300, 1000),))
    assert promised(plan) == {"1": (1000, ["n0/0", "n0/1"])}


def test_d30_a_reservation_fits_in_before_a_window():
    running = [live("r", "n0/0", ends=100)]
    plan = planned(loose(2), job("1", 2, seconds=200), running=running, windows=(window(300, 1000),))
    assert promised(plan) == {"1": (100, ["n0/0", "n0/1"])}
