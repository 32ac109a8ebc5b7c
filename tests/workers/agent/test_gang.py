"""One part of an attempt on several nodes: ready, go, together to the end, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF, T, World, go, left_by_another, of, ring, run, silence, stop
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts
from workers.agent.phase import Phase

MEETING = {"address": "n7", "port": 41000}
READY = {"n": 0, "attempt": "a1", "epoch": 1, "type": "ready"}


def claimed(rank: int) -> World:
    world = World().registered()
    world.beat(run())
    world.tell(m.Claimed(REF, launch_of(node_count=2, node_rank=rank)))  # type: ignore[arg-type]
    return world


def found(rank: int = 0) -> World:
    """An agent started anew while its part was ready."""
    world = World([left_by_another(Phase.PREPARING)], deadline=1040.0)
    world.machine.attempts[REF].launch = launch_of(node_count=2, node_rank=rank)  # type: ignore[assignment]
    return world.registered()


# ---------------------------------------------------------------- ready and go


def test_rank_0_keeps_a_port_tells_it_at_once_and_does_not_start() -> None:
    world = claimed(0)
    assert of(world.tell(m.Prepared(REF)), m.Bind) == [m.Bind(REF)]
    world.tell(m.Bound(REF, 41000))
    assert of(world.last, m.SendHeartbeat)[0].reports == ({**READY, "port": 41000},)
    assert world.count(m.StartJob) == []


def test_another_rank_keeps_no_port_and_tells_that_it_is_ready_at_once() -> None:
    world = claimed(1)
    world.tell(m.Prepared(REF))
    assert of(world.last, m.SendHeartbeat)[0].reports == ({**READY, "port": 0},)
    assert world.count(m.Bind) + world.count(m.StartJob) == []


def test_no_free_port_is_the_nodes_trouble_and_not_the_jobs() -> None:
    world = claimed(0)
    world.tell(m.Prepared(REF))
    commands = world.tell(m.PrepareFailed(REF, "no port is free", retryable=True))
    assert of(commands, m.StoreFinished)[0].report["outcome"] == "LOST"


@pytest.mark.parametrize("rank", [0, 1])
def test_it_starts_when_told_to_go_and_meets_where_the_server_says(rank: int) -> None:
    world = World().waiting(rank)
    ring(world)
    (start,) = of(world.beat(go()), m.StartJob)
    assert start.meeting == MEETING


def test_a_part_that_waits_is_claimed_to_the_server_and_says_so_once() -> None:
    world = World().waiting()
    (beat,) = of(ring(world), m.SendHeartbeat)
    assert (beat.attempts[0]["state"], beat.reports) == ("claimed", ())


def test_ready_is_told_until_it_is_answered() -> None:
    world = claimed(1)
    world.tell(m.Prepared(REF))
    world.now += T.retry_s
    (beat,) = of(world.tell(m.CallFailed(m.Failure(m.FailureKind.SILENT, "ReadTimeout"))), m.SendHeartbeat)
    assert [r["type"] for r in beat.reports] == ["ready"]


def test_ready_is_told_again_after_a_new_registration() -> None:
    world = World().waiting()
    ring(world)
    world.tell(m.CallFailed(m.Failure(m.FailureKind.STATUS, "reregister", 409, "reregister")))
    world.pass_to(1.0)
    world.registered()
    assert of(world.last, m.SendHeartbeat)[0].reports == ({**READY, "port": 41000},)
    assert len(world.count(m.Bind)) == 1


def test_an_agent_started_anew_prepares_again_and_is_ready_again() -> None:
    world = found()
    assert len(world.count(m.Prepare)) == 1
    assert of(world.tell(m.Prepared(REF)), m.Bind)
    world.tell(m.Bound(REF, 41000))
    world.beat(run())
    assert of(world.last, m.SendHeartbeat)[0].reports == ({**READY, "port": 41000},)


def test_a_go_to_the_port_of_before_the_restart_waits_for_the_server_to_hear_of_the_new_one() -> None:
    world = found()
    world.tell(m.Prepared(REF))
    world.tell(m.Bound(REF, 42000))
    assert of(world.beat(go(41000)), m.StartJob) == []
    assert of(world.beat(go(42000)), m.StartJob)


def test_a_go_before_it_is_ready_again_starts_nothing() -> None:
    world = found(rank=1)
    assert of(world.beat(go()), m.StartJob) == []
    assert of(world.tell(m.Prepared(REF)), m.StartJob) == []


def test_a_go_to_what_runs_already_is_ignored() -> None:
    world = World().together()
    ring(world)
    assert world.beat(go()) == [m.WriteLease(world.machine.clock.deadline, T.kill_s)]
    assert len(world.count(m.StartJob)) == 1


# ---------------------------------------------------------------- an end while it waits


@pytest.mark.parametrize(
    ("why", "action", "outcome"),
    [
        ("cancel", "stop", "CANCELLED"),
        ("preempt", "stop", "PREEMPTED"),
        ("peer", "stop", "PREEMPTED"),
        ("health", "stop", "PREEMPTED"),
        ("lost", "kill", "LOST"),
        ("cancel", "kill", "CANCELLED"),
    ],
)
def test_a_stop_while_it_waits_ends_it_without_running_it(why: str, action: str, outcome: str) -> None:
    world = World().waiting()
    ring(world)
    commands = world.beat(stop(why, action))
    report = of(commands, m.StoreFinished)[0].report
    assert (report["outcome"], report["detail"], report["exit_code"]) == (outcome, "not started", None)
    assert of(commands, m.Abort) == [m.Abort(REF)]
    assert world.count(m.StartJob) + world.count(m.AskStop) + world.count(m.Kill) == []


def test_a_go_after_a_stop_starts_nothing() -> None:
    world = World().waiting()
    ring(world)
    world.beat(stop("peer"))
    assert of(world.beat(go()), m.StartJob) == []


def test_drain_ends_what_waits() -> None:
    world = World().waiting()
    world.tell(m.Terminate(drain=True))
    report = of(world.last, m.StoreFinished)[0].report
    assert (report["outcome"], report["why"], report["detail"]) == ("PREEMPTED", "drain", "not started")


def test_45_s_of_silence_end_what_waits() -> None:
    world = World().waiting()
    silence(world, 44.9)
    assert world.count(m.StoreFinished) == []
    silence(world, 0.2)
    assert [c.report["outcome"] for c in world.count(m.StoreFinished)] == ["LOST"]
    assert world.count(m.Abort) == [m.Abort(REF)]


def test_what_waits_and_is_no_longer_wanted_is_dropped_without_a_report() -> None:
    world = World().waiting()
    ring(world)
    assert of(world.beat(), m.Drop) == [m.Drop(REF)]
    assert world.count(m.StoreFinished) == []


def test_a_stale_ready_drops_it() -> None:
    world = claimed(0)
    world.tell(m.Prepared(REF))
    world.tell(m.Bound(REF, 41000))
    commands = world.beat(run(), answers=[{"n": 0, "ok": False, "code": "stale_epoch", "message": ""}])
    assert of(commands, m.Drop) == [m.Drop(REF)]


# ---------------------------------------------------------------- together


def saves(world: World) -> list[m.Command]:
    return world.tell(m.Tailed(REF, saved=m.Saved("step-3", 3)))


def test_only_rank_0_puts_checkpoints_into_the_store_on_the_way() -> None:
    assert of(saves(World().together(0)), m.Snapshot)
    assert of(saves(World().together(1)), m.Snapshot) == []


def test_only_rank_0_puts_a_checkpoint_into_the_store_at_the_end() -> None:
    ended = []
    for rank in (0, 1):
        world = World().together(rank)
        ring(world)
        world.beat(stop("preempt"))
        ended.append(of(world.ends(Exit(85), Facts(last_path="step-3", last_step=3)), m.Publish))
    assert [publish.checkpoint for publish in ended[0]] == [True]
    assert ended[1] == []


def test_every_rank_publishes_what_it_announced() -> None:
    facts = Facts(artifacts=({"type": "artifact", "name": "x", "path": "x"},))
    for rank in (0, 1):
        assert of(World().together(rank).ends(Exit(0), facts), m.Publish)[0].outputs == facts.artifacts


def test_only_rank_0_tells_progress_and_metrics_and_every_rank_its_log() -> None:
    news: Any = ({"type": "progress", "step": 1, "total": 2}, {"type": "metric", "step": 1, "name": "x", "value": 1.0})
    told = []
    for rank in (0, 1):
        world = World().together(rank)
        world.tell(m.Tailed(REF, reports=news, log=(0, "hello")))
        world.pass_to(1.0)
        told.append([r["type"] for r in of(world.last, m.SendHeartbeat)[0].reports])
    assert told == [["progress", "metric", "logs"], ["logs"]]


def test_a_part_whose_peer_has_ended_is_asked_and_killed_when_the_servers_grace_is_over() -> None:
    world = World().together(1)
    ring(world)
    world.beat(stop("peer", grace_s=10.0))
    assert [c.stop.why for c in world.count(m.AskStop)] == ["peer"]
    world.pass_to(9.9)
    assert world.count(m.Kill) == []
    world.pass_to(10.0)
    assert world.count(m.Kill) == [m.Kill(REF)]
    report = of(world.ends(Exit(signal=9, cause="kill")), m.StoreFinished)[0].report
    assert (report["outcome"], report["why"], report["detail"]) == ("PREEMPTED", "peer", "grace exceeded")


def test_what_rank_0_saves_when_its_peer_has_ended_is_kept() -> None:
    world = World().together(0)
    ring(world)
    world.beat(stop("peer", grace_s=10.0))
    (publish,) = of(world.ends(Exit(85)), m.Publish)
    assert (publish.checkpoint, publish.clean) == (True, True)
