"""Who was let run on is not asked any more: whatever it ends by later is told as that, and nothing is given back."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event, LostWork, Nomination, Queue
from scheduling.services import jobs
from scheduling.store import load_jobs
from tests import builders as b
from tests.remembered import Remembered
from tests.services.test_eviction import GRACE_S, World, messages, state

pytestmark = pytest.mark.django_db

OVER = 100 + GRACE_S  # when the grace of a victim that was asked at 100 s is over
# So long after that the house stops, the job fails, and so on.
THEN = OVER + 60


@Remembered
def spared() -> tuple[World, str]:
    """A world whose Low job did not save in time for the Critical one of admin, and runs on."""
    made = World()
    Queue.objects.update(never_without_checkpoint=True)
    job = made.evicted()
    made.tick(OVER)
    assert state(made.victim.job) == "RUNNING"
    return made, job


def given_back(made: World) -> tuple[list[str], int]:
    """What the timeline says was given back, and how many jobs have GPUs kept for them."""
    return messages(made.victim.job, "given_back"), Nomination.objects.count()


def ends(made: World, outcome: str, seconds: float = THEN, **kw) -> None:
    answer = b.finished(made.victim, outcome, now=b.later(seconds), **kw)
    assert answer["ok"], answer


@pytest.mark.parametrize(
    ("outcome", "how", "cause"),
    [
        ("PREEMPTED", {"exit_code": 143, "why": "drain", "detail": "grace exceeded"}, "drain"),
        ("PREEMPTED", {"exit_code": 85, "why": None, "detail": "yielded"}, None),
        ("LOST", {"exit_code": None, "why": "preempt", "error": "the process that kept the job died"}, "lost"),
        ("LOST", {"exit_code": None, "why": "lost"}, "lost"),
        ("FAILED", {"exit_code": 1, "why": None, "error": "exit code 1"}, None),
        ("OOM", {"exit_code": 1, "why": None}, None),
        ("TIMED_OUT", {"exit_code": 143, "why": "time_limit"}, None),
        ("SUCCEEDED", {"exit_code": 0}, None),
    ],
)
def test_however_it_ends_nothing_is_given_back_and_nothing_was_in_vain(outcome, how, cause):
    made, _ = spared()
    ends(made, outcome, **how)
    assert given_back(made) == ([], 0)
    assert list(LostWork.objects.values_list("cause", "in_vain")) == ([] if cause is None else [(cause, False)])


def test_when_the_house_stops_its_end_is_told_as_that_and_counts_as_no_preemption():
    made, job = spared()
    jobs.cancel(job, made.who["admin"], b.later(THEN - 1))
    ends(made, "PREEMPTED", exit_code=143, why="drain", detail="grace exceeded")
    (told,) = messages(made.victim.job, "attempt_ended")
    assert told.startswith("attempt 1 ended: PREEMPTED (its node was being emptied; it was killed at the end of ")
    assert load_jobs.evictions(b.later(THEN)).times == {}
    assert Attempt.objects.get(pk=made.victim.attempt).job.preempt_count == 0


def test_what_it_saved_for_the_house_loses_none_of_the_time_that_it_ran_on():
    made, _ = spared()
    ends(made, "PREEMPTED", exit_code=85, why="drain", checkpoint=made.saves(THEN - 1), step=7)
    assert LostWork.objects.get().gpu_ms == 0


def test_a_yield_of_its_own_counts_as_one():
    made, _ = spared()
    ends(made, "PREEMPTED", exit_code=85, why=None, detail="yielded")
    assert Attempt.objects.get(pk=made.victim.attempt).job.yields == 1


def test_one_that_is_cancelled_is_cancelled():
    made, _ = spared()
    jobs.cancel(made.victim.job, made.who["alice"], b.later(THEN))
    ends(made, "CANCELLED", THEN + 1, exit_code=143, why="cancel")
    assert (state(made.victim.job), given_back(made)) == ("CANCELLED", ([], 0))


def test_one_that_is_evicted_again_makes_way_like_any_other():
    made, job = spared()
    run = {"attempt": made.victim.attempt, "epoch": made.victim.epoch}
    saved = b.output(made.victim, "checkpoint", b"5", kind="checkpoint", now=b.later(THEN))
    b.beat("n1", now=b.later(THEN), reports=[{"type": "checkpoint", "artifact": saved, "step": 5, **run}])
    made.tick(THEN + 1)
    made.leaves(THEN + 2)
    made.tick(THEN + 3)
    assert (state(job), LostWork.objects.get().in_vain) == ("DISPATCHING", False)
    assert not Event.objects.filter(type="given_back").exists()
