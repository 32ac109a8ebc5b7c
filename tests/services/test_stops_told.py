"""The timeline says when a node asked a job to stop by itself, and how each job left that was asked to."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event
from scheduling.store.commit.attempts import End
from scheduling.store.commit.how_it_left import in_words
from tests import builders as b
from tests.services.test_eviction import World, messages, state
from tests.services.test_gangs import two

pytestmark = pytest.mark.django_db


def stopping(run: b.Running, seconds: float, **kw):
    """The answer to what its node says so many seconds after noon: that it asked the job to stop."""
    said = {"type": "stopping", "why": "drain", "had_s": 35, "ago_s": 0, **kw}
    report = {**said, "attempt": run.attempt, "epoch": run.epoch}
    return b.beat(run.node, now=b.later(seconds), reports=[report])["answers"][0]


@pytest.mark.parametrize(
    ("why", "words"), [("drain", "the node is being emptied"), ("time_limit", "its time limit comes to its end")]
)
def test_the_timeline_says_when_and_why_the_node_asked_it_to_stop_and_until_when_it_has(why, words):
    _, run = b.busy_lab()
    assert stopping(run, 65, why=why, ago_s=5)["ok"]
    assert messages(run.job, "stop_requested") == [
        f"node n1 asked it at 2 Mar 2026, 12:01 UTC to save and stop, as {words}; it has until 2 Mar 2026, 12:01:35 UTC"
    ]
    assert Event.objects.get(type="stop_requested").data == {
        "cause": why, "by": "node", "asked_at": b.later(60).isoformat(), "until": b.later(95).isoformat(),
    }  # fmt: skip


def test_it_says_so_once_however_often_it_is_told_and_the_job_runs():
    _, run = b.busy_lab()
    assert [stopping(run, seconds)["ok"] for seconds in (60, 61)] == [True, True]
    assert (len(messages(run.job, "stop_requested")), state(run.job)) == (1, "RUNNING")


def test_where_the_server_has_asked_the_timeline_has_it_already():
    made = World()
    made.evicted()
    assert stopping(made.victim, 101, why="time_limit")["ok"]
    assert messages(made.victim.job, "stop_requested") == []


def test_a_node_that_shuts_down_leaves_the_words_on_a_job_of_several_nodes_to_the_server():
    gang = two()
    run = b.Running(gang.job, gang.attempt, gang.epoch, "n2", [])
    assert stopping(run, 5)["ok"]
    assert messages(gang.job, "stop_requested") == []


@pytest.mark.parametrize("wrong", [{"why": "cancel"}, {"had_s": -1}, {"ago_s": "5"}, {"ago_s": None}, {"had_s": True}])
def test_what_is_no_stop_of_a_node_is_refused(wrong):
    _, run = b.busy_lab()
    assert (stopping(run, 60, **wrong)["code"], messages(run.job, "stop_requested")) == ("bad_report", [])


@pytest.mark.parametrize(
    ("manner", "times", "words"),
    [
        ("confirmed", {}, "it saved and left"),
        ("confirmed", {"asked_s": 12.4}, "it saved and left 12 s after it was asked"),
        ("unconfirmed", {"asked_s": 0.0}, "it left 0 s after it was asked without saying that it saved"),
        ("grace exceeded", {}, "it was killed at the end of its time to save"),
        ("grace exceeded", {"asked_s": 35.1, "had_s": 35}, "it was killed at the end of the 35 s that it had to save"),
        ("killed by force", {"asked_s": 0.2, "had_s": 0}, "it was killed at once"),
        ("not started", {}, "it had not started yet"),
        ("processes that could not be killed: [7]", {}, ""),
        ("", {}, ""),
    ],
)
def test_the_manner_in_words(manner, times, words):
    assert in_words(End("PREEMPTED", data={"manner": manner, **times})) == words


def test_an_end_that_nobody_asked_for_has_no_manner():
    assert in_words(End("FAILED", data={"manner": "confirmed"})) == ""


def test_the_nodes_of_a_gang_are_told_apart_where_they_left_unlike():
    parts = [{"node": "n1", "manner": "confirmed"}, {"node": "n2", "manner": "grace exceeded"}]
    alike = [{**part, "manner": "confirmed"} for part in parts]
    assert in_words(End("PREEMPTED", data={"parts": alike, "manner": "confirmed"})) == "it saved and left"
    assert in_words(End("PREEMPTED", data={"parts": parts, "manner": "grace exceeded"})) == (
        "n1: it saved and left, n2: it was killed at the end of its time to save"
    )


def test_the_end_on_the_timeline_says_it_with_its_times():
    _, run = b.busy_lab()
    b.finished(run, "PREEMPTED", why="drain", detail="grace exceeded", asked_s=35.2, had_s=35.0, now=b.later(100))
    (told,) = messages(run.job, "attempt_ended")
    assert told.startswith(
        "attempt 1 ended: PREEMPTED (its node was being emptied; it was killed at the end of the 35 s that it had to "
        "save); "
    )
    data = Event.objects.get(type="attempt_ended").data
    assert (data["manner"], data["asked_s"], data["had_s"]) == ("grace exceeded", 35.2, 35.0)


def test_a_time_that_is_none_refuses_the_report_and_the_attempt_lives():
    _, run = b.busy_lab()
    answer = b.finished(run, "PREEMPTED", why="drain", asked_s="soon", now=b.later(100))
    assert (answer["code"], Attempt.objects.get(pk=run.attempt).ended_at) == ("bad_report", None)
