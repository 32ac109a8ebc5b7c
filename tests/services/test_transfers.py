"""How far the moving of a job's files is: told to REST, its page and its timeline while it goes on, not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.models import Event
from scheduling.store import upkeep
from scheduling.store.queries import jobs as queries
from scheduling.store.transfers import CAME as CAME_IN_WORDS
from tests import builders as b
from tests.services.test_gangs import two
from tests.web.pages import browser, text
from workers.protocol import Transfer

pytestmark = pytest.mark.django_db

SAVING = {"what": "saving checkpoint", "files": 120, "of_files": 5000, "bytes": 480_000, "of_bytes": 20_500_000}
WORDS = "saving checkpoint: 120 of 5000 files, 0.5 of 20.5 MB"


class Node:
    """A node that moves files for its running job."""

    def __init__(self) -> None:
        _, self.run = b.busy_lab()

    def tells(self, at: float = 5, **changed: Any) -> dict[str, Any]:
        whose = {"type": "transfer", "attempt": self.run.attempt, "epoch": self.run.epoch, "over": False}
        reply: Any = b.beat(now=b.later(at), reports=[{**whose, **SAVING, **changed}])
        answer: dict[str, Any] = reply["answers"][0]
        return answer

    def shown(self, at: float = 6) -> Any:
        row = queries.full(queries.Job.objects.filter(pk=self.run.job)).get()
        return queries.as_dict(row, now=b.later(at))["transfer"]

    def timeline(self) -> list[str]:
        return [e["message"] for e in queries.events(queries.Job.objects.get(pk=self.run.job)) if "transf" in e["type"]]


def test_rest_tells_how_many_files_and_bytes_are_there():
    node = Node()
    assert node.tells()["ok"]
    assert node.shown() == {"node": "n1", **SAVING, "message": WORDS}


def test_the_page_of_the_job_shows_it(monkeypatch):
    node = Node()
    node.tells()
    monkeypatch.setattr("scheduling.web.job.now", lambda: b.later(6))
    assert WORDS in text(browser().get(f"/jobs/{node.run.job}/"))


def test_once_all_has_arrived_only_the_timeline_tells_of_it():
    node = Node()
    node.tells()
    assert node.timeline() == []
    node.tells(files=5000, bytes=20_500_000, over=True)
    assert node.shown() is None
    assert node.timeline() == ["saved the checkpoint: 5000 files, 20.5 MB"]


SMALL = {"files": 2, "of_files": 2, "bytes": 300, "of_bytes": 300}
CAME = {**SMALL, "over": True, "whole": True, "step": 30, "begun": 8000}


def test_a_finished_transfer_that_is_told_of_again_is_on_the_timeline_once_and_does_not_go_on():
    node = Node()
    for _ in range(3):
        node.tells(**{**CAME, "over": False, "whole": False, "files": 1})
        node.tells(**CAME)
    assert (node.timeline(), node.shown()) == (["saved the checkpoint of step 30: 2 files, 0.3 kB"], None)


def test_each_transfer_is_on_the_timeline_in_its_order_also_one_like_another():
    node = Node()
    fetched = {**CAME, "what": "fetching inputs", "step": 0, "of_files": 1, "files": 1, "of_bytes": 150_000}
    for told in (fetched, CAME, {**CAME, "step": 40, "begun": 9000}, {**CAME, "step": 40, "begun": 9900}, CAME):
        node.tells(**told)
    assert node.timeline() == [
        "fetched its inputs: 1 file, 0.1 MB",
        "saved the checkpoint of step 30: 2 files, 0.3 kB",
        "saved the checkpoint of step 40: 2 files, 0.3 kB",
        "saved the checkpoint of step 40: 2 files, 0.3 kB",
    ]


def test_each_transfer_has_words_for_its_end():
    assert list(CAME_IN_WORDS) == [each.value for each in Transfer]


def test_how_far_a_small_one_is_can_be_read():
    node = Node()
    node.tells(files=1, of_files=2, bytes=800, of_bytes=99_000)
    assert node.shown()["message"] == "saving checkpoint: 1 of 2 files, 0.8 of 99.0 kB"


def test_one_that_was_refused_though_all_its_bytes_came_is_on_no_timeline():
    node = Node()
    node.tells(**{**CAME, "whole": False})
    assert node.timeline() == []


def test_what_was_given_up_half_way_is_on_no_timeline():
    node = Node()
    node.tells()
    node.tells(over=True)
    assert (node.shown(), node.timeline()) == (None, [])


def test_what_was_told_long_ago_is_not_shown_as_going_on():
    node = Node()
    node.tells()
    assert (node.shown(124) is None, node.shown(126)) == (False, None)


def test_of_an_attempt_that_has_ended_nothing_goes_on():
    node = Node()
    node.tells()
    b.finished(node.run, "FAILED", exit_code=1, now=b.later(6))
    assert node.shown() is None


@pytest.mark.parametrize("wrong", [{"what": "digging"}, {"files": -1}, {"bytes": "many"}, {"of_bytes": None}])
def test_what_is_no_transfer_is_a_bad_report(wrong):
    node = Node()
    assert node.tells(**wrong)["code"] == "bad_report"
    assert node.shown() is None


def test_tellings_are_not_kept_longer_than_an_hour():
    node = Node()
    node.tells()
    b.beat(now=b.later(6))
    node.tells(files=5000, over=True)
    upkeep.retain(b.later(3700), days=90)
    assert list(Event.objects.filter(type__startswith="transfer").values_list("type", flat=True)) == ["transferred"]


# ---------------------------------------------------------------- lines that were not understood


def unread(run: Any, node: str = "n1", **changed: Any) -> Any:
    whose = {"type": "events_unread", "attempt": run.attempt, "epoch": run.epoch, "lines": 3, "first": "'epoch 1'"}
    reply: Any = b.beat(node, now=b.later(5), reports=[{**whose, **changed}])
    return reply["answers"][0]


def told(job: str) -> list[str]:
    return list(Event.objects.filter(type="events_unread", object_id=job).values_list("message", flat=True))


def test_the_timeline_says_once_how_many_lines_had_no_effect_and_quotes_the_first():
    _, run = b.busy_lab()
    assert [unread(run)["ok"], unread(run)["ok"]] == [True, True]
    assert told(run.job) == ["3 lines of its events file were not understood and had no effect; the first: 'epoch 1'"]


def test_of_several_nodes_each_says_it():
    gang = two()
    for node in gang.ranks:
        assert unread(gang, node, lines=1)["ok"]
    words = "1 line of its events file was not understood and had no effect; the first: 'epoch 1'"
    assert told(gang.job) == [words, words]


@pytest.mark.parametrize("wrong", [{"lines": 0}, {"lines": "3"}])
def test_a_report_of_no_lines_is_a_bad_one(wrong):
    _, run = b.busy_lab()
    assert (unread(run, **wrong)["code"], told(run.job)) == ("bad_report", [])
