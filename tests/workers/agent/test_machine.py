"""The agent's decisions: registration, heartbeats, lease and fence, restart and leaving, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import (
    REF,
    REFUSED,
    SILENT,
    T,
    World,
    finished,
    left_by_another,
    of,
    ring,
    run,
    silence,
    stop,
)
from workers.agent import messages as m
from workers.agent.outcome import Exit
from workers.agent.phase import Phase

# ---------------------------------------------------------------- registration, heartbeats, lease


def test_an_agent_registers_before_anything_else() -> None:
    assert World().tell(m.Tick()) == [m.SendRegister((), 1)]


def test_the_first_heartbeat_follows_the_registration_at_once_with_a_look_at_the_gpus() -> None:
    world = World().registered()
    assert of(world.last, m.SendHeartbeat)[0].health is True


def test_a_heartbeat_is_due_10_s_after_the_one_before_was_sent() -> None:
    world = World().registered()
    world.beat()
    before = len(world.count(m.SendHeartbeat))
    world.pass_to(9.9)
    assert len(world.count(m.SendHeartbeat)) == before
    world.pass_to(10.0)
    assert len(world.count(m.SendHeartbeat)) == before + 1


def test_the_lease_counts_from_the_send_time_and_not_from_the_answer() -> None:
    world = World().registered()
    sent, world.now = world.now, world.now + 2.5
    world.beat(sent=sent)
    assert of(world.last, m.WriteLease)[0].deadline == sent + T.fence_s


def test_a_heartbeat_that_timed_out_is_repeated_at_once() -> None:
    world = World().registered()
    world.now += T.retry_s
    assert of(world.tell(m.CallFailed(SILENT)), m.SendHeartbeat)


def test_a_call_that_fails_without_waiting_is_not_repeated_in_a_tight_loop() -> None:
    world = World().registered()
    assert not of(world.tell(m.CallFailed(SILENT)), m.SendHeartbeat)
    world.pass_to(T.retry_s)
    assert len(world.count(m.SendHeartbeat)) == 2


def test_a_claim_that_is_answered_after_the_node_registered_without_it_starts_nothing() -> None:
    world = World().registered()
    assert of(world.beat(run()), m.Claim) == [m.Claim(REF)]
    ring(world)
    world.tell(m.CallFailed(m.Failure(m.FailureKind.STATUS, "reregister", 409, "reregister")))
    world.now += 1.0
    world.tell(m.Tick())
    assert world.count(m.SendRegister)[-1].attempts == ()  # so the server takes it for lost
    assert of(world.tell(m.Claimed(REF, launch_of())), m.Prepare) == []


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (stop("cancel"), "CANCELLED"),
        (stop("health", action="kill"), "PREEMPTED"),
        (stop("lost", action="kill"), "LOST"),
        (stop("preempt"), "PREEMPTED"),
    ],
)
def test_what_is_to_end_and_is_not_here_is_reported_as_not_started(asked: dict[str, Any], outcome: str) -> None:
    # The server has the claim, whose answer was lost; before the node could claim again it was to be stopped.
    world = World().registered()
    world.beat(run())
    world.tell(m.ClaimFailed(REF, SILENT))
    world.pass_to(world.now + T.retry_s)
    report = of(world.beat(asked), m.StoreFinished)[0].report
    assert (report["outcome"], report["detail"], report["exit_code"]) == (outcome, "not started", None)


def test_what_failed_says_whether_the_server_answered() -> None:
    world = World().registered()
    ring(world)
    (answered,) = of(
        world.tell(m.CallFailed(m.Failure(m.FailureKind.STATUS, "register again", 409, "reregister"))), m.Note
    )
    world.pass_to(1.0)
    (silent,) = of(world.tell(m.CallFailed(SILENT)), m.Note)
    assert (answered.text, silent.text) == ("the server answered: register again", f"no answer: {SILENT.message}")


def test_409_reregister_makes_the_node_register_again() -> None:
    world = World().running()
    ring(world)
    world.tell(m.CallFailed(m.Failure(m.FailureKind.STATUS, "reregister", 409, "reregister")))
    world.pass_to(1.0)
    assert world.count(m.SendRegister)[-1].attempts == ({"attempt": "a1", "epoch": 1, "pid_alive": True},)


def test_a_reply_with_impossible_timings_is_an_error_and_the_node_asks_again_later() -> None:
    world = World()
    world.tell(m.Tick())
    bad: Any = {"adopt": [], "kill": [], "fence_s": 100.0}
    with pytest.raises(ValueError, match="lease_s"):
        world.tell(m.RegisterDone(world.now, bad))
    world.pass_to(T.retry_s)
    assert of(world.last, m.SendRegister)


# ---------------------------------------------------------------- the fence


def test_43_s_of_silence_leave_the_job_alone() -> None:
    world = World().running()
    silence(world, 43.0)
    assert world.count(m.AskStop) == []


def test_45_s_of_silence_stop_the_job_and_10_more_kill_it() -> None:
    world = World().running()
    silence(world, 45.0)
    assert [c.stop.why for c in world.count(m.AskStop)] == ["lost"]
    assert world.count(m.Kill) == []
    silence(world, 10.0)
    assert len(world.count(m.Kill)) == 1


def test_a_fenced_job_is_reported_lost_even_if_it_saved_itself() -> None:
    world = World().running()
    silence(world, 46.0)
    assert of(world.ends(Exit(85)), m.StoreFinished)[0].report["outcome"] == "LOST"


def test_an_hour_of_explicit_refusals_fences_only_after_the_outage_grace() -> None:
    world = World().running(remaining_s=1e6)
    ring(world)
    while world.now < 1000.0 + T.outage_grace_s:
        world.tell(m.CallFailed(REFUSED))
        world.pass_to(world.now - 1000.0 + T.retry_s)
    assert world.count(m.AskStop) == []
    while world.now < 1000.0 + T.outage_grace_s + T.fence_s + 2 * T.retry_s:
        world.tell(m.CallFailed(REFUSED))
        world.pass_to(world.now - 1000.0 + T.retry_s)
    assert len(world.count(m.AskStop)) == 1


def test_without_an_outage_grace_a_refusal_is_a_silence_whatever_the_server_says() -> None:
    world = World(outage_grace_s=0.0).running()
    while world.now < 1000.0 + T.fence_s + T.retry_s:
        world.tell(m.CallFailed(REFUSED))
        world.pass_to(world.now - 1000.0 + T.retry_s)
    assert [c.stop.why for c in world.count(m.AskStop)] == ["lost"]


def test_nothing_new_is_claimed_after_the_fence() -> None:
    world = World().registered()
    ring(world)
    sent = world.now
    world.now += 50.0
    assert of(world.beat(run(), sent=sent), m.Claim) == []


# ---------------------------------------------------------------- restart


def test_a_restarted_agent_names_its_jobs_at_registration_and_does_not_claim_them_again() -> None:
    world = World([left_by_another(Phase.RUNNING, started_at=990.0)], deadline=1040.0)
    assert world.tell(m.Tick()) == [m.SendRegister(({"attempt": "a1", "epoch": 1, "pid_alive": True},), 1)]
    world.registered()
    world.beat(run())
    assert world.count(m.Claim) == []


def test_a_job_from_before_the_nodes_last_boot_is_told_as_dead() -> None:
    world = World([left_by_another(Phase.STARTING, gone=True)], deadline=1040.0)
    assert world.tell(m.Tick()) == [m.SendRegister(({"attempt": "a1", "epoch": 1, "pid_alive": False},), 1)]


def test_a_job_the_server_no_longer_wants_is_killed_at_registration() -> None:
    world = World([left_by_another(Phase.RUNNING, started_at=990.0)], deadline=1040.0).registered(kill=("a1",))
    assert world.count(m.Kill) == [m.Kill(REF)]


def test_a_restarted_agent_keeps_the_fence_of_the_one_before() -> None:
    world = World([left_by_another(Phase.RUNNING, started_at=990.0)], deadline=1005.0)
    world.tell(m.Tick())
    silence(world, 4.9)
    assert world.count(m.AskStop) == []
    silence(world, 0.2)
    assert len(world.count(m.AskStop)) == 1


def test_a_claimed_attempt_that_never_started_is_prepared_again() -> None:
    world = World([left_by_another(Phase.PREPARING)]).registered()
    assert len(world.count(m.Prepare)) == 1


def test_a_stored_final_report_survives_the_restart() -> None:
    report = {"attempt": "a1", "epoch": 1, "type": "finished", "outcome": "SUCCEEDED"}
    world = World([left_by_another(Phase.FINISHED, report=report)]).registered()
    world.beat(run())
    world.tell(m.Tailed(REF, log_done=True))
    assert of(world.last, m.SendHeartbeat)[0].reports == ({"n": 0, **report},)


# ---------------------------------------------------------------- leaving


def test_without_drain_the_agent_leaves_at_once_and_the_keeper_stays() -> None:
    assert World().running().tell(m.Terminate(drain=False)) == [m.Leave(stop_keeper=False)]


def test_drain_tells_the_server_asks_the_jobs_and_leaves_when_all_is_delivered() -> None:
    world = World().running()
    world.tell(m.Terminate(drain=True))
    assert [c.stop.why for c in of(world.last, m.AskStop)] == ["drain"]
    assert of(world.last, m.SendHeartbeat)[0].draining is True
    world.beat(run())
    world.ends(Exit(85))
    world.tell(m.Published(REF, (), "ck-1"))
    report = world.count(m.StoreFinished)[0].report
    assert (report["outcome"], report["why"], report["checkpoint"]) == ("PREEMPTED", "drain", "ck-1")
    world.tell(m.Tailed(REF, log_done=True))
    assert of(world.beat(), m.Leave) == [m.Leave(stop_keeper=True)]


def test_a_draining_node_claims_nothing() -> None:
    world = World().registered()
    world.beat()
    world.tell(m.Terminate(drain=True))
    assert of(world.beat(run()), m.Claim) == []


def test_an_empty_node_leaves_a_dead_server_without_waiting() -> None:
    world = World().registered()
    world.tell(m.Terminate(drain=True))
    assert of(world.tell(m.CallFailed(SILENT)), m.Leave)


def test_a_drain_that_cannot_deliver_ends_after_grace_and_lease() -> None:
    world = finished(World().running())
    world.tell(m.Terminate(drain=True))
    silence(world, T.grace_s + T.lease_s + 3.0)
    assert len(world.count(m.Leave)) == 1
