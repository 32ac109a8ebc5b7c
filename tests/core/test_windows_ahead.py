"""A job that a window keeps waiting when the GPUs have been left is told of the window, beside what is short now."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Hold, Reason
from scheduling.core.snapshot import Window

from .build import groups, job, live, rule, world

S = 1000
FREE = Window("service", ("n0",), 239 * S, 809 * S)


def told(*windows: Window, seconds: int = 180, elsewhere: bool = True) -> tuple[Reason, ...]:
    """Why a job for the two GPUs of n0 waits, which are held until second 180; those of n1 are, or are free."""
    running = [live("r", "n0/0", "n0/1", ends=180), *([live("s", "n1/0", "n1/1", ends=180)] if elsewhere else [])]
    waiting = job("1", 2, seconds=seconds, rules=[rule("node", "In", "n0")])
    holds: tuple[Hold, ...] = decide(
        world(groups(2, 2), waiting, running=running, windows=windows, now_ms=50 * S)
    ).holds
    return holds[0].reasons


def codes(*windows: Window, **more) -> list[str]:
    return [each.code for each in told(*windows, **more)]


def test_it_is_told_beside_what_is_short_with_from_when_until_when():
    assert codes(FREE) == ["BUSY", "WINDOW"]
    assert told(FREE)[1].message == (
        "GPUs may be free for it on 1 Jan 1970, 00:03 UTC, but it would not end before window service closes them, "
        "from 1 Jan 1970, 00:03:59 UTC, until 1 Jan 1970, 00:13:29 UTC."
    )


def test_one_that_has_begun_when_the_gpus_are_left_is_told_as_closing_them():
    assert told(Window("service", ("n0",), 100 * S, 809 * S))[1].message == (
        "GPUs may be free for it on 1 Jan 1970, 00:03 UTC, but window service closes them, until 1 Jan 1970, "
        "00:13:29 UTC."
    )


def test_it_is_told_too_where_other_gpus_are_free():
    assert codes(FREE, elsewhere=False) == ["RULE", "WINDOW"]


def test_of_several_those_are_told_that_it_would_meet_when_the_gpus_are_left():
    reason = told(FREE, Window("repair", ("n0",), 300 * S, 1200 * S), Window("later", ("n0",), 2000 * S, 3000 * S))[1]
    assert dict(reason.numbers) == {"window_from_ms": 239 * S, "window_until_ms": 1200 * S}
    assert "windows service and repair close them, the first of them from" in reason.message


@pytest.mark.parametrize(("seconds", "found"), [(59, ["BUSY"]), (60, ["BUSY", "WINDOW"])])
def test_a_job_that_ends_before_it_is_not_told_of_it(seconds, found):
    assert codes(FREE, seconds=seconds) == found


def test_a_window_of_another_node_is_not_told():
    assert codes(Window("service", ("n1",), 0, 809 * S)) == ["BUSY"]


def test_a_window_that_a_reason_tells_already_is_told_once():
    closed = Window("service", ("n0",), 100 * S, 809 * S)
    waiting = job("1", 2, seconds=180, rules=[rule("node", "In", "n0")])
    plan = decide(world(groups(2, 2), waiting, windows=(closed,), now_ms=50 * S))
    assert [each.code for each in plan.holds[0].reasons] == ["WINDOW"]
