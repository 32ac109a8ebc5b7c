"""Why these victims: what they lose, and how many that would have cost less were protected, as the job is told."""

from __future__ import annotations

import pytest

from scheduling.core.explain import Explainer
from scheduling.core.lifecycle import JobState
from scheduling.core.pool import Pool
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, Nomination, WaitingJob

from .build import NOW, gpus, job, live, loose, pool, world

WHY = ("lost_gpu_s", "protected", "protected_until_ms")
VICTIM = 900 + 120  # what D loses on its one GPU: all it has done, and the time to restore


def ran(name: str, gpu: str, seconds: int, *, level: str = "Low", **more) -> LiveAttempt:
    """A job that has run for so many seconds and has an hour left."""
    return live(name, gpu, level=level, granted_ms=NOW - seconds * 1000, **more)


CRITICAL = job("critical", level="Critical")
D = ran("d", "n0/0", 900, level="Normal")
RESUMED = [ran("a", "n0/1", 12), ran("b", "n0/2", 15), ran("c", "n0/3", 10)]


def told(the_pool: Pool, *running: LiveAttempt, waiting: WaitingJob = CRITICAL) -> tuple[dict, dict]:
    """What the numbers of the job's reason say of its victims once they are asked, and those of its plan before."""
    after = Scheduler(world(the_pool, waiting, running=running))
    after.cycle(NOW)
    reasons = Explainer(after).of(waiting.id)
    before = Scheduler(world(the_pool, running=running))
    before.cycle(NOW)
    plans = preview(before, Explainer(before), waiting).reasons
    assert [each.code for each in (*reasons, *plans)] == ["PREEMPTING", "EVICTS"]
    hers, planned = ({n: v for n, v in each.numbers if n in WHY} for each in (reasons[0], plans[0]))
    return hers, planned


def test_the_job_and_its_plan_are_told_what_it_costs_and_who_was_passed_over_for_being_protected():
    numbers = {"lost_gpu_s": VICTIM, "protected": 3, "protected_until_ms": NOW + 45_000}
    assert told(loose(4), D, *RESUMED) == (numbers, numbers)


def test_the_words_say_so_too():
    scheduler = Scheduler(world(loose(4), CRITICAL, running=[D, *RESUMED]))
    scheduler.cycle(NOW)
    assert Explainer(scheduler).of("critical")[0].message == (
        "1 GPU is kept for it; 1 running job was asked to save and leave first. That costs 0.28 GPU-hours of work and "
        "of resuming. 3 "
        "jobs of lower levels that would have cost less were passed over: they were protected, since they began to run "
        "only just before or made way often of late, the first of them until 1 Jan 1970, 00:00:55 UTC."
    )


def test_a_plan_says_it_in_its_words():
    scheduler = Scheduler(world(loose(2), running=[D, RESUMED[0]]))
    scheduler.cycle(NOW)
    assert preview(scheduler, Explainer(scheduler), CRITICAL).reasons[0].message == (
        "1 job of lower levels is asked to save and leave for it. That costs 0.28 GPU-hours of work and of "
        "resuming. 1 job of lower "
        "levels that would have cost less was passed over: it was protected, since it began to run only just before or "
        "made way often of late, until 1 Jan 1970, 00:00:58 UTC."
    )


@pytest.mark.parametrize(
    ("running", "numbers"),
    [
        # What is dearer than the victim is spared for that.
        ([ran("v", "n0/0", 900), ran("a", "n0/1", 12, level="Normal")], {"lost_gpu_s": VICTIM}),
        # Where all are protected, nobody is passed over for that.
        ([ran("v", "n0/0", 12), ran("a", "n0/1", 13)], {"lost_gpu_s": 12 + 120}),
        # What it may not evict is no matter.
        ([D, ran("a", "n0/1", 12, preemptible=False)], {"lost_gpu_s": VICTIM}),
        # No time ends the protection of who made way often.
        ([D, ran("a", "n0/1", 900, recent_preemptions=3)], {"lost_gpu_s": VICTIM, "protected": 1}),
        ([D, ran("a", "n0/1", 60)], {"lost_gpu_s": 60 + 120}),
    ],
)
def test_only_who_would_have_gone_but_for_its_protection_is_counted(running, numbers):
    assert told(loose(2), *running) == (numbers, numbers)


def test_who_holds_nothing_that_suits_is_not_counted():
    the_pool = pool(gpus("n0", 1, memory="80GB"), gpus("n1", 1, memory="24GB"))
    waiting = job("critical", level="Critical", memory="40GB")
    numbers = {"lost_gpu_s": VICTIM}
    assert told(the_pool, D, ran("a", "n1/0", 12), waiting=waiting) == (numbers, numbers)


def test_it_is_told_as_of_when_they_were_asked_however_long_they_save():
    # Asked half a minute ago: by now the other has run for longer than it is protected.
    asked = {"state": JobState.PREEMPTING, "asked_ms": NOW - 30_000, "stop_by_ms": NOW + 90_000}
    victim = ran("d", "n0/0", 930, level="Normal", **asked)
    kept = (Nomination("critical", ("n0/0",), NOW + 120_000, again=False),)
    scheduler = Scheduler(world(loose(2), CRITICAL, running=[victim, ran("a", "n0/1", 70)], nominations=kept))
    scheduler.cycle(NOW)
    numbers = dict(Explainer(scheduler).of("critical")[0].numbers)
    assert {name: numbers.get(name) for name in WHY} == {
        "lost_gpu_s": VICTIM, "protected": 1, "protected_until_ms": NOW - 10_000,
    }  # fmt: skip
