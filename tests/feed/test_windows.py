"""Pages hear of windows by the feed: when one comes, goes, is changed, or begins."""

from __future__ import annotations

import pytest

from scheduling.feed import snapshots
from scheduling.feed.consumers import FeedConsumer
from scheduling.feed.messages import Item, Subscription
from scheduling.feed.tail import Cursor
from scheduling.models import Node, Window
from scheduling.store.commit import windows as commit
from scheduling.store.queries import windows
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def closed(start: float = 3600, end: float = 7200) -> Window:
    """A window over node n1."""
    b.people()
    b.node("n1")
    window = Window.objects.create(name="fans", start=b.later(start), end=b.later(end), created_at=b.NOON)
    window.nodes.set(Node.objects.all())
    return window


def told(cursor: Cursor, seconds: float) -> list[str]:
    """What the feed says of windows at that time."""
    batch = cursor.advance((), all_jobs=False, moment=b.later(seconds))
    return [item.data["are"] for item in batch.items if item.object == "windows"] if batch else []


def test_the_feed_tells_when_a_window_comes_and_when_it_goes_and_nothing_between():
    who = b.people()
    b.node("n1")
    cursor = Cursor(b.NOON)
    window = commit.add("fans", ["n1"], b.later(3600), end=b.later(7200), project=None, note="", now=b.NOON,
                        user_id=who["admin"].user_id, actor="user admin")  # fmt: skip
    came = told(cursor, 1)
    still = told(cursor, 12)
    commit.remove(window, now=b.later(13), actor="user admin")
    gone = told(cursor, 14)
    assert (len(came), still, len(gone)) == (1, [], 1)
    assert came != gone


def of_the_board(cursor: Cursor, seconds: float) -> dict[str, object]:
    """What the feed says at that time of how n1 stands, and the headline; nothing of what has not changed."""
    batch = cursor.advance((), all_jobs=False, moment=b.later(seconds))
    items = batch.items if batch else ()
    return {
        item.object: item.data["standing" if item.object == "node" else "headline"].split(", the scheduler")[0]
        for item in items
        if item.object in ("node", "tick")
    }


def test_the_board_and_its_headline_change_when_a_window_opens_and_when_it_closes():
    closed(start=3600, end=7200)
    cursor = Cursor(b.NOON)
    opened, shut = of_the_board(cursor, 3601), of_the_board(cursor, 7201)
    busy = "0 of 4 GPUs busy, 0 jobs waiting"
    assert opened == {"node": "CLOSED", "tick": f"{busy}, 1 node not in service (n1)"}
    assert shut == {"node": "READY", "tick": busy}


@pytest.mark.parametrize("change", [{"note": "longer"}, {"name": "hall"}, {"end": b.later(9000)}])
def test_a_changed_window_is_another(change):
    window = closed()
    before = windows.fingerprint(b.NOON)
    Window.objects.filter(pk=window.pk).update(**change)
    assert windows.fingerprint(b.NOON) != before


@pytest.mark.parametrize(("seconds", "same"), [(10, True), (3600, False), (7200, False)])
def test_one_that_begins_or_ends_is_another(seconds, same):
    closed()
    assert (windows.fingerprint(b.later(seconds)) == windows.fingerprint(b.NOON)) is same


def test_the_feed_names_no_window_and_no_project():
    closed()
    (item,) = [each for each in snapshots.board(b.NOON) if each.object == "windows"]
    assert set(item.data) == {"are"}
    assert "fans" not in str(item.data)


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [(Subscription(board=True), True), (Subscription(job="x"), True), (Subscription(jobs=True), False),
     (Subscription(), False)],
)  # fmt: skip
def test_the_board_and_a_jobs_page_hear_of_windows(wanted, heard):
    socket = FeedConsumer()
    socket.wanted = wanted
    assert socket._subscribed(Item("windows", "pool", 1, {"are": "x"})) is heard


@pytest.mark.parametrize("path", ["/", "/nodes/n1/"])
def test_a_page_says_which_windows_it_was_made_with(path, monkeypatch):
    closed()
    for where in ("board", "nodes"):
        monkeypatch.setattr(f"scheduling.web.{where}.now", lambda: b.NOON)
    assert f'<div id="windows" data-are="{windows.fingerprint(b.NOON)}">' in text(browser().get(path))


def test_a_jobs_page_says_which_windows_it_was_made_with(monkeypatch):
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    monkeypatch.setattr("scheduling.web.job.now", lambda: b.NOON)
    assert f'data-windows="{windows.fingerprint(b.NOON)}"' in text(browser().get(f"/jobs/{job}/"))
