"""The life of an attempt: wanted, claimed, run, stopped, reported, in virtual time."""

from __future__ import annotations

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import (
    REF,
    SILENT,
    T,
    World,
    finished,
    of,
    ring,
    run,
    stop,
)
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts
from workers.agent.statedir import Ref

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


@pytest.mark.parametrize(
    ("why", "outcome"), [("cancel", "CANCELLED"), ("health", "PREEMPTED"), ("time_limit", "TIMED_OUT")]
)
def test_a_spared_job_that_is_killed_later_ends_by_what_it_was_killed_for(why: str, outcome: str) -> None:
    world = World().running(grace_s=5.0)
    ring(world)
    world.beat(stop("preempt", grace_s=5.0))
    ring(world)
    world.beat(run())
    world.now += 10.0  # longer than its grace
    ring(world)
    world.beat(stop(why, action="kill"))
    assert world.count(m.Kill) == [m.Kill(REF, m.StopAsked(why, world.now, world.now))]
    world.ends(Exit(signal=9, cause="kill", at=world.now))
    if world.count(m.Publish):
        world.tell(m.Published(REF))
    assert [(c.report["outcome"], c.report["why"]) for c in world.count(m.StoreFinished)] == [(outcome, why)]


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


def test_lines_of_the_events_file_that_were_not_understood_are_told_once_at_the_end() -> None:
    world = World().running()
    world.ends(Exit(0), Facts(bad_lines=3, first_bad="'epoch 1'"))
    told = [r for r in world.machine.attempts[REF].queue if r["type"] == "events_unread"]
    assert [(r["lines"], r["first"]) for r in told] == [(3, "'epoch 1'")]


def test_where_every_line_was_understood_nothing_is_told_of_them() -> None:
    world = World().running()
    world.ends(Exit(0), Facts())
    assert [r for r in world.machine.attempts[REF].queue if r["type"] == "events_unread"] == []
