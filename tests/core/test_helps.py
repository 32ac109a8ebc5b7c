"""What would help a waiting job: changes with which it starts now, or where there are none, sooner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.estimate import estimate
from scheduling.core.explain import Explainer
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.resources import GroupRule
from scheduling.core.scheduler import Scheduler

from .build import gang, gpus, groups, job, live, loose, node, numbers_of, pool, rule, world


def test_a_shared_group_is_offered_when_only_a_whole_one_is_lacking():
    asks = {"nvlink": True, "nvlink_exclusive": True}
    plan = decide(world(groups(1, 4), job("1", 2, **asks), running=[live("r", "n0/0")]))
    assert numbers_of(plan, "1", "FRAGMENTED")["without_exclusive"] == 1
    message = plan.holds[0].reasons[0].message
    assert message.endswith(
        "It would start now with an NVLink group shared with other jobs, or with no need for NVLink."
    )


def test_a_shared_group_is_not_offered_where_whole_groups_are_the_rule():
    policy = replace(DEFAULT_POLICY, nvlink_mode="exclusive")
    asks = {"nvlink": True, "nvlink_exclusive": True}
    plan = decide(world(groups(1, 4), job("1", 2, **asks), running=[live("r", "n0/0")], policy=policy))
    assert "without_exclusive" not in numbers_of(plan, "1", "FRAGMENTED")


def helps(*jobs, the_pool, running) -> list[tuple[str, int | None]]:
    """The changes that help the job "1", each with the second from which on."""
    scheduler, explainer = explained(*jobs, the_pool=the_pool, running=running)
    found = explainer.helps(scheduler.waiting.by_id["1"])
    return [(each.name, each.starts_ms and each.starts_ms // 1000) for each in found]


def test_where_nothing_helps_now_a_shared_group_is_offered_with_when_it_starts_sooner():
    running = [live("r", "n0/0", "n0/1", ends=600), live("s", "n0/2", "n0/3", ends=900)]
    waiting = job("1", 2, nvlink=True, nvlink_exclusive=True)
    assert helps(waiting, the_pool=groups(1, 4), running=running) == [
        ("without_exclusive", 600),
        ("without_nvlink", 600),
    ]


def test_what_would_start_no_sooner_is_not_offered():
    waiting = job("1", 4, nvlink=True, nvlink_exclusive=True)
    assert helps(waiting, the_pool=groups(1, 4), running=[live("r", "n0/0", "n0/1", "n0/2", "n0/3")]) == []


def test_a_job_that_never_has_a_partner_left_is_offered_to_do_without_one():
    waiting = job("1", near=GroupRule("red", "node"))
    assert helps(waiting, the_pool=loose(1), running=[live("r", "n0/0", family="red", ends=600)]) == [
        ("without_with", 600)
    ]


def test_a_gang_is_offered_fewer_gpus_on_each_node_where_small_nodes_are_free():
    the_pool = pool(gpus("n0", 8), gpus("n1", 8), gpus("n2", 4), gpus("n3", 4))
    running = [live(f"r{n}", *(f"n{n}/{gpu}" for gpu in range(8))) for n in range(2)]
    plan = decide(world(the_pool, gang("1", 2, 8), running=running))
    assert numbers_of(plan, "1", "GANG_NODES")["gpus_at_most"] == 4
    assert plan.holds[0].reasons[0].message.endswith("It would start now with at most 4 GPUs on each node.")


def test_a_gang_is_offered_fewer_of_both_where_neither_alone_would_help():
    the_pool = pool(gpus("n0", 8), gpus("n1", 8), gpus("n2", 4))
    running = [live(f"r{n}", *(f"n{n}/{gpu}" for gpu in range(8))) for n in range(2)]
    plan = decide(world(the_pool, gang("1", 2, 8), running=running))
    assert plan.holds[0].reasons[0].message.endswith("It would start now with at most 4 GPUs on 1 node.")


def test_what_fits_but_is_promised_to_others_does_not_hide_what_is_not():
    the_pool = pool(gpus("n0", 3), gpus("n1", 2), gpus("n2", 4))
    jobs = [job("large", 3, at=1, rules=[rule("node", "In", "n0")]), job("1", 4, at=2)]
    running = [live("r", "n0/0", ends=600), live("s", *(f"n2/{gpu}" for gpu in range(4)))]
    running += [live("t", "n1/0")]
    assert helps(*jobs, the_pool=the_pool, running=running) == [("gpus_at_most", None)]
    assert numbers_of(decide(world(the_pool, *jobs, running=running)), "1", "BUSY")["gpus_at_most"] == 1


def test_a_job_that_may_evict_is_offered_what_would_start_with_victims_and_nothing_that_gains_nothing():
    running = [
        live("high", "n0/0", level="High", granted_ms=0, ends=3_500),
        live("low", "n1/0", level="Low", granted_ms=0, ends=3_490),
    ]
    waiting = job("1", level="Critical", rules=[rule("node", "In", "n0")])
    scheduler, explainer = explained(waiting, the_pool=pool(gpus("n0", 1), gpus("n1", 1)), running=running)
    found = explainer.helps(scheduler.waiting.by_id["1"])
    assert [(each.name, each.words, each.starts_ms) for each in found] == [
        ("without_rule", "without its required rules and by evicting 1 job", None)
    ]


def test_a_job_that_may_evict_behind_a_promise_is_offered_the_time_limit_with_which_it_would_do_so_now():
    running = [live("r", "n0/0", "n0/1", level="Low", granted_ms=0, ends=9_000)]
    kept = replace(job("0", 2, level="Critical", at=1), may_evict=False)
    waiting = job("1", 2, level="Critical", at=2, seconds=20_000)
    scheduler, explainer = explained(kept, waiting, the_pool=loose(2), running=running)
    (found,) = explainer.helps(scheduler.waiting.by_id["1"])
    assert (found.name, found.words, found.starts_ms) == (
        "duration_at_most_s", "a time limit of at most 2 h 28 min and by evicting 1 job", None,
    )  # fmt: skip
    changed = replace(waiting, remaining_s=found.duration_s)
    assert [each.job for each in decide(world(loose(2), kept, changed, running=running)).preempts] == ["r"]


def test_what_would_start_less_than_a_minute_sooner_is_not_offered():
    running = [live("r", "n0/0", ends=3_500), live("s", "n1/0", ends=3_490)]
    waiting = job("1", rules=[rule("node", "In", "n0")])
    assert helps(waiting, the_pool=pool(gpus("n0", 1), gpus("n1", 1)), running=running) == []


def explained(*jobs, the_pool, running=(), **more) -> tuple[Scheduler, Explainer]:
    """The scheduler after a pass over these jobs, and its explanations."""
    snapshot = world(the_pool, *jobs, running=running, **more)
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return scheduler, Explainer(scheduler)


def two_racks() -> dict[str, object]:
    """Two free nodes in different racks, and beside the first a third that is taken for 20 minutes."""
    nodes = [node("n0", rack="r0"), node("n1", rack="r1"), node("n2", rack="r0")]
    the_pool = pool(*(gpus(f"n{n}", 4) for n in range(3)), nodes=nodes)
    return {"the_pool": the_pool, "running": [live("r", *(f"n2/{n}" for n in range(4)), ends=1_210)]}


def test_a_gang_that_holds_out_for_its_level_is_told_so_and_starts_when_it_holds_out_no_more():
    waiting = gang("1", 2, 4, at=10, max_wait_for_level_s=25)
    scheduler, explainer = explained(waiting, **two_racks())
    queued = scheduler.waiting.by_id["1"]
    found = estimate(scheduler, explainer, queued)
    assert found is not None
    assert (found.low, found.told_low, found.promised) == (35_000, 35_000, False)
    reason = explainer.of("1")[0]
    assert (reason.code, dict(reason.numbers)["until_ms"]) == ("HOLDS_OUT", 35_000)
    assert reason.message == (
        "Free GPUs would do, but it was asked to hold out for one rack until 1 Jan 1970, "
        "00:00:35 UTC. It would start now with at most 1 node, or without holding out for its level."
    )


def test_a_gang_does_start_when_it_has_said_that_it_holds_out_no_more():
    waiting = gang("1", 2, 4, at=10, max_wait_for_level_s=25)
    starts = {now: decide(world(two_racks()["the_pool"], waiting, running=two_racks()["running"], now_ms=now)).starts
              for now in (34_999, 35_000)}  # fmt: skip
    assert [len(each) for each in starts.values()] == [0, 1]


def test_a_change_is_judged_by_what_the_changed_job_would_hold_out_for():
    nodes = [node("n0", rack="r0"), node("n1", rack="r1"), node("n2", rack="r2"), node("n3", rack="r2")]
    the_pool = pool(*(gpus(f"n{n}", 1) for n in range(4)), nodes=nodes)
    running = [live("r", "n2/0", ends=1_210), live("s", "n3/0", ends=1_210)]
    waiting = gang("1", 3, 1, at=10, max_wait_for_level_s=600)
    # Three nodes lie in no one rack, so they need not be waited for; two do in r2, and would hold out for that.
    assert helps(waiting, the_pool=the_pool, running=running) == [("nodes_at_most", None)]
    two, one = (gang("1", n, 1, at=10, max_wait_for_level_s=600) if n > 1 else job("1", at=10) for n in (2, 1))
    assert [len(decide(world(the_pool, each, running=running)).starts) for each in (two, one)] == [0, 1]
    scheduler, explainer = explained(waiting, the_pool=the_pool, running=running)
    assert [each.value for each in explainer.helps(scheduler.waiting.by_id["1"])] == [1]


def test_a_job_that_may_evict_and_would_fit_with_less_is_told_so_without_victims():
    running = [live("high", "n0/0", level="High", granted_ms=0), live("low", "n1/0", level="Low", granted_ms=0)]
    waiting = job("1", 3, level="Critical", rules=[rule("node", "In", "n0")])
    scheduler, explainer = explained(waiting, the_pool=pool(gpus("n0", 3), gpus("n1", 1)), running=running)
    assert [(each.name, each.value) for each in explainer.helps(scheduler.waiting.by_id["1"])] == [("gpus_at_most", 2)]


def offered(*jobs, the_pool, running) -> list[tuple[str, int | None]]:
    """The changes that help the job "1", whose kind may lie on several nodes."""
    scheduler, explainer = explained(*jobs, the_pool=the_pool, running=running)
    found = explainer.helps(scheduler.waiting.by_id["1"], over_nodes=True)
    return [(each.name, each.starts_ms and each.starts_ms // 1000) for each in found]


def test_gpus_of_any_nodes_are_offered_where_one_node_is_short_of_them():
    the_pool = pool(gpus("n0", 2), gpus("n1", 2))
    running = [live(f"r{n}", f"n{n}/0", ends=600) for n in range(2)]
    asked = {"the_pool": the_pool, "running": running}
    assert offered(job("1", 2), **asked) == [("gpus_at_most", None), ("spread", None)]
    assert helps(job("1", 2), **asked) == [("gpus_at_most", None)]


def test_they_are_offered_too_where_they_are_free_sooner():
    the_pool = pool(gpus("n0", 2), gpus("n1", 2))
    running = [live(f"{node}/{gpu}", f"n{node}/{gpu}", ends=(1200, 600)[gpu]) for node in (0, 1) for gpu in (0, 1)]
    assert ("spread", 600) in offered(job("1", 2), the_pool=the_pool, running=running)


@pytest.mark.parametrize("more", [{"nvlink": True}, {"required_level": "rack"}, {"allow_span": True}])
def test_they_are_not_offered_against_what_was_asked(more):
    the_pool = pool(gpus("n0", 2, group="g0"), gpus("n1", 2, group="g1"))
    running = [live("r0", "n0/0", ends=600), live("r1", "n1/0", "n1/1", ends=600)]
    assert "spread" not in [name for name, _ in offered(job("1", 2, **more), the_pool=the_pool, running=running)]
