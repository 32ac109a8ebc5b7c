"""Long waits without polling: one thread a process tails the events, and each waiting request is a coroutine."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.http import HttpResponse

from scheduling.api.at_work import resting
from scheduling.store.queries.changes import Tail, let_go

log = structlog.get_logger(__name__)
LISTEN_S = 1.0
# Bursts of changes (progress, logs) become at most five looks a second for each waiting request.
SETTLE_S = 0.2


class Ear:
    """One waiting request: set from the tailing thread when an object it listens for has changed."""

    def __init__(self, listens_for: Callable[[str, str], bool]) -> None:
        self.listens_for = listens_for
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()

    def tell(self) -> None:
        """Wake the request; called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._heard.set)
        except RuntimeError:  # its loop has ended, and with it the request
            return

    def forget(self) -> None:
        """What was told so far is known: the next wait is for what comes after."""
        self._heard.clear()

    async def wait(self, timeout_s: float) -> None:
        """Returns once told, or after ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), timeout_s)


class Switchboard:
    """The ears of this process and the thread that serves them, which lives only while somebody waits."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._ears: set[Ear] = set()
        self._ready: Future[None] | None = None

    async def join(self, ear: Ear) -> None:
        """From here on every committed change is told to the ear; doing it again does nothing but mend the thread."""
        with self._guard:
            self._ears.add(ear)
            if self._ready is None:
                self._ready = Future()
                threading.Thread(target=self._serve, args=(self._ready,), name="waiting", daemon=True).start()
            ready = self._ready
        await asyncio.shield(asyncio.wrap_future(ready))

    def leave(self, ear: Ear) -> None:
        """The ear is told nothing more."""
        with self._guard:
            self._ears.discard(ear)

    def _serve(self, ready: Future[None]) -> None:
        never = threading.Event()
        try:
            tail = Tail()
            ready.set_result(None)
            while not self._retired():
                changed = tail.next(LISTEN_S, never)
                for ear in self._now():
                    if any(ear.listens_for(what, key) for what, key in changed):
                        ear.tell()
        except DatabaseError as lost:
            log.warning("waiting requests look for themselves", reason=str(lost)[:200])
        finally:
            with self._guard:
                if self._ready is ready:
                    self._ready = None
            if not ready.done():
                ready.set_result(None)
            for ear in self._now():
                ear.tell()
            let_go()

    def _now(self) -> list[Ear]:
        with self._guard:
            return list(self._ears)

    def _retired(self) -> bool:
        """True when nobody waits any more: the next one to join starts a new thread."""
        with self._guard:
            if self._ears:
                return False
            self._ready = None
            return True


switchboard = Switchboard()


async def answer_when(
    ask: Callable[[], HttpResponse],
    enough: Callable[[Any], bool],
    *,
    listens_for: Callable[[str, str], bool],
    seconds: Callable[[], float],
) -> HttpResponse:
    """The answer of ``ask`` as soon as it is ``enough``, an error, or ``seconds`` have passed.

    ``ask`` runs in a thread, once at first and again after each change: rights are looked up anew each time.
    """
    answer = await sync_to_async(ask)()
    if answer.status_code != 200 or enough(answer.data):  # type: ignore[attr-defined]
        return answer
    patience = seconds()
    if patience <= 0:
        return answer
    clock = asyncio.get_running_loop().time
    deadline = clock() + patience
    ear = Ear(listens_for)
    try:
        while True:
            await switchboard.join(ear)
            ear.forget()
            looked = clock()
            answer = await sync_to_async(ask)()
            left = deadline - clock()
            if left <= 0 or answer.status_code != 200 or enough(answer.data):  # type: ignore[attr-defined]
                return answer
            await sync_to_async(let_go)()
            async with resting():
                await ear.wait(left)
                await asyncio.sleep(max(0.0, min(looked + SETTLE_S, deadline) - clock()))
    finally:
        switchboard.leave(ear)


def as_route(view: Callable[..., Awaitable[HttpResponse]], shows: type) -> Callable[..., Awaitable[HttpResponse]]:
    """An async view that stands for the DRF view ``shows``: it checks CSRF itself, and OpenAPI reads its class."""
    view.csrf_exempt = True  # type: ignore[attr-defined]
    view.cls = shows  # type: ignore[attr-defined]
    view.initkwargs = {}  # type: ignore[attr-defined]
    return view
