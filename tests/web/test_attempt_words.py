"""A job that runs again: the page counts from the start of the present attempt, and its waits are no running."""

from __future__ import annotations

import re

import pytest

from scheduling.services import jobs, pool
from scheduling.store import load
from scheduling.store.queries import jobs as queries
from scheduling.web.job_words import at_stake, sentence, shown
from tests import builders as b
from tests.services.test_eviction import World
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def told(job: str, seconds: float) -> dict:
    """The job as its page has it at that time."""
    now = b.later(seconds)
    row = queries.full(queries.Job.objects.filter(pk=job)).get()
    return shown(queries.as_dict(row, now=now), now)


@pytest.fixture
def again() -> b.Running:
    """Alice's job on two GPUs: its first attempt ran for 20 s, its second one since second 100."""
    lab = b.lab()
    first = b.running(lab.who["alice"], lab.models, retries=2)
    b.finished(first, "FAILED", exit_code=1, now=b.later(20))
    b.beat("n1", now=b.later(99))
    b.ticked(b.later(99))
    (wanted,) = b.beat("n1", now=b.later(99))["desired"]
    launch = pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(99))
    run = b.Running(first.job, wanted["attempt"], wanted["epoch"], "n1", launch["gpus"])
    b.beat("n1", now=b.later(100), reports=[{"type": "started", "attempt": run.attempt, "epoch": run.epoch, "pid": 1}])
    return run


def test_it_runs_since_the_start_of_the_attempt_that_is_named(again):
    job = told(again.job, 101)
    assert job["sentence"] == "Running on 2 GPUs of n1 since 2 Mar 2026, 12:01:40 UTC, in attempt 2."
    assert (job["started_at"], job["attempt_started_at"], job["run_s"]) == (b.NOON, b.later(100), 21.0)


def test_a_job_that_waits_again_counts_from_the_end_of_its_run_and_says_that_it_ran(again):
    b.finished(again, "FAILED", exit_code=1, now=b.later(140))
    job = told(again.job, 152)
    assert job["sentence"].startswith("Has waited 12 s for 2 GPUs once more; it ran for 1m 00s in 2 attempts before. ")
    assert job["waits_since"] == b.later(140)


def test_what_grows_while_a_page_is_open_has_its_seconds_and_what_is_over_has_none(again):
    running = told(again.job, 140)
    assert (running["waited"], running["waited_s"], running["ran"], running["ran_s"]) == ("0 s", None, "1m 00s", 60.0)
    page = text(browser().get(f"/jobs/{again.job}/"))
    assert len(re.findall(r'class="muted" data-counts="[0-9.]+"', page)) == 1  # the attempt that runs, not the first
    b.finished(again, "FAILED", exit_code=1, now=b.later(140))
    waiting = told(again.job, 152)
    assert (waiting["waited_s"], waiting["ran"], waiting["ran_s"]) == (None, "1m 00s", None)
    assert [part for part in waiting["sentence_parts"] if "counts" in part] == [{"text": "12 s", "counts": 12.0}]
    assert "".join(part["text"] for part in waiting["sentence_parts"]) == waiting["sentence"]


def test_the_list_counts_on_how_long_jobs_wait():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    assert told(job, 30)["waited_s"] == 30.0
    lead = re.search(r'data-hook="sentence">(.*?)</p>', text(browser().get(f"/jobs/{job}/")), re.DOTALL)
    assert re.match(r'Has waited <span data-counts="[0-9.]+">[^<]+</span> for 2 GPUs\. [^<]+$', lead[1])
    page = text(browser().get("/jobs/"))
    assert re.search(r'data-hook="waited" data-counts="[0-9.]+"', page)
    assert re.search(r'data-hook="ran">–<', page)


def test_a_job_that_waits_for_the_first_time_counts_from_its_submission():
    lab = b.lab()
    job = told(b.submitted(lab.who["alice"], b.merge_body(lab.models)), 30)
    assert job["sentence"].startswith("Has waited 30 s for 2 GPUs. ")
    assert (job["of_limit"], job["left_s"], job["waits_since"]) == ([], 3600, b.NOON)


@pytest.mark.parametrize(
    ("ended", "told_of"), [(False, "1m 00s of 1h, 59m 00s left"), (True, "1m 00s of 1h, 59m 00s left")]
)
def test_the_runs_before_count_to_the_time_limit_while_it_runs_and_while_it_waits(again, ended, told_of):
    if ended:
        b.finished(again, "FAILED", exit_code=1, now=b.later(140))
    job = told(again.job, 500 if ended else 140)
    assert ("".join(part["text"] for part in job["of_limit"]), job["left_s"]) == (told_of, 3540)
    grows = [(part["counts"], part.get("down", False)) for part in job["of_limit"] if part.get("counts") is not None]
    assert grows == ([] if ended else [(60.0, False), (3540.0, True)])


