"""A socket as a browser has it: signed in, speaking JSON, reading until it hears what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from scheduling.feed.consumers import FeedConsumer
from tests import builders as b

# Long enough for a loaded machine: a test that passes never waits that long.
PATIENCE_S = 15.0


@database_sync_to_async
def world(**kw: Any) -> SimpleNamespace:
    """People, node n1, and two models of alpha."""
    if not kw:
        lab = b.lab()
        return SimpleNamespace(**lab.who, models=lab.models)
    who = b.people()
    b.node("n1", **kw)
    alice = who["alice"]
    return SimpleNamespace(**who, models=[b.model(alice, "a", 1), b.model(alice, "b", 2)])


do = database_sync_to_async


class Socket:
    """One connection to the feed."""

    def __init__(self, user: Any, since: int = 0) -> None:
        self.wire = WebsocketCommunicator(FeedConsumer.as_asgi(), f"/ws/feed/?since={since}")
        self.wire.scope["user"] = user
        self.frames: list[dict[str, Any]] = []

    async def open(self) -> tuple[bool, int | None]:
        """(accepted, close code)."""
        return await self.wire.connect(timeout=PATIENCE_S)

    async def say(self, content: Any) -> None:
        """The content is sent as JSON."""
        await self.wire.send_json_to(content)

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first frame that is wanted; all that came are kept in ``frames``."""
        async with asyncio.timeout(4 * PATIENCE_S):
            while True:
                frame = await self.wire.receive_json_from(timeout=PATIENCE_S)
                self.frames.append(frame)
                if wanted(frame):
                    return frame

    async def heard(self) -> None:
        """The other side has done with everything that was said so far: it answers in order."""
        await self.say({"nonsense": 1})
        await self.until(lambda f: f["type"] == "error")

    async def close(self) -> None:
        """The connection is closed from this side."""
        await self.wire.disconnect(timeout=PATIENCE_S)


async def socket(name: str | None = "alice", since: int = 0) -> Socket:
    """An open socket of that person."""
    made = Socket(await person(name), since)
    accepted, _ = await made.open()
    assert accepted
    return made


@database_sync_to_async
def person(name: str | None) -> Any:
    """The person's row, or nobody."""
    return get_user_model().objects.get(username=name) if name else AnonymousUser()


def of(kind: str, obj: str, **data: Any) -> Callable[[dict[str, Any]], bool]:
    """True for a frame of that type and object whose data have those values."""
    return lambda f: (
        (f["type"], f.get("object")) == (kind, obj) and all((f["data"] or {}).get(k) == v for k, v in data.items())
    )
