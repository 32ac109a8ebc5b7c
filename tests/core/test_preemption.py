"""Who is evicted for whom: D7, D8, D10 and D31, told by plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import GpuState, JobState
from scheduling.core.plan import Plan
from scheduling.core.policy import DEFAULT_POLICY, PreemptRule
from scheduling.core.snapshot import ALWAYS_SAVED, LiveAttempt, Nomination, WaitingJob

from .build import (
    HOUR_S,
    NOW,
    gang,
    gpus,
    groups,
    job,
    live,
    loose,
    nominated,
    order_of,
    places_of,
    pool,
    promised,
    victims,
    with_gpu_state,
    world,
)


def running(name: str, *held: str, for_s: int = 900, **more) -> LiveAttempt:
    """An attempt that has run for so many seconds and has an hour left."""
    return live(name, *held, granted_ms=NOW - for_s * 1000, **{"level": "Low", **more})


def critical(count: int = 1, **more) -> WaitingJob:
    return job("critical", count, level="Critical", **more)


def planned(the_pool, the_job: WaitingJob, *attempts: LiveAttempt, **more) -> Plan:
    return decide(world(the_pool, the_job, running=attempts, **more))


@pytest.mark.parametrize(
    ("queue", "level", "stopped"),
    [
        ("merge", "Normal", True),
        ("merge", "Low", True),
        ("eval", "Normal", True),
        ("eval", "Low", True),
        ("inference", "Normal", True),
        ("merge", "High", False),
        ("merge", "Critical", False),
        ("eval", "High", False),
        ("inference", "Realtime", False),
    ],
)
def test_d7_critical_evicts_normal_and_low_of_every_queue_and_nobody_else(queue, level, stopped):
    plan = planned(loose(1), critical(), running("r", "n0/0", queue=queue, level=level))
    assert victims(plan) == (["r"] if stopped else [])


@pytest.mark.parametrize(
    ("queue", "level", "stopped"),
    [("inference", "Normal", True), ("merge", "Normal", False), ("eval", "Low", False), ("merge", "Low", False)],
)
def test_d7_realtime_evicts_normal_of_its_own_queue(queue, level, stopped):
    realtime = job("realtime", level="Realtime", queue="inference")
    plan = planned(loose(1), realtime, running("r", "n0/0", queue=queue, level=level))
    assert victims(plan) == (["r"] if stopped else [])


@pytest.mark.parametrize(("queue", "level"), [("merge", "High"), ("eval", "High"), ("inference", "Normal")])
def test_d7_others_never_evict(queue, level):
    plan = planned(loose(1), job("1", queue=queue, level=level), running("r", "n0/0"))
    assert victims(plan) == []


def test_d7_the_table_is_data():
    policy = replace(DEFAULT_POLICY, preemption=(PreemptRule("eval", "High", "eval", "Low"),))
    plan = planned(loose(1), job("1", queue="eval", level="High"), running("r", "n0/0", queue="eval"), policy=policy)
    assert victims(plan) == ["r"]


def test_d7_its_own_queue_is_preferred():
    attempts = [running("eval", "n0/0", queue="eval", for_s=100), running("merge", "n0/1", for_s=900)]
    assert victims(planned(loose(2), critical(), *attempts)) == ["merge"]


def test_d7_a_job_that_is_not_preemptible_is_never_evicted():
    assert victims(planned(loose(1), critical(), running("r", "n0/0", preemptible=False))) == []


@pytest.mark.parametrize("state", [JobState.DISPATCHING, JobState.CANCELLING, JobState.PREEMPTING])
def test_only_a_running_job_is_evicted(state):
    assert victims(planned(loose(1), critical(), running("r", "n0/0", state=state))) == []


def test_d8_nobody_is_evicted_unless_the_preemptor_then_fits():
    attempts = [running("low", "n0/0"), running("high", "n0/1", level="High")]
    assert victims(planned(loose(2), critical(2), *attempts)) == []


def test_d8_the_victim_is_asked_with_the_grace_of_its_queue():
    queues = tuple(replace(queue, grace_s=45.0 if queue.name == "eval" else 90.0) for queue in DEFAULT_POLICY.queues)
    policy = replace(DEFAULT_POLICY, queues=queues)
    plan = planned(loose(1), critical(), running("r", "n0/0", queue="eval"), policy=policy)
    assert [(each.job, each.nominee, each.grace_s) for each in plan.preempts] == [("r", "critical", 45.0)]


def test_d8_the_gpus_are_nominated_until_the_longest_grace_and_some_slack_are_over():
    plan = planned(loose(2), critical(2), running("a", "n0/0"), running("b", "n0/1", queue="eval"))
    assert [each.deadline_ms for each in plan.nominations] == [NOW + 150_000]


def test_d8_a_nominee_is_given_exactly_what_it_needs_the_free_ones_first():
    plan = planned(loose(4), critical(2), running("r", "n0/0", "n0/1", "n0/2"))
    assert plan.nominations[0].gpus == ("n0/3", "n0/0")


def test_d8_no_job_ranked_below_it_gets_the_gpus():
    the_job, below = critical(2), job("below", at=1, seconds=1)
    plan = decide(world(loose(2), the_job, below, running=[running("r", "n0/0")]))
    assert (nominated(plan), order_of(plan)) == ({"critical": ["n0/0", "n0/1"]}, [])


def kept(*held: str, until_s: float = 60) -> Nomination:
    return Nomination("critical", held, NOW + round(until_s * 1000))


def test_d8_a_nominee_starts_when_its_gpus_are_released():
    plan = planned(loose(2), critical(2), nominations=(kept("n0/1", "n0/0"),))
    assert [(start.job, start.gpus) for start in plan.starts] == [("critical", ("n0/1", "n0/0"))]


def test_d8_a_nominee_waits_while_a_victim_still_holds_one():
    stopping = running("r", "n0/0", state=JobState.PREEMPTING)
    plan = planned(loose(2), critical(2), stopping, nominations=(kept("n0/1", "n0/0"),))
    assert (order_of(plan), plan.unnominations) == ([], ())


def test_d8_a_nominee_starts_elsewhere_when_it_can():
    stopping = running("r", "n0/0", state=JobState.PREEMPTING)
    plan = planned(groups(2, 1), critical(), stopping, nominations=(kept("n0/0"),))
    assert places_of(plan) == {"critical": ["n1/0"]}
    assert [each.job for each in plan.unnominations] == ["critical"]


def test_a_nomination_ends_at_its_deadline():
    stopping = running("r", "n0/0", state=JobState.PREEMPTING)
    plan = planned(loose(1), critical(), stopping, nominations=(kept("n0/0", until_s=0),))
    assert [each.job for each in plan.unnominations] == ["critical"]


def test_a_nomination_of_a_job_that_no_longer_waits_is_given_up():
    plan = planned(loose(1), job("other"), nominations=(Nomination("gone", ("n0/0",), NOW + 60_000),))
    assert [each.job for each in plan.unnominations] == ["gone"]


def test_what_a_victim_frees_beyond_the_need_goes_to_others_when_it_is_released():
    plan = decide(world(loose(3), critical(), job("other", 2, at=1), nominations=(kept("n0/0"),)))
    assert places_of(plan) == {"critical": ["n0/0"], "other": ["n0/1", "n0/2"]}


def test_d10_the_lowest_level_goes_first_whatever_it_loses():
    attempts = [running("normal", "n0/0", level="Normal", for_s=100), running("low", "n0/1", for_s=3000)]
    assert victims(planned(loose(2), critical(), *attempts)) == ["low"]


def test_d10_then_the_least_gpu_seconds_lost():
    attempts = [running("a", "n0/0", for_s=900), running("b", "n0/1", for_s=800)]
    assert victims(planned(loose(2), critical(), *attempts)) == ["b"]


def test_d10_what_a_checkpoint_kept_is_not_lost():
    attempts = [running("a", "n0/0", for_s=900, saved_ms=NOW - 10_000), running("b", "n0/1", for_s=800)]
    assert victims(planned(loose(2), critical(), *attempts)) == ["a"]


def test_d10_the_time_to_restore_is_lost_too():
    attempts = [
        running("a", "n0/0", saved_ms=ALWAYS_SAVED, restore_s=300),
        running("b", "n0/1", saved_ms=ALWAYS_SAVED, restore_s=60),
    ]
    assert victims(planned(loose(2), critical(), *attempts)) == ["b"]


def test_d10_then_the_fewest():
    halves = [running(name, place, saved_ms=ALWAYS_SAVED) for name, place in (("a", "n0/0"), ("b", "n0/1"))]
    whole = running("c", "n1/0", "n1/1", saved_ms=ALWAYS_SAVED)
    assert victims(planned(groups(2, 2), critical(2), *halves, whole)) == ["c"]


@pytest.mark.parametrize(("a_left_s", "b_left_s", "stopped"), [(900, 800, "a"), (800, 900, "b")])
def test_then_the_one_that_would_hold_its_gpus_for_the_longest(a_left_s, b_left_s, stopped):
    attempts = [
        running("a", "n0/0", seconds=a_left_s, for_s=700, saved_ms=NOW),
        running("b", "n0/1", seconds=b_left_s, for_s=800, saved_ms=NOW),
    ]
    assert victims(planned(loose(2), critical(), *attempts)) == [stopped]


def test_d10_then_the_id():
    attempts = [running(name, place, saved_ms=NOW) for name, place in (("b", "n0/0"), ("a", "n0/1"))]
    assert victims(planned(loose(2), critical(), *attempts)) == ["a"]


@pytest.mark.parametrize(
    "sheltered",
    [{"for_s": 59}, {"for_s": 590, "checkpoint_interval_s": 600}, {"recent_preemptions": 3}],
)
def test_d10_a_protected_job_is_evicted_only_when_no_other_set_exists(sheltered):
    other = running("other", "n0/1", level="Normal", for_s=3000)
    assert victims(planned(loose(2), critical(), running("sheltered", "n0/0", **sheltered), other)) == ["other"]
    assert victims(planned(loose(1), critical(), running("sheltered", "n0/0", **sheltered))) == ["sheltered"]


def test_d10_only_inside_one_place():
    the_pool = pool(gpus("n0", 2, group="a"), gpus("n0", 2, group="b", first=2))
    attempts = [
        running("a cheap", "n0/0", for_s=100),
        running("b cheap", "n0/2", for_s=100),
        running("a dear", "n0/1", for_s=3000),
        running("b dear", "n0/3", for_s=3100),
    ]
    assert victims(planned(the_pool, critical(2, nvlink=True), *attempts)) == ["a cheap", "a dear"]


def test_d10_a_victim_over_several_nodes_counts_once_for_a_gang():
    attempts = [running("both", "n0/0", "n1/0"), running("one", "n2/0", for_s=100)]
    two = gang("critical", 2, 1, level="Critical")
    assert victims(
        planned(groups(3, 2), two, *attempts, *(running(f"h{n}", f"n{n}/1", level="High") for n in range(3)))
    ) == ["both"]


def test_an_exclusive_job_evicts_all_who_are_in_a_group():
    attempts = [running("a", "n0/0"), running("b", "n0/1"), running("c", "n1/0"), running("h", "n1/1", level="High")]
    plan = planned(groups(2, 4), critical(2, nvlink=True, nvlink_exclusive=True), *attempts)
    assert (victims(plan), nominated(plan)) == (["a", "b"], {"critical": ["n0/0", "n0/1", "n0/2", "n0/3"]})


def test_a_job_that_may_spread_evicts_across_nodes():
    attempts = [running("a", "n0/0"), running("b", "n1/0")]
    assert victims(planned(groups(2, 1), critical(2, allow_span=True), *attempts)) == ["a", "b"]


def test_nobody_is_evicted_for_a_job_that_no_gpu_suits():
    both = gang("critical", 2, 1, level="Critical", nvlink=True, memory="80GB")
    the_pool = pool(gpus("n0", 1, memory="24GB", group="fabric"), gpus("n1", 1, memory="24GB", group="fabric"))
    exclusive = replace(DEFAULT_POLICY, nvlink_mode="exclusive")
    assert victims(planned(the_pool, both, running("r", "n0/0"), policy=exclusive)) == []


def test_gpus_promised_to_a_job_ranked_above_are_not_taken_by_eviction():
    above = job("above", 2, at=1, level="Realtime", queue="inference", project="B", seconds=HOUR_S)
    below = job("below", at=2, level="Critical", project="C", seconds=HOUR_S)
    attempts = [running("low", "n0/0", seconds=1800), running("high", "n0/1", level="High", seconds=1800)]
    plan = decide(world(loose(2), above, below, running=attempts))
    assert (victims(plan), list(promised(plan))) == ([], ["above"])


def test_d31_while_checkpoints_cant_be_stored_nobody_is_evicted():
    assert victims(planned(loose(1), critical(), running("r", "n0/0"), can_preempt=False)) == []


@pytest.mark.parametrize(
    ("left_s", "save_s", "stopped"), [(30, 30, []), (31, 30, ["r"]), (120, None, []), (121, None, ["r"])]
)
def test_waiting_is_preferred_when_it_takes_no_longer_than_saving(left_s, save_s, stopped):
    assert victims(planned(loose(1), critical(), running("r", "n0/0", seconds=left_s, save_s=save_s))) == stopped


def test_a_preemptor_that_finds_no_set_counts_those_it_may_evict_as_soon_free_in_its_reservation():
    attempts = [running("low", "n0/0", seconds=9000), running("high", "n0/1", level="High", seconds=600)]
    assert promised(planned(loose(2), critical(2), *attempts)) == {"critical": (NOW / 1000 + 600, ["n0/0", "n0/1"])}


def test_d8_a_nominee_whose_gpu_takes_no_work_any_more_plans_anew_at_once():
    sick = with_gpu_state(loose(2), "n0/0", GpuState.UNHEALTHY)
    asked = running("a", "n0/0", state=JobState.PREEMPTING, stop_by_ms=NOW + 60_000)
    plan = planned(sick, critical(), asked, running("b", "n0/1"), nominations=(kept("n0/0"),))
    assert (victims(plan), [each.job for each in plan.unnominations]) == (["b"], ["critical"])
    assert [(each.gpus, each.again) for each in plan.nominations] == [(("n0/1",), False)]


def late(name: str, *held: str, **more):
    """A Low job that was asked to stop and has used up its grace."""
    return running(name, *held, state=JobState.PREEMPTING, stop_by_ms=NOW, **more)


def test_d8_a_victim_that_did_not_save_in_time_is_replaced_by_another_legal_set():
    plan = planned(loose(2), critical(), late("a", "n0/0"), running("b", "n0/1"), nominations=(kept("n0/0"),))
    assert (victims(plan), [each.job for each in plan.unnominations]) == (["b"], ["critical"])
    assert [(each.gpus, each.again) for each in plan.nominations] == [(("n0/1",), True)]


def test_d8_the_new_plan_counts_what_other_victims_have_left_for_the_job():
    plan = planned(loose(3), critical(2), late("a", "n0/0"), running("b", "n0/2"), nominations=(kept("n0/0", "n0/1"),))
    assert (victims(plan), [each.gpus for each in plan.nominations]) == (["b"], [("n0/1", "n0/2")])


def test_d8_what_others_have_left_may_do_without_the_one_that_did_not_save():
    plan = planned(loose(3), critical(2), late("a", "n0/0"), running("b", "n0/2"), nominations=(kept("n0/0", "n0/1"),))
    freed = planned(loose(3), critical(2), late("a", "n0/0"), nominations=(kept("n0/0", "n0/1"),))
    assert victims(plan) == ["b"]
    assert (places_of(freed), freed.nominations) == ({"critical": ["n0/1", "n0/2"]}, ())


def test_d8_without_another_legal_set_the_victim_that_did_not_save_is_still_the_one():
    high = running("b", "n0/1", level="High")
    plan = planned(loose(2), critical(), late("a", "n0/0"), high, nominations=(kept("n0/0"),))
    assert (victims(plan), plan.nominations, plan.unnominations) == ([], (), ())


def test_d8_there_is_one_new_plan_and_no_more():
    again = replace(kept("n0/0"), again=True)
    plan = planned(loose(2), critical(), late("a", "n0/0"), running("b", "n0/1"), nominations=(again,))
    assert (victims(plan), plan.unnominations) == ([], ())


def test_d8_the_scheduler_looks_when_a_victims_grace_ends():
    asked = running("a", "n0/0", state=JobState.PREEMPTING, stop_by_ms=NOW + 7_000)
    plan = planned(loose(1), critical(), asked, nominations=(kept("n0/0"),))
    assert plan.next_wakeup_ms == NOW + 7_000
