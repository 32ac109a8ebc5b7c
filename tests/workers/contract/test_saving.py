"""Checkpoints on the way, a stop that is taken back, and a job that takes too much disk: the agent in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.world import REF, World, of, ring, run, stop
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts


def declares(world: World, path: str, step: int) -> list[m.Command]:
    return world.tell(m.Tailed(REF, saved=m.Saved(path, step)))


def report(world: World) -> dict[str, Any]:
    """The final report, once there is one."""
    return world.count(m.StoreFinished)[-1].report


def told(world: World, kind: str) -> list[dict[str, Any]]:
    return [r for held in world.machine.attempts.values() for r in held.queue if r["type"] == kind]


def spared(**launch: Any) -> World:
    """A running job that was asked to stop at 0 and told to run on at once."""
    world = World().running(**launch)
    ring(world)
    world.beat(stop("preempt"))
    ring(world)
    world.beat(run())
    return world


def test_a_declared_checkpoint_goes_into_the_store_while_the_job_runs_on() -> None:
    world = World().running()
    (taken,) = of(declares(world, "step-7", 7), m.Snapshot)
    assert (taken.declared, taken.step) == ("step-7", 7)
    world.tell(m.Snapshotted(REF, "art", 7))
    (told_of,) = told(world, "checkpoint")
    assert (told_of["artifact"], told_of["step"]) == ("art", 7)


def test_one_checkpoint_goes_at_a_time_and_then_the_newest() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    assert of(declares(world, "step-8", 8) + declares(world, "step-9", 9), m.Snapshot) == []
    (following,) = of(world.tell(m.Snapshotted(REF, "art", 7)), m.Snapshot)
    assert following.declared == "step-9"


def test_a_checkpoint_that_could_not_be_taken_is_noted_and_counts_for_nothing() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    assert "changed" in of(world.tell(m.Snapshotted(REF, None, 7, "it changed")), m.Note)[0].text
    assert told(world, "checkpoint") == []


def test_a_checkpoint_of_an_attempt_that_was_taken_away_ends_the_attempt() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    assert of(world.tell(m.Snapshotted(REF, None, 7, "stale", stale=True)), m.Kill) == [m.Kill(REF)]


def test_once_a_stop_is_asked_the_end_brings_the_checkpoint() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt"))
    assert of(declares(world, "step-7", 7), m.Snapshot) == []


def test_a_preempted_jobs_end_waits_for_the_checkpoint_on_its_way() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    ring(world)
    world.beat(stop("preempt"))
    assert of(world.ends(Exit(85), Facts(last_path="step-8", last_step=8)), m.Publish) == []
    (last,) = of(world.tell(m.Snapshotted(REF, "art", 7)), m.Publish)
    assert (last.step, last.declared) == (8, "step-8")


def test_a_failed_job_keeps_the_checkpoint_that_was_on_its_way() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    world.ends(Exit(1))
    world.tell(m.Snapshotted(REF, "art", 7))
    assert [r["type"] for r in world.machine.attempts[REF].queue] == ["checkpoint"]
    assert report(world)["outcome"] == "FAILED"


def test_a_success_does_not_wait_for_a_checkpoint() -> None:
    world = World().running()
    declares(world, "step-7", 7)
    world.ends(Exit(0))
    assert report(world)["outcome"] == "SUCCEEDED"
    world.tell(m.Snapshotted(REF, "art", 7))
    assert told(world, "checkpoint") == []


def test_a_restarted_agent_looks_again_at_events_whose_checkpoint_is_not_in_the_store() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, events_offset=100, saved=m.Saved("step-7", 7)))
    ring(world)
    assert of(world.beat(run()), m.KeepEventsOffset) == []
    world.tell(m.Snapshotted(REF, None, 7, "no"))
    ring(world)
    assert of(world.beat(run()), m.KeepEventsOffset) == [m.KeepEventsOffset(REF, 100)]


def test_of_an_attempt_that_is_over_nothing_is_written_down_any_more() -> None:
    world = World().running()
    world.ends(Exit(0))
    ring(world)
    progress = {"type": "progress", "step": 9, "total": 9, "unit": ""}
    world.tell(m.Tailed(REF, (progress,), events_offset=100, log_done=True))
    world.beat(run())
    last = world.beat()
    assert of(last, m.Drop) == [m.Drop(REF)]
    assert of(last, m.KeepEventsOffset) == []


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (Exit(0, at=1500.0), "SUCCEEDED"),
        (Exit(85, at=1500.0), "PREEMPTED"),
        (Exit(signal=15, at=1500.0), "PREEMPTED"),
        (Exit(1, at=1001.0), "PREEMPTED"),
        (Exit(1, at=1500.0), "FAILED"),
    ],
)
def test_a_job_that_was_let_run_on_and_ends_by_that_signal_is_preempted(end: Exit, outcome: str) -> None:
    world = spared()
    world.ends(end)
    if outcome == "PREEMPTED":
        world.tell(m.Published(REF))
    assert report(world)["outcome"] == outcome


def test_a_job_over_its_share_of_the_disk_is_ended_and_told_what_to_do() -> None:
    world = World().running()
    killed = of(world.tell(m.OverQuota(REF, 900, 500)), m.Kill)
    assert killed == [m.Kill(REF, m.StopAsked("disk_quota", world.now, world.now))]
    world.ends(Exit(signal=9, cause="kill"))
    said = report(world)
    assert (said["outcome"], said["detail"], said["why"]) == ("FAILED", "disk_quota", None)
    assert said["error"].startswith("it wrote 900 bytes of disk, the node's limit for one job is 500 (job_disk_bytes)")
