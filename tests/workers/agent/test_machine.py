"""The agent's decisions in virtual time: no clock, no file, no socket."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from tests.workers.agent.server import launch_of
from workers.agent import messages as m
from workers.agent.attempt import Held, Phase
from workers.agent.machine import Machine
from workers.agent.outcome import Exit, Facts
from workers.agent.statedir import Ref
from workers.protocol import Timings

T = Timings()
REF = Ref("a1", 1)
SILENT = m.Failure(m.FailureKind.SILENT, "ReadTimeout")
REFUSED = m.Failure(m.FailureKind.REFUSED, "connection refused")
C = TypeVar("C")


class World:
    """A machine with a clock of its own; remembers the last commands and how often each kind came."""

    def __init__(self, found: list[Held] | None = None, deadline: float = 0.0) -> None:
        self.machine = Machine(timings=T, deadline=deadline, found=found or [])
        self.now = 1000.0
        self.last: list[m.Command] = []
        self.ever: list[m.Command] = []

    def tell(self, event: m.Event) -> list[m.Command]:
        self.last = self.machine.handle(event, self.now)
        self.ever += self.last
        return self.last

    def pass_to(self, seconds: float) -> None:
        """Let time pass up to ``seconds`` after the start (at 1000), waking whenever the machine wants to."""
        end = 1000.0 + seconds
        while self.now < end:
            self.now = min(end, self.now + max(0.001, self.machine.next_wake(self.now)))
            self.tell(m.Tick())

    def count(self, kind: type[C]) -> list[C]:
        return [c for c in self.ever if isinstance(c, kind)]

    def registered(self, kill: tuple[str, ...] = ()) -> World:
        self.tell(m.Tick())
        timings = {name: getattr(T, name) for name in T.__dataclass_fields__}
        reply: Any = {"adopt": [], "kill": list(kill), **timings}
        self.tell(m.RegisterDone(self.now, reply))
        return self

    def beat(
        self, *desired: dict[str, Any], answers: list[dict[str, Any]] | None = None, sent: float | None = None
    ) -> list[m.Command]:
        """The call under way is answered; by default every report in it is taken."""
        assert self.machine.flight is not None
        if answers is None:
            answers = [{"n": n, "ok": True} for n in self.machine.flight.reports]
        reply: Any = {"desired": list(desired), "canary": [], "answers": answers}
        return self.tell(m.HeartbeatDone(self.now if sent is None else sent, reply))

    def running(self, **launch: Any) -> World:
        """Registered, claimed and started one attempt at the current time."""
        self.registered()
        self.beat(run())
        self.tell(m.Claimed(REF, launch_of(**launch)))  # type: ignore[arg-type]
        self.tell(m.Prepared(REF))
        self.tell(m.Born(REF, 42, self.now))
        self.beat(run())
        return self

    def ends(self, end: Exit, facts: Facts | None = None) -> list[m.Command]:
        return self.tell(m.Exited(REF, end, facts or Facts()))


def run(ref: Ref = REF) -> dict[str, Any]:
    return {"attempt": ref.attempt, "epoch": ref.epoch, "action": "run", "grace_s": 120.0}


def stop(why: str, action: str = "stop", grace_s: float = 120.0) -> dict[str, Any]:
    return {"attempt": "a1", "epoch": 1, "action": action, "grace_s": grace_s, "why": why}


def of(commands: list[m.Command], kind: type[C]) -> list[C]:
    return [c for c in commands if isinstance(c, kind)]


def ring(world: World) -> list[m.Command]:
    return world.tell(m.BellRang())


# ---------------------------------------------------------------- registration, heartbeats, lease


def test_an_agent_registers_before_anything_else() -> None:
    assert World().tell(m.Tick()) == [m.SendRegister(())]


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


def silence(world: World, seconds: float) -> None:
    """Every call from now on times out."""
    end = world.now + seconds
    if world.machine.flight is None:
        ring(world)
    while world.now + T.retry_s <= end:
        world.now += T.retry_s
        world.tell(m.CallFailed(SILENT))
    world.pass_to(end - 1000.0)


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


def test_nothing_new_is_claimed_after_the_fence() -> None:
    world = World().registered()
    ring(world)
    sent = world.now
    world.now += 50.0
    assert of(world.beat(run(), sent=sent), m.Claim) == []


# ---------------------------------------------------------------- the desired set


def test_a_wanted_attempt_that_is_not_held_is_claimed_once() -> None:
    world = World().registered()
    world.beat(run())
    ring(world)
    world.beat(run())
    assert world.count(m.Claim) == [m.Claim(REF)]


def test_doubled_bells_make_one_call_more_and_no_second_claim() -> None:
    world = World().registered()
    world.beat()
    for _ in range(5):
        ring(world)
    world.beat(run())
    world.beat(run())
    assert len(world.count(m.Claim)) == 1
    assert len(world.count(m.SendHeartbeat)) == 3  # the first, for the bell, and one for the bells meanwhile


def test_a_bells_heartbeat_is_no_health_check() -> None:
    world = World().registered()
    world.beat()
    assert of(ring(world), m.SendHeartbeat)[0].health is False


def test_a_lost_bell_is_healed_by_the_next_heartbeat() -> None:
    world = World().registered()
    world.beat()
    world.pass_to(10.0)
    world.beat(run())
    assert world.count(m.Claim) == [m.Claim(REF)]


def test_a_claim_lost_on_the_way_is_made_again_soon() -> None:
    world = World().registered()
    world.beat(run())
    world.tell(m.ClaimFailed(REF, SILENT))
    world.pass_to(T.retry_s)
    world.beat(run())
    assert len(world.count(m.Claim)) == 2


def test_a_refused_claim_is_not_repeated_before_the_next_heartbeat() -> None:
    world = World().registered()
    world.beat(run())
    world.tell(m.ClaimFailed(REF, m.Failure(m.FailureKind.STATUS, "stale", 409, "stale_epoch")))
    world.pass_to(9.9)
    assert len(world.count(m.Claim)) == 1


def test_a_claimed_attempt_is_prepared_then_started_and_told_as_started_at_once() -> None:
    world = World().registered()
    world.beat(run())
    assert of(world.tell(m.Claimed(REF, launch_of())), m.Prepare)  # type: ignore[arg-type]
    assert of(world.tell(m.Prepared(REF)), m.StartJob)
    world.tell(m.Born(REF, 42, world.now))
    assert of(world.last, m.SendHeartbeat)[0].reports == (
        {"n": 0, "attempt": "a1", "epoch": 1, "type": "started", "pid": 42},
    )


def test_an_attempt_of_several_nodes_is_refused_by_name() -> None:
    world = World().registered()
    world.beat(run())
    commands = world.tell(m.Claimed(REF, launch_of(node_count=2)))  # type: ignore[arg-type]
    assert "node_count" in of(commands, m.StoreFinished)[0].report["error"]


def test_a_stop_asks_the_leader_once_however_often_it_is_wanted() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("cancel"))
    ring(world)
    world.beat(stop("cancel"))
    assert [c.stop.why for c in world.count(m.AskStop)] == ["cancel"]


def test_a_cancelled_job_is_killed_when_its_grace_is_over() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("cancel", grace_s=5.0))
    world.pass_to(4.9)
    assert world.count(m.Kill) == []
    world.pass_to(5.0)
    assert world.count(m.Kill) == [m.Kill(REF)]


def test_a_preempted_job_is_killed_only_when_the_server_says_so() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt", grace_s=5.0))
    world.now += 6.0
    ring(world)
    assert world.count(m.Kill) == []
    world.beat(stop("preempt", action="kill"))
    assert world.count(m.Kill) == [m.Kill(REF)]


def test_a_spared_job_that_ends_by_the_signal_after_all_is_preempted() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt"))
    ring(world)
    assert of(world.beat(run()), m.Spare)
    assert of(world.ends(Exit(85)), m.Publish)[0].checkpoint is True


def test_a_spared_job_that_comes_to_its_end_has_succeeded() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt"))
    ring(world)
    world.beat(run())
    assert of(world.ends(Exit(0)), m.StoreFinished)[0].report["outcome"] == "SUCCEEDED"


def test_a_stop_before_the_start_ends_the_attempt_without_running_it() -> None:
    world = World().registered()
    world.beat(run())
    world.tell(m.Claimed(REF, launch_of()))  # type: ignore[arg-type]
    ring(world)
    commands = world.beat(stop("cancel"))
    assert of(commands, m.StoreFinished)[0].report["outcome"] == "CANCELLED"
    assert of(world.tell(m.Prepared(REF)), m.StartJob) == []


def test_what_is_held_and_no_longer_wanted_is_killed_and_dropped_without_a_report() -> None:
    world = World().running()
    ring(world)
    assert of(world.beat(), m.Kill)
    assert of(world.ends(Exit(signal=9, cause="kill")), m.Drop)
    assert world.count(m.StoreFinished) == []


def test_a_stale_answer_kills_that_attempt() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, reports=({"type": "progress", "step": 1, "total": 2},)))
    world.pass_to(1.0)
    commands = world.beat(run(), answers=[{"n": 0, "ok": False, "code": "stale_epoch", "message": ""}])
    assert of(commands, m.Kill) == [m.Kill(REF)]


def test_another_epoch_of_a_held_attempt_is_another_run() -> None:
    world = World().running()
    ring(world)
    commands = world.beat(run(Ref("a1", 2)))
    assert of(commands, m.Kill) == [m.Kill(REF)]
    assert of(commands, m.Claim) == [m.Claim(Ref("a1", 2))]


# ---------------------------------------------------------------- time limit


def test_a_checkpoint_is_asked_for_a_grace_before_the_time_limit_and_the_kill_comes_at_it() -> None:
    world = World().running(remaining_s=30.0, grace_s=10.0)
    world.tell(m.Tick())
    drive(world, 19.9)
    assert world.count(m.AskStop) == []
    drive(world, 20.0)
    assert [c.stop.why for c in world.count(m.AskStop)] == ["time_limit"]
    drive(world, 29.9)
    assert world.count(m.Kill) == []
    drive(world, 30.0)
    assert world.count(m.Kill) == [m.Kill(REF)]
    assert of(world.ends(Exit(signal=9, cause="kill")), m.StoreFinished)[0].report["outcome"] == "TIMED_OUT"


def drive(world: World, seconds: float) -> None:
    """Time passes, and the server answers every heartbeat."""
    while world.now < 1000.0 + seconds:
        if world.machine.flight is not None:
            world.beat(run())
        world.pass_to(min(seconds, world.now - 1000.0 + max(0.001, world.machine.next_wake(world.now))))


def test_a_job_shorter_than_its_grace_is_not_stopped_before_half_its_time() -> None:
    world = World().running(remaining_s=30.0, grace_s=120.0)
    drive(world, 14.9)
    assert world.count(m.AskStop) == []
    drive(world, 15.0)
    assert len(world.count(m.AskStop)) == 1


# ---------------------------------------------------------------- reports and the end


def test_progress_waits_a_second_and_only_the_newest_is_told() -> None:
    world = World().running()
    for step in (1, 2, 3):
        world.tell(m.Tailed(REF, reports=({"type": "progress", "step": step, "total": 9},)))
    assert world.machine.flight is None
    world.pass_to(1.0)
    assert [r["step"] for r in of(world.last, m.SendHeartbeat)[0].reports] == [3]


def test_an_unanswered_report_is_told_again() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, reports=({"type": "metric", "step": 1, "name": "loss", "value": 1.0},)))
    world.pass_to(1.0)
    world.now += T.retry_s
    world.tell(m.CallFailed(SILENT))
    assert of(world.last, m.SendHeartbeat)[0].reports[0]["name"] == "loss"


def test_the_events_offset_is_kept_only_when_the_server_has_what_came_before_it() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, ({"type": "metric", "step": 1, "name": "x", "value": 1.0},), events_offset=80))
    assert world.count(m.KeepEventsOffset) == []
    world.pass_to(1.0)
    assert of(world.beat(run()), m.KeepEventsOffset) == [m.KeepEventsOffset(REF, 80)]


def test_success_publishes_first_and_finishes_with_the_artifacts() -> None:
    world = World().running()
    facts = Facts(done=True, artifacts=({"type": "artifact", "name": "x", "path": "x"},))
    assert of(world.ends(Exit(0), facts), m.Publish)[0].outputs == facts.artifacts
    report = of(world.tell(m.Published(REF, ("art-1",))), m.StoreFinished)[0].report
    assert (report["outcome"], report["artifacts"]) == ("SUCCEEDED", ["art-1"])


def test_refused_outputs_make_a_success_a_failure() -> None:
    world = World().running()
    world.ends(Exit(0), Facts(artifacts=({"type": "artifact", "name": "x", "path": "x"},)))
    commands = world.tell(m.PublishFailed(REF, "quota of 10 GB exceeded", stale=False))
    report = of(commands, m.StoreFinished)[0].report
    assert (report["outcome"], report["error"]) == ("FAILED", "quota of 10 GB exceeded")


def test_a_stale_upload_is_dropped_without_a_report() -> None:
    world = World().running()
    world.ends(Exit(0), Facts(artifacts=({"type": "artifact", "name": "x", "path": "x"},)))
    assert of(world.tell(m.PublishFailed(REF, "stale", stale=True)), m.Drop) == [m.Drop(REF)]


def finished(world: World) -> World:
    """The job has ended and its log is delivered."""
    world.ends(Exit(0))
    world.tell(m.Tailed(REF, log_done=True))
    return world


def test_the_final_report_is_stored_before_it_is_sent_and_dropped_when_acknowledged() -> None:
    world = World().running()
    assert of(world.ends(Exit(0)), m.StoreFinished)
    world.tell(m.Tailed(REF, log_done=True))
    assert of(world.last, m.SendHeartbeat)[0].reports[0]["type"] == "finished"
    assert of(world.beat(run()), m.Drop) == [m.Drop(REF)]


def test_the_final_report_waits_for_the_rest_of_the_log() -> None:
    world = World().running()
    world.ends(Exit(0))
    world.tell(m.Tailed(REF, log=(0, "bye")))
    assert [r["type"] for r in of(world.last, m.SendHeartbeat)[0].reports] == ["logs"]
    assert of(world.beat(run(), answers=[{"n": 0, "ok": True, "next": 3}]), m.LogAcknowledged)[0].next == 3
    world.tell(m.Tailed(REF, log_done=True))
    assert [r["type"] for r in of(world.last, m.SendHeartbeat)[0].reports] == ["finished"]


def test_the_final_report_is_told_until_it_is_acknowledged() -> None:
    world = finished(World().running())
    for _ in range(3):
        world.now += T.retry_s
        world.tell(m.CallFailed(SILENT))
        assert of(world.last, m.SendHeartbeat)[0].reports[0]["type"] == "finished"


def test_a_final_report_the_server_cannot_take_is_replaced_by_a_plain_one() -> None:
    world = finished(World().running())
    world.beat(run(), answers=[{"n": 0, "ok": False, "code": "bad_report", "message": "artifacts: unknown id"}])
    report = world.count(m.StoreFinished)[-1].report
    assert report["outcome"] == "LOST"
    assert "unknown id" in report["error"]


def test_processes_that_cannot_be_killed_are_told() -> None:
    world = World().running()
    report = of(world.ends(Exit(signal=9, clean=False, survivors=(77,))), m.StoreFinished)[0].report
    assert report["gpus_clean"] is False
    assert "77" in report["detail"]


# ---------------------------------------------------------------- restart


def left_by_another(phase: Phase, **more: Any) -> Held:
    return Held(REF, phase, launch=launch_of(), **more)  # type: ignore[arg-type]


def test_a_restarted_agent_names_its_jobs_at_registration_and_does_not_claim_them_again() -> None:
    world = World([left_by_another(Phase.RUNNING, started_at=990.0)], deadline=1040.0)
    assert world.tell(m.Tick()) == [m.SendRegister(({"attempt": "a1", "epoch": 1, "pid_alive": True},))]
    world.registered()
    world.beat(run())
    assert world.count(m.Claim) == []


def test_a_job_from_before_the_nodes_last_boot_is_told_as_dead() -> None:
    world = World([left_by_another(Phase.STARTING, gone=True)], deadline=1040.0)
    assert world.tell(m.Tick()) == [m.SendRegister(({"attempt": "a1", "epoch": 1, "pid_alive": False},))]


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
