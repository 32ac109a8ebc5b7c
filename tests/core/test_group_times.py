"""When rules about groups let a job start: beside others while they run, apart from them once they have ended (D19)."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.estimate import estimate
from scheduling.core.explain import Explainer
from scheduling.core.plan import Reason
from scheduling.core.pool import Pool
from scheduling.core.resources import GroupRule
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, WaitingJob

from .build import codes_of, gang, gpus, job, live, node, pool, promised, world

BESIDE, APART = GroupRule("red", "node"), GroupRule("red", "node")


class Seen:
    """What is expected of the job "1", and where."""

    def __init__(self, the_pool: Pool, *jobs: WaitingJob, running: list[LiveAttempt]) -> None:
        snapshot = world(the_pool, *jobs, running=running)
        scheduler = Scheduler(snapshot)
        scheduler.cycle(snapshot.now_ms)
        explainer, queued = Explainer(scheduler), scheduler.waiting.by_id["1"]
        # The estimate first: it must not need the reasons to have been asked for.
        found, place = estimate(scheduler, explainer, queued), explainer.starts_by(queued)
        self.second = None if found is None else found.low / 1000
        self.nodes = () if place is None else scheduler.inventory.nodes_of(place[1])
        self.reasons = {reason.code: reason for reason in explainer.of("1")}


def told(reason: Reason) -> dict[str, object]:
    return dict(reason.numbers)


def two(each: int = 1) -> Pool:
    """n0 in rack r0 and n1 in rack r1."""
    nodes = [node("n0"), node("n1", rack="r1")]
    return pool(gpus("n0", each), gpus("n1", each), nodes=nodes)


def test_a_start_is_not_expected_beside_a_job_that_has_ended_by_then():
    seen = Seen(two(), job("1", near=BESIDE), running=[live("red", "n0/0", family="red", ends=600), live("x", "n1/0")])
    assert seen.second is None
    assert list(seen.reasons) == ["BUSY", "PARTNER_LEAVES"]
    assert seen.reasons["PARTNER_LEAVES"].message == (
        "The jobs of group red that it is to run beside have a time limit until 1 Jan 1970, 00:10 UTC at the latest, "
        "and before that no node of theirs has room for it. Then it waits for another one."
    )


@pytest.mark.parametrize(("partner_ends", "expected"), [(599, None), (600, None), (601, 600)])
def test_a_start_is_expected_where_the_partner_outlasts_the_wait(partner_ends, expected):
    running = [live("red", "n0/0", family="red", ends=partner_ends), live("x", "n0/1", ends=600), live("y", "n1/0")]
    assert Seen(pool(gpus("n0", 2), gpus("n1", 1)), job("1", near=BESIDE), running=running).second == expected


@pytest.mark.parametrize(("partner_ends", "reserved"), [(600, {}), (601, {"1": (600, ["n0/1", "n0/2"])})])
def test_gpus_are_not_promised_for_a_time_when_the_partner_is_gone(partner_ends, reserved):
    running = [live("red", "n0/0", family="red", ends=partner_ends), live("x", "n0/1", "n0/2", ends=600)]
    assert promised(decide(world(pool(gpus("n0", 3)), job("1", 2, near=BESIDE), running=running))) == reserved


def test_the_place_that_is_named_lies_in_the_rack_of_the_partner():
    running = [live("red", "n0/0", family="red"), live("x", "n0/1", ends=900), live("y", "n1/0", "n1/1", ends=300)]
    seen = Seen(two(2), job("1", near=GroupRule("red", "rack")), running=running)
    assert (seen.second, seen.nodes) == (900, ("n0",))


def test_where_partners_run_in_several_places_the_one_that_is_left_is_expected():
    running = [live("red", "n0/0", family="red", ends=100), live("x", "n0/1", ends=200),
               live("too", "n1/0", family="red", ends=900), live("y", "n1/1", ends=500)]  # fmt: skip
    seen = Seen(two(2), job("1", near=BESIDE), running=running)
    assert (seen.second, seen.nodes) == (500, ("n1",))


def test_a_job_of_the_group_itself_goes_anywhere_once_the_others_have_ended():
    running = [live("red", "n0/0", family="red", ends=600), live("x", "n1/0", ends=300)]
    seen = Seen(two(), job("1", near=BESIDE, family="red"), running=running)
    assert (seen.second, seen.nodes) == (600, ("n0",))


def test_a_job_that_keeps_apart_is_expected_where_the_last_of_them_ends_first():
    running = [live("a", "n0/0", family="red", ends=600), live("b", "n0/1", family="red", ends=700),
               live("c", "n1/0", family="red", ends=900)]  # fmt: skip
    seen = Seen(two(2), job("1", apart=APART), running=running)
    assert (seen.second, seen.nodes) == (700, ("n0",))
    assert told(seen.reasons["RULE"])["earliest_at_ms"] == 660_000  # the minute, down
    assert told(seen.reasons["RULE"])["earliest_domain"] == "n0"


def test_a_job_that_others_keep_away_from_is_expected_when_they_have_ended():
    running = [live("keeper", "n0/0", apart=APART, ends=600), live("other", "n1/0", apart=APART, ends=1200)]
    assert Seen(two(2), job("1", family="red"), running=running).second == 600


def test_a_gang_that_keeps_apart_has_its_gpus_promised_from_when_the_others_have_ended():
    running = [live("a", "n0/0", family="red", ends=600), live("b", "n1/0", family="red", ends=900)]
    plan = decide(world(two(2), gang("1", 2, 2, apart=APART), running=running))
    assert promised(plan) == {"1": (900, ["n0/0", "n0/1", "n1/0", "n1/1"])}


def test_overdue_jobs_keep_others_away_for_a_minute_more():
    seen = Seen(pool(gpus("n0", 2)), job("1", apart=APART), running=[live("a", "n0/0", family="red", ends=1)])
    assert seen.second == 70


def test_jobs_that_wait_to_run_beside_each_other_are_told_so():
    jobs = [
        job("1", near=GroupRule("blue", "rack"), family="red"),
        job("2", near=GroupRule("red", "rack"), family="blue"),
    ]
    plan = decide(world(two(), *jobs))
    assert codes_of(plan) == {"1": ["CIRCULAR"], "2": ["CIRCULAR"]}
    assert plan.holds[0].reasons[0].message == (
        "It is to run in one rack with a job of group blue, whose jobs are to run beside its own group red: each waits "
        "for the other. One of the two must be submitted without that rule. It would start now without having to run "
        "beside group blue."
    )


def test_a_circle_of_three_is_told_too():
    families = ("red", "blue", "green")
    jobs = [job(str(n), near=GroupRule(families[(n + 1) % 3], "node"), family=families[n]) for n in range(3)]
    assert codes_of(decide(world(two(), *jobs))) == {str(n): ["CIRCULAR"] for n in range(3)}


def test_a_circle_that_another_job_will_break_is_none():
    blue, red = GroupRule("blue", "node"), GroupRule("red", "node")
    jobs = [job("1", near=blue, family="red"), job("2", near=red, family="blue"), job("3", 2, family="blue")]
    assert codes_of(decide(world(two(1), *jobs)))["1"] == ["NO_PARTNER"]
