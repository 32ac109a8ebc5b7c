"""A job whose time has not come is told what will keep it waiting after that, and is foretold no start before."""

from __future__ import annotations

import pytest

from scheduling.core import played
from scheduling.core.explain import Explainer
from scheduling.core.plan import Reason
from scheduling.core.preview import Preview, preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, WaitingJob, Window

from .build import job, live, loose, world

S = 1000
BUSY = live("r", "n0/0", "n0/1", ends=600)


def seen(*jobs: WaitingJob, running: list[LiveAttempt], windows: tuple[Window, ...] = ()) -> tuple[Explainer, Preview]:
    """The pool of two GPUs, and what is told of the job "late" there."""
    scheduler = Scheduler(world(loose(2), *jobs, running=running, windows=windows))
    scheduler.cycle(10 * S)
    explainer = Explainer(scheduler)
    return explainer, preview(scheduler, explainer, scheduler.sleeping["late"])


def reasons(*jobs: WaitingJob, running: list[LiveAttempt], **more) -> list[str]:
    return [each.code for each in seen(*jobs, running=running, **more)[1].reasons]


def late(count: int, at_s: int, **more) -> WaitingJob:
    return job("late", count, at=9, not_before_ms=at_s * S, **more)


@pytest.mark.parametrize(("at_s", "found"), [(599, ["NOT_BEFORE", "BUSY"]), (600, ["NOT_BEFORE"])])
def test_it_is_told_that_too_little_is_free_then(at_s, found):
    assert reasons(late(2, at_s), running=[BUSY]) == found


def test_it_is_told_where_and_when_enough_is():
    reason = seen(late(2, 60), running=[BUSY])[1].reasons[-1]
    assert reason == Reason(
        "BUSY",
        "Too little is free for it then; enough is expected on n0 on 1 Jan 1970, 00:10 UTC.",
        (("need", 2), ("earliest_domain", "n0"), ("earliest_at_ms", 600 * S)),
    )


def test_it_is_told_of_a_window_instead_where_that_decides():
    closed = Window("service", ("n0",), 700 * S, 900 * S)
    assert reasons(late(2, 60), running=[BUSY], windows=(closed,)) == ["NOT_BEFORE", "WINDOW"]


def test_a_pass_of_the_scheduler_tells_the_same():
    explainer, found = seen(late(2, 60), running=[BUSY])
    assert explainer.of("late") == found.reasons


AHEAD = [job(f"a{n}", at=n, seconds=1200) for n in range(2)]


def test_it_is_told_of_jobs_ahead_that_take_what_is_free_by_then():
    found = seen(*AHEAD, late(1, 900), running=[BUSY])[1].reasons[-1]
    assert (found.code, dict(found.numbers)) == ("BEHIND", {"earliest_at_ms": 1800 * S})


def test_it_is_not_foretold_to_start_at_its_time_with_jobs_ahead_that_take_what_is_free_by_then():
    start = seen(*AHEAD, late(1, 900), running=[BUSY])[1].start
    assert start is not None
    assert (start.low, start.at, start.high) == (900 * S, 1800 * S, 3300 * S)


def test_nor_in_a_queue_that_is_too_long_to_be_played(monkeypatch):
    monkeypatch.setattr(played, "MAX_JOBS", 0)
    start = seen(*AHEAD, late(1, 900), running=[BUSY])[1].start
    assert start is not None
    assert (start.low, start.at, start.high) == (900 * S, 2100 * S, 3300 * S)


@pytest.mark.parametrize("jobs", [100, 0])
def test_one_that_finds_free_what_nobody_ahead_wants_starts_at_its_time(jobs, monkeypatch):
    monkeypatch.setattr(played, "MAX_JOBS", jobs)
    running = [live("r", "n0/0", ends=5000)]
    assert seen(job("large", 2, at=1, level="Low"), late(1, 900, seconds=600), running=running)[1].verdict == "now"
