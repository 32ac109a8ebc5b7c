"""Whoever runs a job again says so: which of how many times it is, when it starts at the earliest, and when no more."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from scheduling.services import pool
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
LEFT = {"outcome": "PREEMPTED", "exit_code": 85, "detail": "yielded"}
NO_CHECKPOINT = "starts again from the beginning: there is no checkpoint"


def ends(lab, times: int, *, retries: int = 0, **how) -> list[str]:
    """What the timeline says of a job's ends, which it comes to so many times, without their checkpoints."""
    run = b.running(lab.who["alice"], lab.models, retries=retries)
    for n in range(1, times + 1):
        if n > 1:
            at = b.later(700 * n)
            b.beat(now=at)
            b.ticked(at)
            (wanted,) = b.beat(now=at)["desired"]
            pool.claim("n1", wanted["attempt"], wanted["epoch"], at)
            started = {"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}
            b.beat(now=at, reports=[started])
            run = b.Running(run.job, wanted["attempt"], wanted["epoch"], "n1", run.gpus)
        b.finished(run, now=b.later(700 * n + 5), **how)
    told = Event.objects.filter(object_id=run.job, type__in=("requeued", "failed")).order_by("id")
    return [message.removesuffix(f"; {NO_CHECKPOINT}") for message in told.values_list("message", flat=True)]


def test_a_retry_is_told_with_its_number_and_the_last_end_says_that_they_are_used_up():
    told = ends(b.lab(), 3, retries=2, outcome="FAILED", exit_code=1, error="exit code 1")
    assert told == [
        "exit code 1; retry 1 of 2", "exit code 1; retry 2 of 2", "exit code 1; its 2 retries are used up",
    ]  # fmt: skip
    assert Job.objects.get().error == "exit code 1; its 2 retries are used up"


def test_a_failure_without_retries_says_nothing_of_them():
    assert ends(b.lab(), 1, outcome="FAILED", exit_code=1, error="exit code 1") == ["exit code 1"]


def test_what_ran_out_of_memory_says_why_it_is_not_retried():
    told = ends(b.lab(), 1, retries=2, outcome="OOM", exit_code=1, error="exit code 1")
    assert told == ["exit code 1; running out of memory is not retried"]


def test_a_failure_of_the_infrastructure_says_which_it_is_and_how_long_the_pause_is():
    told = ends(b.lab(), 2, outcome="LOST", exit_code=None, error="gone")
    budget = "of the 5 that it may have; it starts again after"
    assert told == [
        f"gone; infrastructure failure 1 {budget} 10 s at the earliest",
        f"gone; infrastructure failure 2 {budget} 20 s at the earliest",
    ]


def test_a_job_that_leaves_by_itself_again_and_again_says_so_and_where_the_limit_is():
    left = "it left by itself to be run again"
    assert ends(b.lab(), 3, **LEFT) == [
        f"{left}, time 1 in a row without progress: it fails with time 3",
        f"{left}, time 2 in a row without progress: it fails with time 3",
        f"{left} 3 times in a row without progress, which is the limit",
    ]


def test_its_attempt_is_not_called_preempted():
    ends(b.lab(), 1, **LEFT)
    job = Job.objects.get()
    html = text(browser().get(f"/jobs/{job.pk}/"))
    assert "<span data-word>left by itself</span>" in html
    assert "attempt 1 ended: PREEMPTED (it left by itself to be run again)" in html
    row = queries.full(Job.objects.all()).get()
    assert [part["manner"] for each in queries.attempts(row) for part in each["nodes"]] == ["yielded"]


def test_one_that_was_asked_to_leave_counts_no_times():
    asked = {**LEFT, "detail": "confirmed", "why": "drain"}
    assert ends(b.lab(), 1, **asked) == ["its node was being emptied"]


@pytest.mark.parametrize("ends_well", [False, True])
def test_what_an_earlier_attempt_died_of_is_no_error_of_the_job_that_runs_or_has_succeeded(ends_well):
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models, retries=1)
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint")
    b.finished(run, "FAILED", exit_code=1, error="boom", checkpoint=saved, step=3, now=b.later(5))
    b.beat(now=b.later(9))
    b.ticked(b.later(9))
    (wanted,) = b.beat(now=b.later(9))["desired"]
    pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(9))
    again = b.Running(run.job, wanted["attempt"], wanted["epoch"], "n1", run.gpus)
    if ends_well:
        b.finished(again, now=b.later(20))
    told = queries.as_dict(queries.full(Job.objects.all()).get(), holds={})
    assert (told["error"], told["exit_code"], told["resumes_from"] is None) == (
        None, 0 if ends_well else None, ends_well,
    )  # fmt: skip
