"""GPUs that nobody holds, kept for a job that others make way for: who waits on is told that they only look free."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import JobState
from scheduling.core.snapshot import Nomination
from scheduling.core.words import instant_in_words

from .build import NOW, job, live, loose, numbers_of, pool, world
from .build import gpus as gpus_of

UNTIL = NOW + 90_000
WAITS = job("2", level="Low")
KEPT = f"but kept for 1 job that running jobs make way for, until {instant_in_words(UNTIL)} at the latest."


def planned(the_pool, *waits, held, kept, running=()):
    """A Critical job waits for a victim on ``held``, and has ``kept`` kept for it beside."""
    victim = live(
        "v", *held, level="Low", granted_ms=0, state=JobState.PREEMPTING, stop_by_ms=NOW + 60_000, asked_ms=NOW
    )
    critical = job("critical", len(held) + len(kept), level="Critical")
    promise = Nomination("critical", (*held, *kept), UNTIL, False)
    return decide(world(the_pool, critical, *waits, running=[victim, *running], nominations=(promise,)))


def message_of(plan, name="2"):
    """What the job is told of what it is short of, which is told last."""
    return next(hold for hold in plan.holds if hold.job == name).reasons[-1].message


@pytest.mark.parametrize(
    ("size", "kept", "words"),
    [(2, ("n0/1",), "1 GPU more is free"), (3, ("n0/1", "n0/2"), "2 GPUs more are free")],
)
def test_while_nothing_else_is_free_they_are_counted_apart(size, kept, words):
    plan = planned(loose(size), WAITS, held=("n0/0",), kept=kept)
    assert (
        message_of(plan)
        == f"Needs 1 GPU in one node; 0 suitable free. The nearest node is n0, 1 short. {words}, {KEPT}"
    )


def test_their_number_and_until_when_are_among_the_numbers():
    numbers = numbers_of(planned(loose(2), WAITS, held=("n0/0",), kept=("n0/1",)), "2", "BUSY")
    assert (numbers["kept"], numbers["kept_until_ms"]) == (1, UNTIL)


def test_while_something_is_free_they_come_before_what_would_help():
    plan = planned(loose(4), job("2", 2, level="Low"), held=("n0/0", "n0/1"), kept=("n0/2",))
    assert f" 1 GPU more is free, {KEPT} It would start now with at most 1 GPU." in message_of(plan)


def test_those_that_do_not_suit_are_not_told():
    the_pool = pool([*gpus_of("n0", 2, memory="40GB"), *gpus_of("n1", 1)])
    plan = planned(
        the_pool, job("2", level="Low", memory="80GB"), held=("n0/0",), kept=("n0/1",), running=[live("r", "n1/0")]
    )
    assert "kept" not in message_of(plan)


def test_what_victims_still_hold_does_not_look_free():
    assert "kept" not in message_of(planned(loose(1), WAITS, held=("n0/0",), kept=()))
