"""A node falls silent, and its lease passes, without an event: pages hear of it all the same."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.feed import snapshots
from scheduling.feed.messages import Subscription
from scheduling.feed.tail import Cursor
from scheduling.models import NodeLive
from scheduling.store.queries import events
from tests import builders as b

pytestmark = pytest.mark.django_db


def told(cursor: Cursor, seconds: float, *jobs: str, all_jobs: bool = False) -> dict[tuple[str, str], dict]:
    batch = cursor.advance(jobs, all_jobs=all_jobs, moment=b.later(seconds))
    return {(item.object, item.id): item.data for item in batch.items} if batch else {}


def test_the_board_hears_of_a_node_that_falls_silent_and_of_its_return():
    b.lab()
    b.listening(100)
    cursor = Cursor(b.later(20))
    assert told(cursor, 29) == {}
    quiet = told(cursor, 30)
    assert (quiet["node", "n1"]["standing"], quiet["gpu", "GPU-n1-0"]["node_standing"]) == ("SILENT", "SILENT")
    assert "1 node not in service (n1)" in quiet["tick", "scheduler"]["headline"]
    assert told(cursor, 31) == {}
    NodeLive.objects.update(last_heartbeat_at=b.later(32))
    back = told(cursor, 33)
    assert (back["node", "n1"]["standing"], back["gpu", "GPU-n1-0"]["node_standing"]) == ("READY", "READY")
    assert "not in service" not in back["tick", "scheduler"]["headline"]


@pytest.mark.parametrize("all_jobs", [False, True])
def test_the_page_and_the_list_of_jobs_hear_that_a_node_of_a_job_fell_silent(all_jobs):
    _, run = b.busy_lab()
    b.listening(100)
    cursor = Cursor(b.later(20))
    watched = () if all_jobs else (run.job,)
    quiet = told(cursor, 30, *watched, all_jobs=all_jobs)
    assert [r["code"] for r in quiet["job", run.job]["reasons"]] == ["UNHEARD"]
    NodeLive.objects.update(last_heartbeat_at=b.later(32))
    assert told(cursor, 33, *watched, all_jobs=all_jobs)["job", run.job]["reasons"] == []


def test_a_page_that_comes_back_hears_of_what_fell_silent_meanwhile(monkeypatch):
    who = b.lab().who
    b.node("n2")
    b.listening(100)
    NodeLive.objects.filter(node__name="n2").update(last_heartbeat_at=b.later(35))
    monkeypatch.setattr(snapshots, "now", lambda: b.later(40))
    kind, taken = snapshots.take(who["alice"], Subscription(board=True), events.newest())
    stands = {item.id: item.data["standing"] for item in taken.items if item.object == "node"}
    assert (kind, stands["n1"]) == ("change", "SILENT")


def asked(nodes: int) -> int:
    """How many questions a look asks in which so many nodes fall silent."""
    for i in range(1, nodes + 1):
        b.node(f"n{i}")
    b.listening(100)
    cursor = Cursor(b.later(20))
    with CaptureQueriesContext(connection) as queries:
        quiet = told(cursor, 30)
    assert sum(data.get("standing") == "SILENT" for data in quiet.values()) == nodes
    return len(queries)


def test_a_look_asks_as_often_when_many_nodes_fall_silent_as_when_one_does():
    b.people()
    assert asked(1) == asked(6)
