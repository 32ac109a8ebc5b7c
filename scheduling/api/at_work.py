"""How many requests are worked on at a time: each has a thread and a database connection, and neither is without end.

Nodes and people have a lane each, so that a crowd of one keeps nobody of the other from being answered. Who finds no
room within two seconds is told 503 with ``Retry-After``: to an agent that is a server that is away, and its jobs go on
(D33). A request that waits for news or streams a file takes no room meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string

from scheduling.api.problems import RETRY_AFTER_S, Problem, document

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

PATIENCE_S = 2.0
OF_NODES = ("/api/v1/nodes/", "/api/v1/attempts/")
# Signs of life are for whoever asks whether the server is overloaded; static files take no thread.
ALWAYS = ("/healthz", "/readyz", "/static/")


class Room:
    """A request's place in its lane. It is given back once, however often that is said."""

    def __init__(self, lane: asyncio.Semaphore) -> None:
        self._lane = lane
        self._taken = True

    def give_back(self) -> None:
        """The place is free for another."""
        if self._taken:
            self._taken = False
            self._lane.release()

    async def take_again(self) -> None:
        """Wait, as long as it takes, until there is a place again."""
        await self._lane.acquire()
        self._taken = True


_room: ContextVar[Room | None] = ContextVar("room", default=None)


@contextlib.asynccontextmanager
async def resting() -> AsyncIterator[None]:
    """Within it the request of this coroutine only waits, and has no place; outside of a server it does nothing."""
    room = _room.get()
    if room is None:
        yield
        return
    room.give_back()
    yield
    await room.take_again()


class AtWork:
    """The application ``app`` behind two lanes of ``most`` requests each."""

    def __init__(self, app: App, *, most: int, patience_s: float = PATIENCE_S) -> None:
        self.app = app
        self.patience_s = patience_s
        self.nodes, self.people = asyncio.Semaphore(most), asyncio.Semaphore(most)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer the request when its turn comes, or refuse it."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or path.startswith(ALWAYS):
            await self.app(scope, receive, send)
            return
        lane = self.nodes if path.startswith(OF_NODES) else self.people
        try:
            await asyncio.wait_for(lane.acquire(), self.patience_s)
        except TimeoutError:
            await _refuse(path, send)
            return
        room = Room(lane)
        token = _room.set(room)

        async def sent(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.body" and message.get("more_body", False):
                room.give_back()
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            _room.reset(token)
            room.give_back()


async def _refuse(path: str, send: Send) -> None:
    words = "the server has as many requests at work as it takes; nothing was done, try again in a moment"
    headers = {"Retry-After": str(RETRY_AFTER_S), "Cache-Control": "no-store"}
    if path.startswith("/api/"):
        answer = document(Problem(503, "busy", words, headers=headers))
    else:
        answer = HttpResponse(render_to_string("503.html"), status=503, headers=headers)
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": 503, "headers": pairs})
    await send({"type": "http.response.body", "body": answer.content})
