"""One socket: who it is, what it asked for, and what it is sent. Snapshot first, then changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from scheduling.feed import messages as m
from scheduling.feed import snapshots
from scheduling.feed.tail import READY_S, TAILER, Batch, Mailbox
from scheduling.store.queries.access import Actor, actor_by_id

ANONYMOUS = 4401
NO_LONGER = 4403
TOO_MUCH = 4408
RECHECK_S = 30.0
# A reader that acknowledges may be that many batches behind; then it is sent a snapshot once it has caught up.
WINDOW = 8


class _Unheard(Exception):
    """What was said does not reach the page any more."""


class FeedConsumer(AsyncWebsocketConsumer):
    """``/ws/feed/?since=<seq>`` of one signed-in person. The origin is checked before it gets here."""

    actor: Actor
    recheck_s = RECHECK_S

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The socket from its opening to its end: of what hears the page and what tells it, neither goes on without
        the other, and nothing is left behind, however it ends."""
        self.mailbox = Mailbox(asyncio.get_running_loop())
        self.pump: asyncio.Task[None] | None = None

        async def say(message: Any) -> None:
            try:
                await send(message)
            except Exception as lost:
                raise _Unheard from lost

        try:
            async with asyncio.TaskGroup() as self.tasks:
                await super().__call__(scope, receive, say)
                if self.pump is not None:
                    self.pump.cancel()
        except* _Unheard:  # the page has left while it was being told
            pass
        finally:
            TAILER.leave(self.mailbox)

    async def connect(self) -> None:
        """The socket is open, or closed with 4401 when nobody is signed in."""
        user = self.scope.get("user")
        actor = await self._who(user.pk) if user is not None and user.is_authenticated else None
        if actor is None:
            await self.close(code=ANONYMOUS)
            return
        self.actor, self.checked_at = actor, time.monotonic()
        self.since = _whole(parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("since", ["0"])[0])
        self.seq = 0
        self.wanted = m.Subscription()
        self.unacked: deque[int] | None = None
        self.behind = False
        self.spoke: deque[float] = deque(maxlen=m.MAX_A_SECOND)
        await self.accept()
        await asyncio.to_thread(TAILER.join(self.mailbox).wait, READY_S)
        self.pump = self.tasks.create_task(self._pump())

    async def _shut(self, code: int) -> None:
        """The socket closes from this side, and nothing more is read for it."""
        TAILER.leave(self.mailbox)
        await self.close(code=code)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The subscription is changed, or an error frame says what was not understood."""
        if text_data is None or len(text_data.encode()) > m.MAX_BYTES:
            await self._say(m.error(m.Wrong("too_large", f"send text of at most {m.MAX_BYTES} bytes"), self.seq))
            await self._shut(TOO_MUCH)
            return
        moment = time.monotonic()
        if len(self.spoke) == m.MAX_A_SECOND and moment - self.spoke[0] < 1:
            await self._say(m.error(m.Wrong("too_often", f"send at most {m.MAX_A_SECOND} messages a second"), self.seq))
            await self._shut(TOO_MUCH)
            return
        self.spoke.append(moment)
        try:
            said = m.understand(json.loads(text_data))
        except ValueError:
            said = m.Wrong("not_json", "send JSON")
        if isinstance(said, m.Wrong):
            await self._say(m.error(said, self.seq))
        elif isinstance(said, m.Ack):
            await self._acknowledged(said.seq)
        else:
            self.wanted = said
            self.mailbox.wants_jobs, self.mailbox.wanted_job = said.jobs, said.job
            await self._refresh(since=self.since)
            self.since = 0

    async def _acknowledged(self, seq: int) -> None:
        self.unacked = deque(s for s in self.unacked or () if s > seq)
        if self.behind and len(self.unacked) < WINDOW:
            self.behind = False
            await self._refresh()

    async def _refresh(self, since: int = 0) -> None:
        """What is subscribed is sent as it is now; with ``since`` only what has changed after that event."""
        kind, taken = await database_sync_to_async(snapshots.take)(self.actor, self.wanted, since)
        self.seq = max(self.seq, taken.seq)
        frames = [m.frame(kind, item, self.seq) for item in taken.items]
        if (
            self.wanted.job
            and not any(i.object == "job" and i.id == self.wanted.job for i in taken.items)
            and not taken.job_known
        ):
            frames.append(m.gone("job", self.wanted.job, self.seq))
        await self._send(frames)

    async def _pump(self) -> None:
        """Batches become frames until the socket closes or its person may no longer look."""
        while True:
            batch = await self.mailbox.take(self.recheck_s)
            if not await self._still_allowed():
                return
            if self.mailbox.overflowed:
                self.mailbox.overflowed = False
                await self._refresh()
            elif batch is not None and self.unacked is not None and len(self.unacked) >= WINDOW:
                self.behind = True
            elif batch is not None and batch.stale:
                await self._say(m.stale(self.seq))
            elif batch is not None:
                await self._tell(batch)

    async def _tell(self, batch: Batch) -> None:
        self.seq = max(self.seq, batch.seq)
        kept = [i for item in batch.items if self._subscribed(item) and (i := snapshots.shown_to(self.actor, item))]
        frames = [m.frame("change", item, self.seq) for item in kept]
        if self.wanted.board:
            frames += [m.gone("gpu", uuid, self.seq) for uuid in batch.removed]
        await self._send(frames)

    def _subscribed(self, item: m.Item) -> bool:
        if item.object == "job":
            return self.wanted.jobs or item.id == self.wanted.job
        # Everybody hears the tick: it is what tells a quiet socket from a lost one. A job's page tells of windows, too.
        heard = item.object == "tick" or (item.object == "windows" and self.wanted.job is not None)
        return self.wanted.board or (heard and self.wanted != m.Subscription())

    async def _send(self, frames: list[dict[str, Any]]) -> None:
        if frames and self.unacked is not None:
            self.unacked.append(self.seq)
        for frame in frames:
            await self._say(frame)

    async def _say(self, frame: dict[str, Any]) -> None:
        await self.send(text_data=m.encode(frame))

    async def _still_allowed(self) -> bool:
        """Rights are read again now and then: who was shut out is closed, who lost a project loses its job."""
        if time.monotonic() - self.checked_at < self.recheck_s:
            return True
        actor = await self._who(self.actor.user_id)
        if actor is None:
            await self._shut(NO_LONGER)
            return False
        lost = set(self.actor.projects) - set(actor.projects)
        self.actor, self.checked_at = actor, time.monotonic()
        if lost:
            await self._refresh()
        return True

    async def _who(self, user_id: int) -> Actor | None:
        """The person, while active and still signed in."""
        session = self.scope.get("session")
        key = session.session_key if session is not None else None
        if key is not None and not await database_sync_to_async(session.exists)(key):
            return None
        found: Actor | None = await database_sync_to_async(actor_by_id)(user_id)
        return found


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
