"""Draining a node on its page: with a deadline or without, and what the page says of it afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.models import Node, SchedulerState
from scheduling.services import pool
from tests import builders as b
from tests.services.sick_gpus import report
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def drained(**given):
    return text(browser("admin").post("/nodes/n1/drain/", given, follow=True))


def test_without_a_deadline_the_page_says_who_drained_it_and_that_nothing_runs():
    b.lab()
    html = drained(deadline="")
    assert "n1 is drained: nothing runs on it" in html
    assert "Drain by admin." in html
    assert Node.objects.get().drain_by is None


def test_with_a_deadline_the_page_says_until_when_and_lets_one_change_it():
    b.busy_lab()
    html = drained(deadline="4h")
    assert "n1 takes no new work and is being emptied" in html
    assert f'datetime="{Node.objects.get().drain_by:%Y-%m-%dT%H:%M}' in html
    assert "is asked to save and moves to other nodes" in html
    assert "Change the deadline" in html


def test_a_bad_deadline_is_told_and_nothing_changes():
    b.lab()
    html = drained(deadline="tomorrow")
    assert (
        "Deadline must be written like 4h, 90m, 1h30m, 2d, PT4H or a number of seconds; 2592000 s (30d) at most;"
        in html
    )
    assert Node.objects.get().state == "READY"


def test_the_board_says_why_a_node_is_closed():
    b.people()
    b.node("n1")
    report({0: {"xids": [79], "xids_before": 0}}, at=10)
    assert "its machine has to be restarted: GPU 0: Xid 79" in text(browser().get("/"))


def test_the_board_lets_an_operator_alone_say_that_the_many_silent_nodes_are_gone():
    b.lab()
    b.ticked()
    SchedulerState.objects.update(alarms=[{"code": "MASS_SILENCE", "message": "6 of 8 nodes fell silent"}])
    assert "/silence/confirm/" not in text(browser().get("/"))
    assert '<details class="ask" id="silence" >' in text(browser("admin").get("/"))
    assert browser().post("/silence/confirm/").status_code == 403
    assert browser("admin").post("/silence/confirm/").status_code == 302
    assert SchedulerState.objects.get().silence_confirmed_at is not None


def test_without_that_alarm_it_is_not_offered_and_refused():
    b.lab()
    b.ticked()
    assert '<details class="ask" id="silence" hidden>' in text(browser("admin").get("/"))
    html = text(browser("admin").post("/silence/confirm/", follow=True))
    assert "Too few nodes are silent for that; nothing was changed." in html


@pytest.mark.parametrize("verb", ["cordon", "drain"])
def test_the_reason_that_an_operator_gives_is_on_the_page_and_on_the_board(verb):
    b.lab()
    browser("admin").post(f"/nodes/n1/{verb}/", {"reason": "new fans", "deadline": ""})
    node, board = text(browser().get("/nodes/n1/")), text(browser().get("/"))
    assert (f"{verb.capitalize()} by admin: new fans" in node, f"{verb} by admin: new fans" in board) == (True, True)


def test_a_reason_that_is_too_long_is_told_and_nothing_changes():
    b.lab()
    html = drained(reason="x" * 121)
    assert (
        "Reason must be a text of 120 characters at most, without NUL; shorten or omit it; nothing was changed." in html
    )
    assert Node.objects.get().state == "READY"


def test_a_long_name_gives_way_to_the_reason():
    who = b.people()
    b.node("n1")
    pool.operate("n1", "cordon", replace(who["admin"], username="a" * 150), b.later(1), reason="r" * 120)
    assert Node.objects.get().why == f"cordon by {'a' * 68}: {'r' * 120}"
