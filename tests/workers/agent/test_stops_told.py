"""What a node tells of the stops that it asks for by itself, and of what an end came of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.world import REF, T, World, finished, of, ring, run, stop
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts


def told(world: World, kind: str) -> list[dict[str, Any]]:
    """The reports of that kind in the message that was sent last."""
    sent = of(world.last, m.SendHeartbeat)
    return [report for each in sent for report in each.reports if report["type"] == kind]


def report_of(world: World, end: Exit, facts: Facts | None = None) -> dict[str, Any]:
    world.ends(end, facts)
    if world.count(m.Publish):
        world.tell(m.Published(REF))
    return world.count(m.StoreFinished)[-1].report


def test_a_drain_is_told_at_once_with_its_reason_and_the_time_that_the_job_has() -> None:
    world = World().running()
    world.tell(m.Terminate(drain=True))
    assert told(world, "stopping") == [
        {"n": 0, "attempt": "a1", "epoch": 1, "type": "stopping", "why": "drain", "had_s": T.grace_s, "ago_s": 0.0}
    ]


def test_what_could_not_be_told_at_once_says_how_long_ago_it_was() -> None:
    world = World().running()
    ring(world)  # a call is under way
    world.tell(m.Terminate(drain=True))
    world.now += 2.5
    world.beat(run())
    assert [report["ago_s"] for report in told(world, "stopping")] == [2.5]


def test_the_end_of_the_time_limit_is_told() -> None:
    world = World().running(remaining_s=5.0)
    world.now += 6.0
    world.tell(m.Tick())
    assert [(r["why"], r["had_s"]) for r in told(world, "stopping")] == [("time_limit", T.kill_s - 1)]


@pytest.mark.parametrize("why", ["preempt", "cancel", "health"])
def test_what_the_server_has_asked_it_is_not_told_again(why: str) -> None:
    world = World().running()
    ring(world)
    world.beat(stop(why))
    ring(world)
    assert told(world, "stopping") == []


def test_the_end_says_how_long_before_it_was_asked_and_how_long_it_had() -> None:
    world = World().running()
    world.tell(m.Terminate(drain=True))
    report = report_of(world, Exit(signal=9, cause="kill", at=world.now + T.grace_s))
    assert (report["why"], report["detail"], report["asked_s"], report["had_s"]) == (
        "drain", "grace exceeded", T.grace_s, T.grace_s,
    )  # fmt: skip


def test_of_a_preemption_the_server_knows_how_long_it_had() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt"))
    report = report_of(world, Exit(85, at=world.now + 12))
    assert (report["asked_s"], "had_s" in report) == (12.0, False)


@pytest.mark.parametrize("end", [Exit(0, at=2000.0), Exit(cause="keeper")])
def test_an_end_that_did_not_come_of_a_stop_or_that_nobody_saw_tells_no_times(end: Exit) -> None:
    world = World().running()
    if end.cause == "keeper":
        world.tell(m.Terminate(drain=True))
    assert not {"asked_s", "had_s"} & report_of(world, end).keys()


def spared() -> World:
    """A job that was let run on, long after the grace that it had."""
    world = World().running(grace_s=5.0)
    ring(world)
    world.beat(stop("preempt", grace_s=5.0))
    ring(world)
    world.beat(run())
    world.now += 20.0
    return world


def test_one_that_was_let_run_on_and_yields_by_itself_was_not_asked() -> None:
    world = spared()
    report = report_of(world, Exit(3, at=world.now), Facts(yielded=True))
    assert (report["outcome"], report["detail"], report["why"]) == ("PREEMPTED", "yielded", None)


def test_one_that_was_let_run_on_and_loses_its_keeper_is_lost() -> None:
    report = report_of(spared(), Exit(cause="keeper"))
    assert (report["outcome"], report["why"]) == ("LOST", "lost")


def test_one_that_was_let_run_on_and_is_drained_ends_by_the_drain() -> None:
    world = spared()
    world.tell(m.Terminate(drain=True))
    assert report_of(world, Exit(signal=9, cause="kill", at=world.now + T.grace_s))["why"] == "drain"


def test_a_report_that_was_finished_before_is_told_as_it_is() -> None:
    world = finished(World().running())
    assert "ago_s" not in told(world, "finished")[0]
