"""Why a job waits: every reason with its numbers. The worked examples 12, 17 and 23 have some too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.in_hand import starting_soon
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Pool
from scheduling.core.resources import GroupRule
from scheduling.core.snapshot import Window

from .build import (
    codes_of,
    gang,
    gpus,
    groups,
    job,
    live,
    loose,
    node,
    numbers_of,
    order_of,
    pool,
    rule,
    with_gpu_state,
    with_node_state,
    world,
)


def test_busy_says_in_words_what_is_short_and_what_would_start():
    message = decide(world(loose(2), job("1", 2), running=[live("r", "n0/0")])).holds[0].reasons[0].message
    assert message == (
        "Needs 2 GPUs in one node; 1 suitable free. The nearest node is n0, 1 short. "
        "It would start now with at most 1 GPU."
    )


def test_without_nvlink_is_offered_when_that_would_start_now():
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n0", 2, group="g1", first=2))
    running = [live("r", "n0/0"), live("s", "n0/2")]
    plan = decide(world(the_pool, job("1", 2, nvlink=True), running=running))
    assert numbers_of(plan, "1", "FRAGMENTED")["without_nvlink"] == 1


@pytest.mark.parametrize("key", ["gpus_at_most", "without_nvlink", "memory_at_most_mib"])
def test_nothing_is_offered_that_would_not_start(key):
    running = [live("r", "n0/0", "n0/1", "n1/0", "n1/1")]
    plan = decide(world(groups(2, 2), job("1", 2, nvlink=True, memory="10GB"), running=running))
    assert key not in numbers_of(plan, "1", "BUSY")


def test_a_job_that_runs_over_its_time_is_expected_to_end_in_a_minute_and_never_in_the_past():
    plan = decide(world(loose(1), job("1"), running=[live("r", "n0/0", seconds=0)], now_ms=60_000))
    assert numbers_of(plan, "1", "BUSY")["earliest_at_ms"] == 120_000


def test_d14_while_no_node_is_registered_all_jobs_wait():
    assert codes_of(decide(world(Pool(), job("1"), job("2", 500)))) == {"1": ["NO_NODES"], "2": ["NO_NODES"]}


def test_d14_a_job_that_the_pool_can_no_longer_hold_stays_queued_with_no_inventory():
    plan = decide(world(groups(1, 2), job("1", 4, nvlink=True)))
    assert numbers_of(plan, "1", "NO_INVENTORY") == {"need": 4, "installed": 2}


def test_d14_retired_gpus_are_not_installed():
    assert codes_of(decide(world(with_gpu_state(loose(1), "n0/0", GpuState.RETIRED), job("1")))) == {
        "1": ["NO_INVENTORY"]
    }


@pytest.mark.parametrize("state", [GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.QUARANTINED])
def test_d14_unhealthy_gpus_are_installed_but_the_job_waits_for_them(state):
    plan = decide(world(with_gpu_state(loose(2), "n0/0", state), job("1", 2)))
    assert numbers_of(plan, "1", "UNHEALTHY_CAPACITY") == {"need": 2, "healthy": 1, "installed": 2}


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING, NodeState.LOST])
def test_d14_a_node_that_takes_no_work_is_installed_but_the_job_waits_for_it(state):
    assert codes_of(decide(world(with_node_state(loose(2), "n0", state), job("1")))) == {"1": ["UNHEALTHY_CAPACITY"]}


def test_a_rule_is_the_reason_when_it_is_the_only_obstacle():
    the_job = job("1", rules=[rule("node", "In", "n0")])
    plan = decide(world(groups(2, 1), the_job, running=[live("r", "n0/0")]))
    assert numbers_of(plan, "1", "RULE") == {"rules": "node=n0", "without_rule": 1}


def test_a_rule_is_not_the_reason_when_without_it_the_job_would_wait_too():
    the_job = job("1", rules=[rule("node", "In", "n0")])
    plan = decide(world(groups(2, 1), the_job, running=[live("r", "n0/0"), live("s", "n1/0")]))
    assert codes_of(plan) == {"1": ["BUSY"]}


def test_a_rule_is_the_reason_when_nothing_installed_satisfies_it_any_more():
    assert codes_of(decide(world(loose(1), job("1", rules=[rule("rack_id", "In", "r9")])))) == {"1": ["RULE"]}


def test_a_job_whose_gpus_went_to_jobs_ahead_of_it_is_behind_them():
    plan = decide(world(loose(1), job("1", at=1), job("2", at=2)))
    assert numbers_of(plan, "2", "BEHIND") == {"first": "1", "jobs_ahead": 1, "gpus_taken": 1}


def test_being_behind_is_told_of_the_past_so_that_it_does_not_contradict_what_is_short_now():
    jobs = [job("1", at=1), job("2", 2, at=2), job("3", 3, at=3)]
    told = [reason.message for reason in decide(world(loose(3), *jobs)).holds[0].reasons]
    assert told[0] == (
        "It would have fitted before this pass of the scheduler, in which 2 jobs ahead of it got 3 GPUs."
    )
    assert told[1].startswith("Needs 3 GPUs in one node; 0 suitable free.")


def test_a_job_that_is_behind_is_also_told_what_is_short():
    assert codes_of(decide(world(loose(1), job("1", at=1), job("2", at=2)))) == {"2": ["BEHIND", "BUSY"]}


def test_a_job_that_did_not_fit_before_either_is_not_behind():
    plan = decide(world(loose(2), job("1", at=1), job("2", 2, at=2), running=[live("r", "n0/0")]))
    assert codes_of(plan) == {"2": ["BUSY"]}


def test_a_job_that_backs_off_says_until_when():
    plan = decide(world(loose(1), job("1", eligible_at_ms=70_000)))
    assert numbers_of(plan, "1", "BACKOFF") == {"until_ms": 70_000}
    assert message_of(plan).startswith("Waits until 1 Jan 1970, 00:01:10 UTC after an infrastructure failure")


def test_jobs_of_one_shape_have_the_same_reason_and_different_ranks():
    plan = decide(world(loose(1), job("1", at=1), job("2", at=2), running=[live("r", "n0/0")]))
    assert [(hold.job, hold.rank) for hold in plan.holds] == [("1", 1), ("2", 2)]
    assert plan.holds[0].reasons is plan.holds[1].reasons


def test_an_exclusive_job_is_told_how_many_gpus_keep_it_from_a_whole_group():
    running = [live("r", "n0/0", ends=600)]
    plan = decide(world(groups(1, 4), job("1", 2, nvlink=True, nvlink_exclusive=True), running=running, now_ms=0))
    numbers = numbers_of(plan, "1", "FRAGMENTED")
    assert (numbers["short"], numbers["earliest_at_ms"]) == (1, 600_000)


def test_a_counterfactual_is_true():
    running = [live("r", "n0/0", "n0/1"), live("s", "n1/0", "n1/1")]
    assert order_of(decide(world(groups(2, 4), job("1", 2, nvlink=True), running=running))) == ["1"]


def test_a_change_is_not_offered_on_gpus_the_job_avoids():
    the_pool = pool(gpus("n0", 2, memory="24GB"), gpus("n1", 2, memory="80GB"))
    waiting = job("1", memory="40GB", avoid_nodes=["n0"])
    plan = decide(world(the_pool, waiting, running=[live("r", "n1/0"), live("s", "n1/1")]))
    assert "memory_at_most_mib" not in numbers_of(plan, "1", "BUSY")


def test_a_job_no_tick_has_seen_yet_starts_soon():
    assert starting_soon().code == "STARTING"


def test_every_waiting_job_has_a_reason_with_a_message():
    jobs = [job("1", at=1), job("2", 2, at=2), job("3", 9, at=3), job("4", at=4, eligible_at_ms=10**9)]
    plan = decide(world(loose(2), *jobs))
    assert {hold.job: bool(hold.reasons and all(reason.message for reason in hold.reasons)) for hold in plan.holds} == {
        "2": True, "3": True, "4": True,
    }  # fmt: skip


def told(plan, name: str = "1") -> list[str]:
    """The codes of the reasons of one job."""
    return codes_of(plan)[name]


def test_a_job_that_fits_but_for_a_reservation_is_told_whose_and_how_short_it_must_be():
    jobs = [job("large", 2, at=1), job("1", at=2)]
    numbers = numbers_of(decide(world(loose(2), *jobs, running=[live("r", "n0/0", ends=610)])), "1", "RESERVED")
    assert (numbers["held_for"], numbers["fits_if_at_most_s"]) == ("large", 600)


def test_a_job_that_may_evict_needs_nobody_s_gpus_once_its_partner_has_started_in_the_same_cycle():
    critical = job("1", level="Critical", near=GroupRule("blue", "node"))
    partner = job("2", at=1, family="blue")
    plan = decide(world(loose(3), critical, partner, running=[live("r", "n0/0", level="Low")]))
    assert (order_of(plan), told(plan)) == (["2"], ["STARTING"])


@pytest.mark.parametrize(
    ("ends", "offered"), [(30, 10), (62, 30), (108, 70), (250, 180), (339, 260), (3_669, 3_590), (3_789, 3_660)]
)
def test_the_time_limit_offered_leaves_a_quarter_up_to_a_minute_to_act_and_is_rounded_down(ends, offered):
    jobs = [job("large", 2, at=1), job("1", at=2, seconds=9000)]
    numbers = numbers_of(decide(world(loose(2), *jobs, running=[live("r", "n0/0", ends=ends)])), "1", "RESERVED")
    assert numbers["duration_at_most_s"] == offered


def test_no_time_limit_is_offered_that_nobody_could_follow_in_time():
    jobs = [job("large", 2, at=1), job("1", at=2, seconds=9000)]
    numbers = numbers_of(decide(world(loose(2), *jobs, running=[live("r", "n0/0", ends=29)])), "1", "RESERVED")
    assert (numbers["fits_if_at_most_s"], "duration_at_most_s" in numbers) == (19, False)


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (29, " Now what ends within 19 s would fit; that grows less all the time."),
        (
            108,
            " Now what ends within 1 min 38 s would fit; that grows less all the time. It would start now with a time "
            "limit of at most 1 min 10 s.",
        ),
    ],
)
def test_the_sentence_tells_what_fits_now_beside_what_leaves_time_to_act(ends, says):
    jobs = [job("large", 2, at=1), job("1", at=2, seconds=9000)]
    plan = decide(world(loose(2), *jobs, running=[live("r", "n0/0", ends=ends)]))
    assert message_of(plan).split("at once.")[1] == says
    assert order_of(decide(world(loose(2), *jobs[:1], job("1", at=2, seconds=ends - 10),
                                 running=[live("r", "n0/0", ends=ends)]))) == ["1"]  # fmt: skip


def test_a_window_that_has_begun_is_told_with_its_end_and_offers_no_time_limit():
    closed = Window("service", ("n0",), 0, 900_000)
    numbers = numbers_of(decide(world(loose(1), job("1"), windows=(closed,))), "1", "WINDOW")
    assert (numbers["window_until_ms"], numbers["fits_if_at_most_s"], "duration_at_most_s" in numbers) == (
        900_000, 0, False,
    )  # fmt: skip


def message_of(plan, name: str = "1", *, place: int = 0) -> str:
    """The first reason of one job, or that of another place."""
    return next(hold.reasons[place].message for hold in plan.holds if hold.job == name)


def test_a_window_says_in_words_from_when_until_when():
    closed = Window("service", ("n0",), 1_800_000, 9_000_000)
    plan = decide(world(loose(1), job("1"), windows=(closed,)))
    assert message_of(plan) == (
        "It would not end before window service closes the GPUs, from 1 Jan 1970, 00:30 UTC, until "
        "1 Jan 1970, 02:30 UTC. Now what ends within 29 min 50 s would fit; that grows less all the time. It would "
        "start now with a time limit of at most 28 min 50 s."
    )


def test_windows_that_have_begun_say_in_words_until_when():
    closed = [Window(f"w{n}", ("n0",), 0, 900_000 * n) for n in (1, 2)]
    plan = decide(world(loose(1), job("1"), windows=tuple(closed)))
    assert (
        message_of(plan)
        == "It would fit, but windows w1 and w2 close the GPUs, the last of them until 1 Jan 1970, 00:30 UTC."
    )


def test_a_window_is_the_reason_though_other_gpus_are_kept_for_a_job():
    jobs = [job("large", 2, at=1, rules=[rule("node", "In", "n0")]), job("1", at=2, rules=[rule("node", "In", "n1")])]
    closed = Window("service", ("n1",), 0, 900_000)
    the_pool = pool(gpus("n0", 2), gpus("n1", 1))
    plan = decide(world(the_pool, *jobs, running=[live("r", "n0/0")], windows=(closed,)))
    assert told(plan) == ["WINDOW"]


def test_a_reservation_is_the_reason_when_a_window_closes_other_gpus_than_those_kept():
    jobs = [job("large", 2, at=1, rules=[rule("node", "In", "n0")]), job("1", at=2, seconds=7200)]
    closed = Window("service", ("n1",), 0, 900_000)
    the_pool = pool(gpus("n0", 2), gpus("n1", 1))
    plan = decide(world(the_pool, *jobs, running=[live("r", "n0/0")], windows=(closed,)))
    assert told(plan) == ["RESERVED"]
    assert message_of(plan).startswith("It fits, but the GPUs are kept for 1 job ahead of it that needs more at once.")


def test_a_job_that_fits_but_for_a_window_is_told_so():
    closed = Window("service", ("n0",), 110_000, 900_000)
    numbers = numbers_of(decide(world(loose(1), job("1"), windows=(closed,))), "1", "WINDOW")
    assert numbers["duration_at_most_s"] == 70


def test_a_gang_is_told_how_many_nodes_are_short_and_how_many_would_do():
    plan = decide(world(groups(3, 2), gang("1", 3, 2), running=[live("r", "n0/0")]))
    numbers = numbers_of(plan, "1", "GANG_NODES")
    assert (numbers["short_nodes"], numbers["nodes_at_most"]) == (1, 2)


def test_a_gang_that_must_lie_in_one_rack_is_told_that_the_nodes_are_in_several():
    nodes = [node("n0"), node("n1", rack="r1"), node("n2", rack="r1")]
    the_pool = pool(*(gpus(f"n{n}", 2) for n in range(3)), nodes=nodes)
    plan = decide(world(the_pool, gang("1", 2, 2, required_level="rack"), running=[live("r", "n1/0")]))
    assert told(plan) == ["GANG_RACK"]
    assert numbers_of(plan, "1", "GANG_RACK")["without_level"] == 1


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (("n1/0", "n2/0"), "; 1 node has 2 GPUs free, 4 suitable free in all."),
        (("n0/0", "n1/0", "n2/0"), "; 0 nodes have 2 GPUs free, 3 suitable free in all."),
    ],
)
def test_one_node_has_and_none_or_several_have(taken, words):
    the_pool = pool(*(gpus(f"n{n}", 2) for n in range(3)))
    running = [live(f"r{place}", gpu) for place, gpu in enumerate(taken)]
    assert words in message_of(decide(world(the_pool, gang("1", 3, 2), running=running)))


def test_one_gpu_is_kept_for_the_job_whose_victim_saves():
    plan = decide(world(loose(1), job("1", level="Critical"), running=[live("r", "n0/0", level="Low", granted_ms=0)]))
    assert message_of(plan) == (
        "1 GPU is kept for it; 1 running job was asked to save and leave first. That costs 2.2 GPU-minutes of work and "
        "of resuming."
    )


def test_a_job_that_waits_for_its_victims_is_told_how_many_and_until_when():
    plan = decide(world(loose(1), job("1", level="Critical"), running=[live("r", "n0/0", level="Low", granted_ms=0)]))
    numbers = numbers_of(plan, "1", "PREEMPTING")
    assert (numbers["victims"], numbers["deadline_ms"]) == (1, plan.nominations[0].deadline_ms)


def test_a_job_that_may_evict_and_finds_nobody_is_told_so():
    plan = decide(world(loose(1), job("1", level="Critical"), running=[live("r", "n0/0", level="High")]))
    assert told(plan) == ["BUSY", "NO_VICTIMS"]
    assert message_of(plan, place=1) == "It may evict others, but no job runs now that it may evict."


def test_a_job_whose_victims_would_not_be_enough_is_told_how_much_they_hold():
    running = [live("r", "n0/0", level="Low"), live("s", "n0/1", level="High")]
    plan = decide(world(loose(2), job("1", 2, level="Critical"), running=running))
    assert numbers_of(plan, "1", "NO_VICTIMS") == {"evictable": 1, "evictable_gpus": 1}
    assert message_of(plan, place=1) == (
        "It may evict others, but even without the one running job that it may evict, which holds 1 GPU, it would not "
        "fit."
    )


def test_a_job_whose_victims_would_be_enough_but_for_what_is_promised_ahead_of_it_is_told_that():
    running = [live("r", "n0/0", "n0/1", level="Low")]
    first = job("0", 2, level="Critical", at=1)
    kept = replace(first, may_evict=False)
    plan = decide(world(loose(2), kept, job("1", 2, level="Critical", at=2, seconds=7200), running=running))
    assert message_of(plan, place=1, name="1") == (
        "It may evict others, but what the one running job that it may evict would leave is promised to jobs ahead of "
        "it, or closed by a window, before it would end."
    )


def test_a_job_for_which_waiting_is_as_fast_is_told_until_when_and_how_long_its_victims_would_save():
    running = [live("r", "n0/0", level="Low", ends=100)]
    plan = decide(world(loose(1), job("1", level="Critical"), running=running))
    assert numbers_of(plan, "1", "AS_SOON") == {"free_at_ms": 100_000, "would_evict": 1, "save_s": 120}
    assert message_of(plan, place=1) == (
        "It may evict others, but waiting is as fast: by the time limits of what runs, GPUs are free for it at 1 Jan "
        "1970, 00:01:40 UTC, and 1 job that it would evict may take 2 min to save."
    )


def test_each_queue_is_told_of_the_jobs_that_its_own_rules_let_it_evict():
    running = [live("r", "n0/0", level="Low", queue="eval"), live("s", "n0/1", level="High")]
    urgent = [job("1", 2, level="Critical"), job("2", 2, level="Realtime", queue="inference")]
    plan = decide(world(loose(2), *urgent, running=running))
    assert [numbers_of(plan, name, "NO_VICTIMS")["evictable"] for name in ("1", "2")] == [1, 0]


def test_a_job_without_a_partner_is_told_of_which_group():
    plan = decide(world(loose(1), job("1", near=GroupRule("red", "rack"))))
    assert numbers_of(plan, "1", "NO_PARTNER") == {"group": "red", "level": "rack", "without_with": 1}
    assert message_of(plan) == (
        "It is to run in one rack with a job of group red, and none of them runs. "
        "It would start now without having to run beside group red."
    )


def test_a_job_that_only_a_rule_between_jobs_keeps_away_is_told_so():
    running = [live("r", "n0/0", family="red")]
    plan = decide(world(loose(2), job("1", apart=GroupRule("red", "node")), running=running))
    assert told(plan) == ["RULE"]
    assert message_of(plan) == (
        "GPUs that suit it are free, but it must keep out of every node with a job of group red (1 runs, on n0). "
        "It would start now without keeping away from group red."
    )
    assert numbers_of(plan, "1", "RULE")["running"] == 1


def test_without_the_rule_that_it_is_offered_to_drop_the_job_starts():
    running = [live("r", "n0/0", family="red")]
    assert order_of(decide(world(loose(2), job("1"), running=running))) == ["1"]


def test_a_job_whose_neighbours_have_no_room_left_is_told_where_they_run():
    running = [live("r", "n0/0", family="red"), live("s", "n1/0", family="red")]
    the_pool = pool(gpus("n0", 1), gpus("n1", 1), gpus("n2", 1))
    plan = decide(world(the_pool, job("1", near=GroupRule("red", "node")), running=running))
    assert "it must share a node with a job of group red (2 run, on 2 nodes)." in message_of(plan)
    assert numbers_of(plan, "1", "RULE")["without_with"] == 1


def test_a_job_that_others_keep_away_from_is_told_by_how_many_and_that_leaving_its_group_helps():
    keeper = live("r", "n0/0", apart=GroupRule("red", "node"))
    plan = decide(world(loose(2), job("1", family="red"), running=[keeper]))
    assert "its own group red is kept away by 1 running job, on n0." in message_of(plan)
    assert numbers_of(plan, "1", "RULE")["without_group"] == 1


def test_a_job_that_keeps_apart_from_its_own_group_is_offered_to_leave_it_and_the_rule_together():
    apart = GroupRule("red", "node")
    running = [live("r", "n0/0", family="red", apart=apart)]
    plan = decide(world(loose(2), job("1", family="red", apart=apart), running=running))
    offered = [name for name in numbers_of(plan, "1", "RULE") if name.startswith("without")]
    assert offered == ["without_group_and_anti_affinity"]
    assert message_of(plan) == (
        "GPUs that suit it are free, but it must keep out of every node with a job of group red (1 runs, on n0), and "
        "its own group red is kept away by 1 running job, on n0. It would start now without keeping away from group "
        "red and without being of group red."
    )


def test_of_two_rules_between_jobs_only_the_one_that_hinders_is_offered_to_be_dropped():
    running = [live("r", "n0/0", family="red"), live("s", "n1/0", family="blue")]
    the_pool = pool(gpus("n0", 2), gpus("n1", 2))
    waiting = job("1", 1, near=GroupRule("blue", "node"), apart=GroupRule("blue", "rack"))
    numbers = numbers_of(decide(world(the_pool, waiting, running=running)), "1", "RULE")
    assert (numbers["without_anti_affinity"], numbers.get("without_with", 0)) == (1, 0)


def test_two_rules_between_jobs_are_dropped_together_only_when_neither_alone_would_help():
    waiting = job("1", near=GroupRule("blue", "node"), apart=GroupRule("red", "node"))
    plan = decide(world(loose(2), waiting, running=[live("r", "n0/0", family="red")]))
    offered = [name for name in numbers_of(plan, "1", "NO_PARTNER") if name.startswith("without")]
    assert offered == ["without_neighbours"]


def test_a_job_that_is_to_start_later_says_when():
    plan = decide(world(loose(1), job("1", not_before_ms=70_000)))
    assert numbers_of(plan, "1", "NOT_BEFORE") == {"until_ms": 70_000}
    assert message_of(plan) == "Its owner wants it to start on 1 Jan 1970, 00:01:10 UTC at the earliest."