def test_what_is_left_is_what_the_next_attempt_gets(again):
    b.finished(again, "FAILED", exit_code=1, now=b.later(140))
    (waiting,) = load.snapshot(b.later(150)).waiting
    assert waiting.remaining_s == told(again.job, 150)["left_s"]


def test_a_job_that_is_over_has_nothing_left_of_its_time(again):
    b.finished(again, now=b.later(140))
    job = told(again.job, 500)
    assert (job["left_s"], job["of_limit"], job["waits_since"]) == (None, [], None)


def test_a_first_attempt_is_not_numbered():
    _, run = b.busy_lab()
    assert told(run.job, 7)["sentence"] == "Running on 2 GPUs of n1 since 2 Mar 2026, 12:00 UTC."


def test_what_is_at_stake_is_the_work_of_the_present_attempt(again):
    words = at_stake(told(again.job, 1900), [{"type": "checkpoint", "at": b.later(15)}], b.later(1900))
    assert words == (
        "The work since the start of attempt 2 is lost (1.00 GPU-hours); its newest checkpoint stays in the store."
    )


def test_the_end_tells_how_long_all_attempts_ran_without_the_wait_between(again):
    b.finished(again, now=b.later(140))
    job = told(again.job, 500)
    assert job["sentence"] == "Succeeded after 1m 00s in 2 attempts on 2 GPUs with 0 artifacts."
    assert job["ran"] == "1m 00s"


def test_a_job_between_two_attempts_is_not_said_to_have_never_started(again):
    b.finished(again, "FAILED", exit_code=1, now=b.later(140))
    job = told(again.job, 150)
    assert at_stake(job, [], b.later(150)).startswith("It is not running, so no work is lost")
    assert sentence({**job, "state": "CANCELLED"}, b.later(150)) == "Cancelled after running for 1m 00s in 2 attempts."


@pytest.fixture
def wrote(again: b.Running) -> b.Running:
    """Both attempts have written a line."""
    for number, attempt in enumerate(queries.Job.objects.get(pk=again.job).attempts.order_by("number"), 1):
        attempt.log.create(rank=0, offset=0, size=6, text=f"run {number}\n")
    return again


@pytest.mark.parametrize(
    ("query", "attempt", "heading"),
    [("", 2, "Log"), ("?attempt=1", 1, "Log of attempt 1"), ("?attempt=2", 2, "Log of attempt 2")],
)
def test_the_log_is_that_of_the_attempt_that_was_chosen(wrote, query, attempt, heading):
    html = text(browser().get(f"/jobs/{wrote.job}/{query}"))
    assert f">run {attempt}\n</pre>" in html
    assert f'<h2 id="log-of">{heading}</h2>' in html
    assert f'href="/jobs/{wrote.job}/log.txt{query}"' in html


def test_each_attempt_leads_to_its_log(wrote):
    html = text(browser().get(f"/jobs/{wrote.job}/"))
    assert [f'href="?attempt={number}#log-of"' in html for number in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("wanted", ["3", "x"])
def test_an_attempt_that_is_not_there_is_not_found(wrote, wanted):
    assert browser().get(f"/jobs/{wrote.job}/?attempt={wanted}").status_code == 404


def attempt_line(job: str) -> str:
    """The first line of the newest attempt on the job's page, without its markup."""
    line = text(browser().get(f"/jobs/{job}/")).partition('<div class="attempt">')[2].partition("</p>")[0]
    return " ".join(re.sub("<[^>]*>", " ", line).split())


def test_a_live_attempt_of_a_job_that_is_asked_to_leave_says_so():
    made = World()
    assert attempt_line(made.victim.job).startswith("Attempt 1 running")
    made.evicted()
    assert attempt_line(made.victim.job).startswith("Attempt 1 asked to leave")


def test_a_live_attempt_of_a_job_that_is_cancelled_says_so_and_one_that_ended_says_how(again):
    assert attempt_line(again.job).startswith("Attempt 2 running")
    jobs.cancel(again.job, b.people()["alice"], b.later(110))
    assert attempt_line(again.job).startswith("Attempt 2 cancelling")
    b.finished(again, "CANCELLED", exit_code=143, why="cancel", now=b.later(111))
    assert attempt_line(again.job).startswith("Attempt 2 cancelled")
