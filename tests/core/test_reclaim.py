"""What is taken back: leases (D21), unclaimed grants, and the budget for lost infrastructure (D13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import JobEvent, JobState, NodeState
from scheduling.core.plan import LoseNode, Plan
from scheduling.core.policy import DEFAULT_POLICY, backoff_s
from scheduling.core.reclaim import is_silent, take_back
from scheduling.core.snapshot import SilenceGuard

from .build import codes_of, groups, job, lease, live, order_of, with_node_state, world

NOW = 100_000


def with_silent(*seconds: float, running=(), waiting=(), **more) -> Plan:
    """A plan over nodes n0, n1, ... that have been silent for so long."""
    leases = [lease(f"n{place}", silent_s=silent, now_ms=NOW) for place, silent in enumerate(seconds)]
    the_pool = more.pop("pool", groups(len(seconds), 2))
    return decide(world(the_pool, *waiting, running=running, leases=leases, now_ms=NOW, **more))


def lost_after(name: str, silent_s: float, now_ms: int = NOW) -> LoseNode:
    """What a plan says of a node that has been silent for so long."""
    return LoseNode(name, now_ms - round(silent_s * 1000))


def granted(seconds_ago: float, **more):
    return live("r", "n0/0", state=JobState.DISPATCHING, granted_ms=NOW - round(seconds_ago * 1000), **more)


def test_d21_a_node_is_lost_at_exactly_sixty_seconds_of_silence():
    assert with_silent(60.0).lose_nodes == (lost_after("n0", 60.0),)


def test_d21_a_node_is_not_lost_before_sixty_seconds_of_silence():
    assert with_silent(59.999).lose_nodes == ()


def test_d21_the_work_of_a_lost_node_is_reclaimed_and_requeued():
    reclaim = with_silent(60.0, running=[live("r", "n0/0", epoch=7)]).reclaims[0]
    assert (reclaim.job, reclaim.epoch, reclaim.causes, reclaim.event) == ("r", 7, ("node_lost",), JobEvent.REQUEUE)


def test_d21_the_work_of_other_nodes_is_left_alone():
    assert with_silent(60.0, 1.0, running=[live("r", "n1/0")]).reclaims == ()


def test_d21_a_node_that_is_already_lost_is_not_lost_again():
    lost = with_node_state(groups(1, 2), "n0", NodeState.LOST)
    assert with_silent(90.0, pool=lost).lose_nodes == ()


def test_d21_work_that_is_still_open_on_a_lost_node_is_reclaimed():
    lost = with_node_state(groups(1, 2), "n0", NodeState.LOST)
    assert [each.job for each in with_silent(90.0, pool=lost, running=[live("r", "n0/0")]).reclaims] == ["r"]


def test_d21_the_gpus_of_a_lost_node_get_no_work():
    assert order_of(with_silent(60.0, waiting=[job("1")])) == []


def test_a_node_silent_for_half_a_lease_gets_no_new_work():
    assert order_of(with_silent(30.0, waiting=[job("1")])) == []


def test_a_node_silent_for_less_than_half_a_lease_gets_work():
    assert order_of(with_silent(29.9, waiting=[job("1")])) == ["1"]


def test_d21_when_five_nodes_and_more_than_a_third_fall_silent_nothing_is_reclaimed():
    silent = (60.0, 60.0, 60.0, 60.0, 60.0, 1.0, 1.0)
    plan = with_silent(*silent, running=[live("r", "n0/0")])
    assert (plan.lose_nodes, plan.reclaims) == ((), ())


def test_d21_mass_silence_alarms_with_its_numbers():
    alarm = with_silent(60.0, 60.0, 60.0, 60.0, 60.0, 1.0, 1.0).alarms[0]
    assert (alarm.code, dict(alarm.numbers)) == ("MASS_SILENCE", {"silent": 5, "nodes": 7})


@pytest.mark.parametrize(("silent", "named"), [(5, "n0, n1, n2 and 2 more"), (7, "n0, n1, n2 and 4 more")])
def test_d21_the_alarm_names_a_few_of_the_nodes_and_says_how_many_more_there_are(silent, named):
    (alarm,) = with_silent(*[60.0] * silent, 1.0).alarms
    assert alarm.message == (
        f"{silent} of {silent + 1} nodes fell silent within one lease ({named}): nothing is taken back from them until "
        "they return or an operator confirms that they are gone"
    )


@pytest.mark.parametrize(("silent_s", "silent"), [(29.999, False), (30.0, True)])
def test_a_node_counts_as_silent_from_half_a_lease_on(silent_s, silent):
    assert is_silent(lease("n0", silent_s=silent_s, now_ms=NOW), 60.0) is silent


def test_d21_the_first_of_many_to_reach_the_lease_is_not_given_away():
    assert with_silent(60.0, 50.0, 45.0, 40.0, 31.0, 1.0).lose_nodes == ()


def test_d21_four_silent_nodes_are_no_mass_silence():
    assert len(with_silent(60.0, 60.0, 60.0, 60.0, 1.0).lose_nodes) == 4


def test_d21_a_third_of_the_nodes_is_no_mass_silence():
    assert len(with_silent(*[60.0] * 5, *[1.0] * 10).lose_nodes) == 5


def test_d21_more_than_a_third_of_the_nodes_is_mass_silence():
    assert with_silent(*[60.0] * 5, *[1.0] * 9).lose_nodes == ()


def returned(*seconds: float, guarded: tuple[str, ...] = ("n0",), now_ms: int = NOW, until_ms: int | None = None):
    """What is taken back once others of those that fell silent with ``guarded`` have returned: n0, n1, ... are silent
    for so long."""
    leases = [lease(f"n{place}", silent_s=silent, now_ms=now_ms) for place, silent in enumerate(seconds)]
    heard = {each.node: each.last_heartbeat_ms for each in leases if each.node in guarded}
    the_world = world(groups(len(seconds), 2), running=[live("r", "n0/0")], leases=leases, now_ms=now_ms)
    return take_back(replace(the_world, guard=SilenceGuard(heard, until_ms)))


def test_d21_who_fell_silent_with_others_that_have_returned_has_one_more_lease():
    back = returned(60.0, *[1.0] * 6)
    assert (back.lose_nodes, back.reclaims, back.guard.until_ms) == ((), (), NOW + 60_000)
    later = returned(119.9, *[1.0] * 6, now_ms=NOW + 59_900, until_ms=back.guard.until_ms)
    assert (later.lose_nodes, later.guard.until_ms) == ((), NOW + 60_000)
    after = returned(120.0, *[1.0] * 6, now_ms=NOW + 60_000, until_ms=back.guard.until_ms)
    assert (after.lose_nodes, len(after.reclaims), after.guard, after.alarms) == (
        (lost_after("n0", 120.0, NOW + 60_000),), 1, SilenceGuard(), ()
    )  # fmt: skip


def test_d21_the_alarm_says_how_many_have_not_returned_and_until_when_they_are_spared():
    alarm = returned(60.0, 60.0, *[1.0] * 6, guarded=("n0", "n1")).alarms[0]
    assert (alarm.code, dict(alarm.numbers)) == ("MASS_SILENCE", {"silent": 2})
    assert alarm.message == (
        "2 nodes of those that fell silent together have not returned yet (n0 and n1): nothing is taken back from "
        "them before 1 Jan 1970, 00:02:40 UTC, unless an operator confirms that they are gone"
    )


def test_d21_a_node_that_fell_silent_by_itself_is_lost_whoever_is_guarded():
    assert returned(60.0, 60.0, *[1.0] * 6).lose_nodes == (lost_after("n1", 60.0),)


def test_d21_a_node_that_was_heard_from_since_is_guarded_no_more():
    leases = [lease("n0", silent_s=60.0, now_ms=NOW), *(lease(f"n{n}", silent_s=1.0, now_ms=NOW) for n in range(1, 7))]
    the_world = replace(world(groups(7, 2), leases=leases, now_ms=NOW), guard=SilenceGuard({"n0": 5}))
    assert take_back(the_world).lose_nodes == (lost_after("n0", 60.0),)


def test_d21_while_many_are_silent_all_of_them_are_guarded_without_an_end():
    back = returned(*[60.0] * 4, 31.0, 1.0, guarded=(), until_ms=NOW + 1)
    assert (sorted(back.guard.nodes), back.guard.until_ms) == (["n0", "n1", "n2", "n3", "n4"], None)


def test_d21_mass_silence_ends_when_all_of_the_nodes_return():
    back = returned(*[1.0] * 7)
    assert (back.guard, back.alarms) == (SilenceGuard(), ())


def test_d21_mass_silence_ends_when_an_operator_confirms():
    assert len(with_silent(*[60.0] * 6, silence_confirmed=True).lose_nodes) == 6


def test_d21_the_guard_of_those_that_have_not_returned_ends_when_an_operator_confirms():
    leases = [lease("n0", silent_s=60.0, now_ms=NOW), *(lease(f"n{n}", silent_s=1.0, now_ms=NOW) for n in range(1, 7))]
    the_world = world(groups(7, 2), leases=leases, now_ms=NOW, silence_confirmed=True)
    back = take_back(replace(the_world, guard=SilenceGuard({"n0": leases[0].last_heartbeat_ms})))
    assert (back.lose_nodes, back.guard) == ((lost_after("n0", 60.0),), SilenceGuard())


def test_d21_nodes_lost_long_ago_do_not_make_a_mass_silence():
    the_pool = groups(8, 2)
    for place in range(4):
        the_pool = with_node_state(the_pool, f"n{place}", NodeState.LOST)
    silent = [86_400.0] * 4 + [60.0] + [1.0] * 3
    assert with_silent(*silent, pool=the_pool).lose_nodes == (lost_after("n4", 60.0),)


def test_a_grant_that_is_not_claimed_within_sixty_seconds_is_taken_back():
    reclaim = with_silent(1.0, running=[granted(60.0)]).reclaims[0]
    assert (reclaim.causes, reclaim.event, reclaim.backoff_s) == (("claim_expired",), JobEvent.REQUEUE, 10.0)


def test_a_grant_is_left_alone_before_sixty_seconds():
    assert with_silent(1.0, running=[granted(59.999)]).reclaims == ()


def test_a_grant_that_was_claimed_is_left_alone():
    assert with_silent(1.0, running=[granted(600.0, unclaimed=())]).reclaims == ()


def test_a_grant_that_was_cancelled_before_any_claim_ends_as_cancelled():
    cancelled = replace(granted(60.0), state=JobState.CANCELLING)
    assert with_silent(1.0, running=[cancelled]).reclaims[0].event is JobEvent.STOPPED


def test_during_mass_silence_unclaimed_grants_of_silent_nodes_are_left_alone():
    assert with_silent(*[60.0] * 6, running=[granted(90.0)]).reclaims == ()


def test_the_gpus_of_a_grant_that_is_taken_back_are_not_given_out_in_the_same_tick():
    plan = with_silent(1.0, running=[granted(60.0), live("s", "n0/1")], waiting=[job("1")])
    assert (order_of(plan), codes_of(plan)) == ([], {"1": ["STARTING"]})


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (JobState.DISPATCHING, JobEvent.REQUEUE),
        (JobState.RUNNING, JobEvent.REQUEUE),
        (JobState.PREEMPTING, JobEvent.REQUEUE),
        (JobState.CANCELLING, JobEvent.STOPPED),
    ],
)
def test_a_job_on_a_lost_node_is_requeued_unless_it_was_being_cancelled(state, event):
    assert with_silent(60.0, running=[live("r", "n0/0", state=state)]).reclaims[0].event is event


@pytest.mark.parametrize(("failures", "retry"), [(0, True), (4, True), (5, False), (9, False)])
def test_d13_the_infrastructure_budget_is_five(failures, retry):
    assert with_silent(60.0, running=[live("r", "n0/0", infra_failures=failures)]).reclaims[0].retry is retry


def test_d13_a_job_whose_budget_is_used_up_fails():
    assert with_silent(60.0, running=[live("r", "n0/0", infra_failures=5)]).reclaims[0].event is JobEvent.FAIL


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0), (6, 320.0), (7, 600.0), (5000, 600.0)]
)
def test_d13_the_backoff_doubles_from_ten_seconds_to_ten_minutes(failures, seconds):
    assert backoff_s(DEFAULT_POLICY, failures) == seconds


def test_the_next_wakeup_is_the_first_deadline():
    plan = with_silent(35.0, running=[granted(50.0)])
    assert plan.next_wakeup_ms == NOW + 10_000


def test_nothing_to_wait_for_needs_no_wakeup():
    assert decide(world(groups(1, 2))).next_wakeup_ms is None


def test_a_job_that_backs_off_wakes_the_scheduler_when_its_pause_is_over():
    assert decide(world(groups(1, 2), job("1", eligible_at_ms=99_000))).next_wakeup_ms == 99_000
