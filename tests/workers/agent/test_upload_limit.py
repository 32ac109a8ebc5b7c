"""A checkpoint's upload that the server waits for no longer ends: told how far it was, with no half of it anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF, T, World, of, ring, run, stop
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts

SOME = m.Moved(REF, "saving checkpoint", 3120, 5000, 12_000_000, 40_000_000)


def uploading(why: str = "preempt", facts: Facts | None = None) -> World:
    """A job that was asked to stop, has saved and left, and whose checkpoint is on its way."""
    world = World().running()
    ring(world)
    world.beat(stop(why))
    assert of(world.ends(Exit(85), facts or Facts(last_path="step-8", last_step=8)), m.Publish)
    world.tell(m.CheckpointFound(REF))
    world.tell(SOME)
    return world


def killed(world: World, why: str = "preempt") -> list[m.Command]:
    """The server says that the grace is over."""
    if world.machine.flight is None:
        ring(world)
    return world.beat(stop(why, action="kill"))


def report(world: World) -> dict[str, Any] | None:
    stored = world.count(m.StoreFinished)
    return stored[-1].report if stored else None


@pytest.mark.parametrize("why", ["preempt", "health", "drain"])
def test_it_has_twice_the_time_of_a_kill_after_the_grace_and_then_the_end_is_told_without_it(why: str) -> None:
    world = uploading(why)
    killed(world, why)
    begun = world.now
    world.pass_to(begun + 2 * T.kill_s - 0.1 - 1000.0)
    assert report(world) is None
    world.pass_to(begun + 2 * T.kill_s - 1000.0)
    said = report(world)
    assert said is not None
    assert (said["outcome"], said["checkpoint"], said["detail"]) == ("PREEMPTED", None, "upload given up")
    assert said["error"] == (
        "its checkpoint was not in the store in time (3120 of 5000 files, 12000000 of 40000000 bytes were there), so "
        "its upload was given up and the one before counts: save less or earlier, or ask an admin for a longer grace_s "
        "of the queue"
    )
    assert m.Abort(REF) in world.ever


def test_being_told_to_kill_again_gives_it_no_more_time() -> None:
    world = uploading()
    killed(world)
    begun = world.now
    for _ in range(3):
        world.pass_to(world.now + 5.0 - 1000.0)
        killed(world)
    world.pass_to(begun + 2 * T.kill_s - 1000.0)
    assert report(world) is not None


def test_that_time_is_put_on_record_once() -> None:
    world = uploading()
    begun = world.now
    for _ in range(3):
        killed(world)
        world.pass_to(world.now + 1.0 - 1000.0)
    assert world.count(m.UploadLimit) == [m.UploadLimit(REF, begun + 2 * T.kill_s)]


@pytest.mark.parametrize("why", ["cancel", "lost"])
def test_who_wants_nothing_of_it_is_not_kept_waiting(why: str) -> None:
    world = uploading()
    assert m.Abort(REF) in killed(world, why)
    assert report(world) is not None


def test_one_that_arrives_within_that_time_counts() -> None:
    world = uploading()
    killed(world)
    world.tell(m.Published(REF, checkpoint="art"))
    said = report(world)
    assert said is not None
    assert (said["checkpoint"], said["error"]) == ("art", "")


def test_what_comes_after_it_was_given_up_changes_nothing() -> None:
    world = uploading()
    killed(world, "lost")
    before = report(world)
    assert world.tell(m.Published(REF, checkpoint="art")) == []
    assert report(world) == before


def test_a_job_out_of_time_does_not_claim_to_have_saved() -> None:
    world = uploading("time_limit", Facts(last_path="step-8", last_step=8, checkpoint_after_stop=True))
    killed(world, "time_limit")
    world.pass_to(world.now + 2 * T.kill_s - 1000.0)
    said = report(world)
    assert said is not None
    assert said["outcome"] == "TIMED_OUT"
    assert said["error"].startswith("its max_duration came to its end; its checkpoint was not in the store in time")


def test_a_checkpoint_on_the_way_that_the_end_waits_for_is_given_up_too() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, saved=m.Saved("step-7", 7)))
    ring(world)
    world.beat(stop("preempt"))
    world.ends(Exit(85), Facts(last_path="step-8", last_step=8))
    killed(world)
    world.pass_to(world.now + 2 * T.kill_s - 1000.0)
    assert report(world) is not None
    assert of(world.tell(m.Snapshotted(REF, "art", 7)), m.Publish) == []


@pytest.mark.parametrize("how", [("preempt", Exit(signal=9, cause="kill"), "PREEMPTED", "grace exceeded"),
                                 ("preempt", Exit(85), "PREEMPTED", "confirmed"),
                                 ("health", Exit(signal=9, cause="kill"), "PREEMPTED", "killed by force"),
                                 ("cancel", Exit(85), "CANCELLED", "confirmed"),
                                 ("time_limit", Exit(85), "TIMED_OUT", "confirmed")])  # fmt: skip
def test_a_job_that_has_left_nothing_is_told_of_no_upload(how: tuple[str, Exit, str, str]) -> None:
    """However late its disk is looked at: the server has said long before that the grace is over."""
    why, end, outcome, manner = how
    world = World().running()
    ring(world)
    world.beat(stop(why, grace_s=0.0) if why == "health" else stop(why))
    assert of(world.ends(end), m.Publish)
    killed(world, why)
    world.pass_to(world.now + 10 * T.kill_s - 1000.0)
    assert report(world) is None
    world.tell(m.Published(REF))
    said = report(world)
    assert said is not None
    assert (said["outcome"], said["detail"]) == (outcome, manner)
    assert "checkpoint was not" not in said["error"]


def test_what_it_has_left_is_given_up_at_once_where_its_time_was_over_before_it_was_found() -> None:
    world = World().running()
    ring(world)
    world.beat(stop("preempt"))
    world.ends(Exit(signal=9, cause="kill"), Facts(last_path="step-8", last_step=8))
    killed(world)
    world.pass_to(world.now + 2 * T.kill_s + 1 - 1000.0)
    assert m.Abort(REF) in world.tell(m.CheckpointFound(REF))
    said = report(world)
    assert said is not None
    assert said["detail"] == "upload given up"


def test_a_checkpoint_of_before_says_nothing_of_how_far_this_one_is() -> None:
    world = uploading()
    world.tell(m.Moved(REF, "saving checkpoint", 2, 2, 300, 300, over=True, whole=True, step=3))
    killed(world, "lost")
    said = report(world)
    assert said is not None
    assert said["error"].startswith("its checkpoint was not in the store in time, so its upload was given up")


def test_the_results_of_a_job_that_has_succeeded_are_not_given_up() -> None:
    world = World().running()
    world.ends(Exit(0), Facts(done=True, artifacts=({"name": "net", "path": "net"},)))
    killed(world)
    world.pass_to(world.now + 100 * T.kill_s - 1000.0)
    assert report(world) is None


def test_how_far_it_is_is_told_and_only_the_newest() -> None:
    world = uploading()
    world.tell(m.Moved(REF, "saving checkpoint", 4000, 5000, 20_000_000, 40_000_000))
    told = [r for r in world.machine.attempts[REF].queue if r["type"] == "transfer"]
    assert [(r["what"], r["files"], r["of_files"], r["over"]) for r in told] == [
        ("saving checkpoint", 4000, 5000, False)
    ]


def test_the_end_of_a_transfer_is_not_displaced_by_the_next_one() -> None:
    world = uploading()
    world.tell(m.Moved(REF, "saving checkpoint", 2, 2, 300, 300, over=True, whole=True, step=30))
    world.tell(m.Moved(REF, "saving checkpoint", 1, 2, 100, 300, step=40))
    told = [r for r in world.machine.attempts[REF].queue if r["type"] == "transfer"]
    assert [(r["step"], r["over"]) for r in told] == [(30, True), (40, False)]


def test_of_an_attempt_that_waits_to_be_acknowledged_no_transfer_is_told_any_more() -> None:
    world = uploading()
    killed(world, "lost")
    world.machine.attempts[REF].queue.clear()
    world.tell(SOME)
    assert world.machine.attempts[REF].queue == []


def test_fetching_is_told_while_it_is_prepared() -> None:
    world = World().registered()
    world.beat(run())
    world.tell(m.Claimed(REF, launch_of()))  # type: ignore[arg-type]
    world.tell(m.Moved(REF, "fetching checkpoint", 1, 2, 3, 4))
    assert [r["what"] for r in world.machine.attempts[REF].queue] == ["fetching checkpoint"]


def test_a_cancelled_job_that_saved_in_its_grace_has_it_stored() -> None:
    world = uploading("cancel", Facts(last_path="step-8", last_step=8, checkpoint_after_stop=True))
    world.tell(m.Published(REF, checkpoint="art"))
    said = report(world)
    assert said is not None
    assert (said["outcome"], said["checkpoint"], said["step"]) == ("CANCELLED", "art", 8)


def test_one_whose_checkpoint_came_too_late_says_that_the_one_before_counts() -> None:
    world = uploading("cancel", Facts(last_path="step-8", last_step=8, checkpoint_after_stop=True))
    killed(world, "cancel")
    said = report(world)
    assert said is not None
    assert said["checkpoint"] is None
    assert said["error"].startswith("its checkpoint was not in the store in time")
