"""When victims have left: as saving is known to take, and by the end of their grace at the latest."""

from __future__ import annotations

import pytest

from scheduling.core.leaving import held_for, once_saved
from scheduling.core.lifecycle import JobState
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, Nomination

from .build import NOW, job, live, loose, world

S = 1000
ASKED = {"state": JobState.PREEMPTING, "asked_ms": 5 * S, "stop_by_ms": 125 * S}


def left(victim: LiveAttempt) -> tuple[int, int]:
    """(expected, latest) seconds; it is second 10."""
    scheduler = Scheduler(world(loose(1), running=[victim]))
    at, high = once_saved(scheduler, scheduler.live.values(), NOW)
    return at // S, high // S


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (130, 130)),  # asked now, with the grace of two minutes
        ({"save_s": 30.0}, (40, 130)),
        ({"save_s": 300.0}, (130, 130)),
        ({"ends": 60}, (60, 60)),
        (ASKED, (125, 125)),
        ({**ASKED, "save_s": 30.0}, (35, 125)),
        ({**ASKED, "save_s": 2.0}, (10, 125)),
        ({**ASKED, "stop_by_ms": 8 * S}, (70, 70)),  # overdue: a minute from now
    ],
)
def test_victims_leave_when_they_have_saved_or_are_stopped(more, expected):
    assert left(live("v", "n0/0", **more)) == expected


def test_nobody_has_to_leave_where_nobody_is():
    assert once_saved(Scheduler(world(loose(1))), [], NOW) == (NOW, NOW)


def test_those_who_still_hold_what_is_kept_for_a_job_are_its_victims():
    running = [live("b", "n0/0", **ASKED), live("a", "n0/1", **ASKED), live("c", "n0/2")]
    kept = Nomination("1", ("n0/0", "n0/1", "n0/3"), 155 * S)
    waiting = job("1", 3, level="Critical")
    scheduler = Scheduler(world(loose(4), waiting, running=running, nominations=(kept,)))
    assert [held.id for held in held_for(scheduler, scheduler.nominees["1"])] == ["a", "b"]
