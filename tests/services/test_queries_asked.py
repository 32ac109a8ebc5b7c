"""What goes on all the time asks the database little: a tick in which nothing has changed, a heartbeat without news."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.services import tick
from tests import builders as b

pytestmark = pytest.mark.django_db


def test_a_quiet_tick_asks_few_questions():
    b.full_lab()
    ticker = tick.Ticker()
    tick.run_tick("test", b.later(1), ticker)
    tick.run_tick("test", b.later(2), ticker)
    with CaptureQueriesContext(connection) as asked:
        assert tick.run_tick("test", b.later(3), ticker).led
    assert len(asked) <= 29, [each["sql"][:90] for each in asked.captured_queries]


@pytest.mark.parametrize(("sampled", "most"), [(False, 3), (True, 6)])
def test_a_heartbeat_without_news_asks_few_questions(sampled, most):
    gpus = b.full_lab()[1].gpus
    said = {"gpus": [{"uuid": uuid, "utilization": 0.5, "temperature_c": 50.0} for uuid in gpus] if sampled else None}
    b.beat(now=b.later(1), **said)
    with CaptureQueriesContext(connection) as asked:
        b.beat(now=b.later(2), **said)
    assert len(asked) <= most, [each["sql"][:90] for each in asked.captured_queries]
