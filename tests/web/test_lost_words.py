"""How much of a job's work was lost, by what, and where it goes on: on its page, its timeline and in REST."""

from __future__ import annotations

import re

import pytest

from scheduling.api.shapes import jobs as shapes
from scheduling.store.commit.lost_work import Lost
from scheduling.web.lost_words import goes_on, lost_in_all, lost_line
from tests import builders as b
from tests.api.calls import Caller
from tests.services.test_eviction import World, messages
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def preempted(*, saves: bool = True) -> World:
    """A Low job on 4 GPUs, asked to leave after 100 s, gone 200 s later; with a checkpoint, or with nothing."""
    made = World()
    made.evicted()
    how = {"checkpoint": made.saves(299), "step": 7} if saves else {}
    made.leaves(300, **how)
    return made


def page(made: World) -> str:
    return text(browser().get(f"/jobs/{made.victim.job}/"))


def rest(made: World, more: str = ""):
    return Caller(session="alice").get(f"jobs/{made.victim.job}/{more}").json()


def test_the_page_says_how_much_each_attempt_lost_and_by_what():
    words = "Lost 3 min 20 s of work on 4 GPUs (0.22 GPU-hours), preempted for jobs of higher priority"
    assert f"{words}; it does not count as used." in page(preempted())


def test_the_page_says_the_sum_and_the_checkpoint_from_which_it_goes_on():
    html = page(preempted())
    assert "<dt>Lost</dt><dd>3 min 20 s, 0.22 GPU-hours, given back</dd>" in html
    assert '<dt>Resumes from</dt><dd>step 7, saved <time datetime="2026-03-02T12:04:59+00:00"' in html


def test_the_timeline_says_how_much_was_lost_and_of_when_the_checkpoint_is():
    made = preempted()
    assert messages(made.victim.job, "attempt_ended")[0].endswith(
        "; 3 min 20 s on 4 GPUs (0.22 GPU-hours) are lost and given back"
    )
    assert messages(made.victim.job, "requeued")[0].endswith(
        "will resume from the checkpoint at step 7 of 2 Mar 2026, 12:04:59 UTC"
    )


def test_an_instant_in_the_timeline_is_shown_in_the_readers_zone():
    assert "at step 7 of <time datetime=" in page(preempted())


def test_rest_tells_seconds_gpu_hours_and_cause_by_attempt_and_the_checkpoint():
    made = preempted()
    told = rest(made)
    assert told["lost_work"] == [
        {"attempt": 1, "cause": "preempt", "at": "2026-03-02T12:05:00Z", "work_s": 200.0, "resume_s": 0.0,
         "gpu_hours": round(4 * 200 / 3600, 6), "in_vain": False, "ran": True}
    ]  # fmt: skip
    assert (told["resumes_from"]["step"], told["resumes_from"]["saved_at"]) == (7, "2026-03-02T12:04:59Z")
    assert rest(made, "attempts/")["results"][0]["lost"] == told["lost_work"][0]


def test_rest_has_exactly_the_documented_members():
    told = rest(preempted())
    assert told["lost_work"][0].keys() == shapes.LostWorkShape().fields.keys()
    assert told["resumes_from"].keys() == shapes.CheckpointShape().fields.keys()


def test_without_a_checkpoint_all_of_it_is_lost_and_nothing_is_resumed():
    told = rest(preempted(saves=False))
    assert (told["lost_work"][0]["work_s"], told["resumes_from"]) == (300.0, None)


def test_a_job_that_lost_nothing_says_nothing():
    _, run = b.busy_lab()
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert "Lost" not in html
    assert Caller(session="alice").get(f"jobs/{run.job}/").json()["lost_work"] == []


LOST = {"attempt": 1, "cause": "lost", "work_s": 60.0, "resume_s": 20.0, "gpu_hours": 0.0222, "in_vain": False,
        "ran": True}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {},
            "Lost 1 min of work and 20 s of resuming on 1 GPU (1.3 GPU-minutes), on nodes that failed or whose keeper "
            "did; ",
        ),
        ({"work_s": 0.0}, "Lost 20 s of resuming on 1 GPU"),
        ({"ran": False, "resume_s": 0.0}, "Lost 1 min of getting ready, without running, on 1 GPU ("),
        ({"cause": "preempt", "in_vain": True}, "for jobs of higher priority, in vain: the GPUs were not taken then; "),
    ],
)
def test_a_line_names_what_was_lost_and_the_cause(change, words):
    assert words in lost_line({**LOST, **change}, 1)


def test_what_a_line_names_adds_up_to_the_full_seconds_of_the_timeline():
    parts = {**LOST, "work_s": 10.6, "resume_s": 10.6}
    assert "Lost 10 s of work and 11 s of resuming on" in lost_line(parts, 1)
    assert lost_in_all([parts, parts]).startswith("42 s, ")


def test_the_gpu_time_is_that_of_the_seconds_beside_it():
    lost = {**LOST, "work_s": 10.6, "resume_s": 0.0, "gpu_hours": 2 * 10.6 / 3600}
    assert "Lost 10 s of work on 2 GPUs (20 GPU-seconds)" in lost_line(lost, 2)
    assert lost_in_all([lost]) == "10 s, 20 GPU-seconds, given back"


def test_less_than_a_second_is_no_loss_as_on_the_timeline():
    less = {**LOST, "work_s": 0.3, "resume_s": 0.1}
    assert (lost_line(less, 1), lost_in_all([less])) == ("", "")


def test_the_sum_is_over_all_attempts():
    assert lost_in_all([LOST, LOST]) == "2 min 40 s, 2.7 GPU-minutes, given back"


@pytest.mark.parametrize(
    ("state", "told"), [("QUEUED", True), ("FAILED", True), ("RUNNING", False), ("SUCCEEDED", False)]
)
def test_where_it_goes_on_is_told_of_jobs_that_begin_again(state, told):
    job = {"state": state, "resumes_from": {"artifact": "a", "step": 0, "saved_at": b.NOON}}
    assert goes_on(job) == ({"at": b.NOON, "step": "its checkpoint"} if told else None)


def test_what_was_lost_is_not_used():
    """1,200 GPU-seconds were held, and 800 of them were lost."""
    assert "<dt>Used</dt><dd>0.11 GPU-hours</dd>" in page(preempted())


@pytest.mark.parametrize("seconds", [183.0, 183.4, 63.0, 93.9, 459.0])
def test_the_page_and_the_timeline_round_the_same_loss_alike(seconds):
    lost = {**LOST, "work_s": seconds, "resume_s": 0.0, "gpu_hours": round(seconds / 3600, 6)}
    stretch = (b.NOON, b.later(seconds))
    timeline = Lost(redo=stretch).in_words(1, ran=True)
    said = re.search(r"\((.*?)\)", timeline)[1]
    assert (f"({said})" in lost_line(lost, 1), f", {said}, given back" in lost_in_all([lost])) == (True, True)


def test_the_sum_is_of_what_each_attempt_says():
    lost = {**LOST, "work_s": 91.6, "resume_s": 0.0, "gpu_hours": round(91.6 / 3600, 6)}
    assert lost_in_all([lost, lost]) == "3 min 2 s, 3.0 GPU-minutes, given back"
