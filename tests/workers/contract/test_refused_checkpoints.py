"""A declared checkpoint that can't be taken is told of once for each reason, and again at an end that misses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.agent.world import REF, World, of, ring, run, stop
from workers.agent import messages as m
from workers.agent.outcome import Exit, Facts
from workers.agent.refusals import MAX_TOLD

LINK = "'latest' is a symbolic link to nothing; remove it or write the file itself"


def refuses(world: World, words: str = LINK, step: int = 7, **more: Any) -> None:
    """The job declares a checkpoint and it is not taken."""
    world.tell(m.Tailed(REF, saved=m.Saved(f"step-{step}", step)))
    world.tell(m.Snapshotted(REF, None, 0, words, **more))


def told(world: World) -> list[str]:
    return [r["error"] for r in world.machine.attempts[REF].queue if r["type"] == "checkpoint_refused"]


def stopped(world: World, why: str, end: Exit) -> None:
    ring(world)
    world.beat(stop(why))
    world.ends(end, Facts(last_path="step-7", last_step=7))


def report(world: World) -> dict[str, Any]:
    return world.count(m.StoreFinished)[-1].report


def test_a_refusal_is_told_at_the_first_declaration_with_what_to_do() -> None:
    world = World().running()
    refuses(world)
    assert told(world) == [LINK]


def test_the_same_reason_at_other_steps_is_not_told_again_and_another_is() -> None:
    world = World().running()
    for step in range(3):
        refuses(world, f"'step-{step}/latest' is a symbolic link", step)
    refuses(world, "900 bytes; the limit is 500")
    assert told(world) == ["'step-0/latest' is a symbolic link", "900 bytes; the limit is 500"]


def test_a_job_with_ever_new_reasons_is_told_some_of_them() -> None:
    world = World().running()
    for n in range(MAX_TOLD + 5):
        refuses(world, f"'{chr(97 + n)}' is a symbolic link")
    assert len(told(world)) == MAX_TOLD


@pytest.mark.parametrize("trouble", [{"own": True}, {"stale": True}])
def test_what_is_not_the_jobs_doing_is_not_told_of(trouble: dict[str, bool]) -> None:
    world = World().running()
    refuses(world, **trouble)
    assert told(world) == []


def test_a_checkpoint_that_is_gone_is_told_of_when_no_other_comes() -> None:
    world = World().running()
    refuses(world, "there is no 'step-7'", gone=True)
    assert told(world) == []
    world.tell(m.Tailed(REF))
    assert told(world) == ["there is no 'step-7'"]


def test_a_job_that_has_gone_on_to_its_next_checkpoint_is_told_nothing() -> None:
    world = World().running()
    refuses(world, "there is no 'step-7'", gone=True)
    refuses(world, "there is no 'step-8'", 8, gone=True)
    world.tell(m.Tailed(REF, saved=m.Saved("step-9", 9)))
    world.tell(m.Tailed(REF, saved=m.Saved("step-10", 10)))
    world.tell(m.Snapshotted(REF, None, 0, "there is no 'step-9'", gone=True))
    world.tell(m.Snapshotted(REF, "art", 10))
    world.tell(m.Tailed(REF))
    assert told(world) == []


def test_the_events_are_kept_to_be_read_again_until_the_refusal_is_told() -> None:
    world = World().running()
    world.tell(m.Tailed(REF, events_offset=100, saved=m.Saved("step-7", 7)))
    world.tell(m.Snapshotted(REF, None, 0, LINK))
    ring(world)
    assert of(world.beat(run(), answers=[]), m.KeepEventsOffset) == []


@pytest.mark.parametrize(
    ("why", "error"),
    [
        ("preempt", f"its checkpoint was refused: {LINK}"),
        ("time_limit", f"its max_duration came to its end; its checkpoint was refused: {LINK}"),
    ],
)
def test_an_end_whose_checkpoint_is_refused_says_so(why: str, error: str) -> None:
    world = World().running()
    stopped(world, why, Exit(85))
    world.tell(m.PublishFailed(REF, LINK, stale=False))
    assert (report(world)["error"], report(world)["checkpoint"]) == (error, None)


def test_an_end_that_has_nothing_to_take_says_why_the_last_was_refused() -> None:
    world = World().running()
    refuses(world)
    stopped(world, "preempt", Exit(signal=15))
    world.tell(m.Published(REF))
    assert report(world)["error"] == f"its checkpoint was refused: {LINK}"


def test_an_end_after_a_checkpoint_that_was_taken_says_nothing_of_those_before() -> None:
    world = World().running()
    refuses(world)
    world.tell(m.Tailed(REF, saved=m.Saved("step-8", 8)))
    world.tell(m.Snapshotted(REF, "art", 8))
    stopped(world, "preempt", Exit(signal=15))
    world.tell(m.Published(REF))
    assert report(world)["error"] == ""
