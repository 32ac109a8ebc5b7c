"""What would help a waiting job: changes with which it starts now, or where there are none, sooner."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.decide import decide
from scheduling.core.explain import Explainer
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.resources import GroupRule
from scheduling.core.scheduler import Scheduler

from .build import groups, job, live, loose, numbers_of, world


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
    snapshot = world(the_pool, *jobs, running=running)
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    found = Explainer(scheduler).helps(scheduler.waiting.by_id["1"])
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
