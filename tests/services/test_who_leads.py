"""Who leads is in the log of every scheduler: when it takes over, when it stands by, and when it has lost the lead."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from scheduling.services import watch
from scheduling.services.tick import TickResult
from scheduling.store import lease
from tests import builders as b
from tests.services.test_database_away import NeverWoken
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def test_a_scheduler_says_once_that_it_stands_by_leads_and_has_lost_the_lead_and_to_whom(monkeypatch):
    stop = threading.Event()
    turns = iter(
        [("a", 0, False), ("a", 5, False), ("me", 20, True), ("me", 25, True), ("b", 50, False), ("b", 55, False)]
    )

    def tick(holder, moment, ticker):
        who, second, leads = next(turns)
        lease.acquire(who, b.later(second), ttl_s=10)
        if second == 55:
            stop.set()
        return TickResult(led=leads)

    monkeypatch.setattr(watch, "Waiter", NeverWoken)
    monkeypatch.setattr(watch.tick, "run_tick", tick)
    with capture_logs() as logs:
        watch.run_scheduler("me", stop, period_s=0.001)
    assert logs == [
        {"event": "another leads", "log_level": "info", "holder": "me", "leader": "a", "epoch": 1},
        {"event": "leads now", "log_level": "info", "holder": "me", "epoch": 2, "before": "a"},
        {"event": "lost the lead", "log_level": "warning", "holder": "me", "leader": "b", "epoch": 3},
    ]


@pytest.mark.parametrize("steps_down", [False, True])
def test_the_board_says_who_leads_where_it_tells_of_the_last_pass(steps_down):
    b.lab()
    b.ticked()
    who, _ = lease.leader()
    if steps_down:
        lease.release(who)
    leader = "nobody" if steps_down else who
    assert f'<span data-hook="leader">{leader}</span> leads.' in text(browser().get("/"))
