"""A web process works on so many requests at a time, of nodes and of people each, and refuses what finds no room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduling.api.at_work import AtWork, resting

NODES, PEOPLE = "/api/v1/nodes/heartbeat/", "/api/v1/jobs/"


class House:
    """An application whose requests end when they are let go, and what was sent to each."""

    def __init__(self, *, patience_s: float = 60.0) -> None:
        self.app = AtWork(self.serve, most=2, patience_s=patience_s)
        self.begun: list[str] = []
        self.ends = asyncio.Event()
        self.before: Callable[[Any], Awaitable[None]] | None = None

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.append(scope["path"])
        if self.before is not None:
            await self.before(send)
        await self.ends.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def ask(self, path: str = PEOPLE) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request"}

        await self.app({"type": "http", "path": path}, receive, send)
        return sent


async def settle() -> None:
    """Everything that can go on without time passing has."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_third_waits_until_one_of_two_is_done():
    async def story() -> None:
        house = House()
        asked = [asyncio.ensure_future(house.ask()) for _ in range(3)]
        await settle()
        assert len(house.begun) == 2
        house.ends.set()
        assert [sent[0]["status"] for sent in await asyncio.gather(*asked)] == [200, 200, 200]

    asyncio.run(story())


@pytest.mark.parametrize("path", [PEOPLE, NODES, "/jobs/"])
def test_one_that_finds_no_room_is_told_503_and_when_to_come_again(path):
    async def story() -> None:
        house = House(patience_s=0.01)
        asked = [asyncio.ensure_future(house.ask(path)) for _ in range(2)]
        await settle()
        start, body = await house.ask(path)
        assert (start["status"], dict(start["headers"])[b"Retry-After"]) == (503, b"2")
        if path.startswith("/api/"):
            assert json.loads(body["body"])["code"] == "busy"
        else:
            assert b"Too busy" in body["body"]
        house.ends.set()
        await asyncio.gather(*asked)
        assert (await house.ask(path))[0]["status"] == 200

    asyncio.run(story())


def test_nodes_are_answered_while_people_crowd_and_health_always():
    async def story() -> None:
        house = House()
        asked = [asyncio.ensure_future(house.ask(PEOPLE)) for _ in range(4)]
        asked += [asyncio.ensure_future(house.ask(path)) for path in (NODES, "/healthz", "/readyz", "/static/x.css")]
        await settle()
        assert sorted(house.begun) == sorted([PEOPLE, PEOPLE, NODES, "/healthz", "/readyz", "/static/x.css"])
        house.ends.set()
        await asyncio.gather(*asked)

    asyncio.run(story())


def test_one_that_waits_for_news_takes_no_room_and_has_to_find_it_again():
    async def story() -> None:
        house, news = House(), asyncio.Event()

        async def wait_first(send: Any) -> None:
            async with resting():
                await news.wait()

        house.before = wait_first
        waiting = [asyncio.ensure_future(house.ask()) for _ in range(5)]
        await settle()
        assert len(house.begun) == 5
        house.before = None
        working = [asyncio.ensure_future(house.ask()) for _ in range(2)]
        await settle()
        news.set()
        await settle()
        assert len(house.begun) == 7
        assert not any(task.done() for task in waiting)
        house.ends.set()
        assert {sent[0]["status"] for sent in await asyncio.gather(*waiting, *working)} == {200}

    asyncio.run(story())


def test_one_that_streams_takes_no_room_from_its_first_piece_on():
    async def story() -> None:
        house = House()

        async def stream(send: Any) -> None:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

        house.before = stream
        asked = [asyncio.ensure_future(house.ask()) for _ in range(5)]
        await settle()
        assert len(house.begun) == 5
        house.ends.set()
        await asyncio.gather(*asked)

    asyncio.run(story())


@pytest.mark.parametrize("end", ["fails", "is cancelled", "is cancelled at rest"])
def test_one_that_ends_badly_gives_its_room_back(end):
    async def story() -> None:
        house = House(patience_s=0.01)

        async def badly(send: Any) -> None:
            if end == "fails":
                raise RuntimeError("a bug")
            if end == "is cancelled at rest":
                async with resting():
                    await asyncio.Event().wait()
            await asyncio.Event().wait()

        house.before = badly
        asked = [asyncio.ensure_future(house.ask()) for _ in range(2)]
        await settle()
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        house.before = None
        house.ends.set()
        assert [(await house.ask())[0]["status"] for _ in range(3)] == [200, 200, 200]

    asyncio.run(story())
