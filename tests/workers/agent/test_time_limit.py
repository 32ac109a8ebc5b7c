"""When a job gets its signal for the end of its max_duration, and when it is killed."""

from __future__ import annotations

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF, World, drive, of
from workers.agent import messages as m
from workers.agent.outcome import Exit
from workers.agent.time_limit import limits

RESUME = {"artifact": "art", "step": 3, "files": []}
MERGE = {"kind": "merge", "argv": None}


def when(*, declared: bool = False, **changes: object) -> tuple[float, float]:
    """When it is asked and killed, with 10 s between a signal and the kill and 120 s of grace, started at 1000."""
    return limits(launch_of(**{"grace_s": 120.0, **changes}), 1000.0, declared=declared, kill_s=10.0)


@pytest.mark.parametrize("remaining", [1.0, 60.0, 14_400.0])
def test_a_program_of_which_nothing_is_known_runs_to_its_end(remaining: float) -> None:
    assert when(remaining_s=remaining) == (1000 + remaining, 1000 + remaining + 10)


@pytest.mark.parametrize(
    "known", [{"declared": True}, {"resume": RESUME}, MERGE], ids=["declared", "restored", "merge"]
)
def test_one_that_is_known_to_save_is_asked_its_grace_before_the_end(known: dict[str, object]) -> None:
    assert when(remaining_s=14_400.0, **known) == (15_280, 15_400)


def test_saving_takes_no_more_than_a_tenth_of_its_time_but_10_s_at_least_till_the_kill() -> None:
    assert when(remaining_s=600.0, declared=True) == (1540, 1600)
    assert when(remaining_s=60.0, declared=True) == (1054, 1064)


def test_a_program_has_the_notice_it_asks_for_and_at_most_half_of_its_time() -> None:
    assert when(remaining_s=600.0, params={"limit_notice_s": 200}) == (1400, 1600)
    assert when(remaining_s=60.0, params={"limit_notice_s": 200}) == (1030, 1060)
    assert when(remaining_s=14_400.0, params={"limit_notice_s": 0}, declared=True) == (15_400, 15_410)


def test_it_is_asked_at_the_one_and_killed_at_the_other() -> None:
    world = World().running(remaining_s=30.0, params={"limit_notice_s": 15})
    world.tell(m.Tick())
    drive(world, 14.9)
    assert world.count(m.AskStop) == []
    drive(world, 15.0)
    assert [c.stop.why for c in world.count(m.AskStop)] == ["time_limit"]
    drive(world, 29.9)
    assert world.count(m.Kill) == []
    drive(world, 30.0)
    assert world.count(m.Kill) == [m.Kill(REF)]
    assert of(world.ends(Exit(signal=9, cause="kill")), m.StoreFinished)[0].report["outcome"] == "TIMED_OUT"


def test_a_checkpoint_that_it_declares_on_the_way_earns_it_the_time_to_save_again() -> None:
    world = World().running(remaining_s=100.0, grace_s=5.0)
    world.tell(m.Tailed(REF, reports=(), saved=m.Saved("one", 1)))
    drive(world, 94.9)
    assert world.count(m.AskStop) == []
    drive(world, 95.0)
    assert [c.stop.kill_at for c in world.count(m.AskStop)] == [1105.0]
