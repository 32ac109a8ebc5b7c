"""However a socket ends, nobody listens on for it, and what tells the page and what hears it end together."""

from __future__ import annotations

import asyncio

import pytest
from django.db import DatabaseError

from scheduling.feed import consumers, snapshots, tail
from tests.feed.socket import PATIENCE_S, Socket, do, of, person, socket, world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("nobody_listens_on")]


class Gone(Exception):
    """What a web server raises when it is to send to a browser that has left."""


class Wire:
    """A connection whose browser leaves with the ``leaves``-th thing it is told, before the server hears of it."""

    def __init__(self, leaves: int) -> None:
        self.said = asyncio.Queue()
        self.told = 0
        self.leaves = leaves

    async def send(self, message):
        """The server sends."""
        self.told += 1
        if self.told >= self.leaves:
            raise Gone(message["type"])

    async def run(self, user):
        """The socket from its opening to its end, which nobody tells it."""
        self.said.put_nowait({"type": "websocket.connect"})
        self.said.put_nowait({"type": "websocket.receive", "text": '{"subscribe": {"board": true}}'})
        app, scope = consumers.FeedConsumer.as_asgi(), {"type": "websocket", "query_string": b"", "user": user}
        async with asyncio.timeout(PATIENCE_S):
            await app(scope, self.said.get, self.send)


@pytest.mark.parametrize("leaves", [2, 5])
async def test_a_page_that_leaves_while_it_is_sent_its_snapshot_leaves_nothing_behind(leaves):
    await world()
    await Wire(leaves).run(await person("alice"))
    assert tail.TAILER.listeners() == []


async def test_a_page_that_leaves_while_it_is_told_a_change_leaves_nothing_behind(monkeypatch):
    await world()
    monkeypatch.setattr(tail, "KEEPALIVE_S", 0.0)  # the thread has something to tell at every look
    whole = await do(lambda: len(snapshots.board(tail.now())))()
    await Wire(whole + 2).run(await person("alice"))
    assert tail.TAILER.listeners() == []


async def test_a_browser_that_leaves_while_it_is_let_in_leaves_nothing_behind():
    await world()
    await Wire(1).run(await person("alice"))
    assert tail.TAILER.listeners() == []


async def test_a_database_that_fails_the_snapshot_ends_the_socket_and_its_listening(monkeypatch):
    await world()
    s = await socket()
    monkeypatch.setattr(snapshots, "take", _gone)
    await s.say({"subscribe": {"board": True}})
    await _ended_by_the_database(s)
    assert tail.TAILER.listeners() == []


async def test_a_database_that_fails_while_rights_are_read_again_ends_the_socket_whole(monkeypatch):
    await world()
    s = await socket()
    await s.say({"subscribe": {"board": True}})
    await s.until(of("snapshot", "tick"))
    monkeypatch.setattr(consumers.FeedConsumer, "recheck_s", 0.0)
    monkeypatch.setattr(consumers, "actor_by_id", _gone)
    await _ended_by_the_database(s)
    assert tail.TAILER.listeners() == []


def _gone(*args, **kw):
    raise DatabaseError("gone")


async def _ended_by_the_database(s: Socket):
    """The web server is told what went wrong, and closes the connection for it."""
    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.timeout(PATIENCE_S):
            await s.wire.future
    assert ended.group_contains(DatabaseError)
