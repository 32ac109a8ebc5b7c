"""One thread per web process follows the event table and hands every listener what has changed."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import DatabaseError, connection

from scheduling.feed import snapshots
from scheduling.feed.messages import Item
from scheduling.store.clock import now
from scheduling.store.queries import live, pool, windows
from scheduling.store.queries.silence import silences
from scheduling.store.wake import Waiter

log = structlog.get_logger(__name__)
FLOOR_S = 1.0
# At most four batches a second, however much happens.
PACE_S = 0.25
# A sample is stamped before it is committed: look that far back, differences tell what is news.
LATE_SAMPLE_S = 2.0
READY_S = 5.0
# A page that hears nothing for longer than this knows that its socket is lost.
KEEPALIVE_S = 10.0
MAILBOX = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """What changed up to event ``seq``. ``removed``: GPUs that left the pool; ``stale``: the database can't be read."""

    seq: int
    items: tuple[Item, ...]
    removed: tuple[str, ...] = ()
    stale: bool = False


class Mailbox:
    """Between the thread and one socket. Bounded: who does not empty it loses the batches and takes a snapshot."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int = MAILBOX) -> None:
        self.loop = loop
        self.wanted_job: str | None = None
        self.wants_jobs = False
        self.overflowed = False
        self._batches: deque[Batch] = deque()
        self._limit = limit
        self._filled = asyncio.Event()

    def offer(self, batch: Batch) -> None:
        """The batch will be read, or, when too many wait already, all give way to a snapshot."""
        if len(self._batches) >= self._limit:
            self.start_over()
        else:
            self._batches.append(batch)
            self._filled.set()

    def start_over(self) -> None:
        """Whatever waits here gives way to a snapshot."""
        self._batches.clear()
        self.overflowed = True
        self._filled.set()

    def put(self, batch: Batch) -> None:
        """:meth:`offer` from another thread."""
        self._from_outside(self.offer, batch)

    def put_over(self) -> None:
        """:meth:`start_over` from another thread."""
        self._from_outside(self.start_over)

    def _from_outside(self, act: Callable[..., None], *args: Batch) -> None:
        try:
            self.loop.call_soon_threadsafe(act, *args)
        except RuntimeError:  # the loop has ended, and with it the socket
            return

    async def take(self, timeout_s: float) -> Batch | None:
        """The oldest batch; None after ``timeout_s``, or when the mailbox has overflowed since."""
        if not self._batches and not self.overflowed:
            self._filled.clear()
            try:
                await asyncio.wait_for(self._filled.wait(), timeout_s)
            except TimeoutError:
                return None
        return self._batches.popleft() if self._batches else None


class Tailer:
    """Runs while somebody listens. Knows the board as it last told it, so that only differences are told."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._mailboxes: set[Mailbox] = set()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._reading = threading.Event()

    def join(self, mailbox: Mailbox) -> threading.Event:
        """The mailbox gets every batch from when the returned event is set: what is read after that misses nothing."""
        with self._guard:
            self._mailboxes.add(mailbox)
            if self._thread is None:
                self._stop, self._reading = threading.Event(), threading.Event()
                parts = (self, self._stop, self._reading)
                self._thread = threading.Thread(target=_follow, args=parts, name="feed", daemon=True)
                self._thread.start()
            return self._reading

    def leave(self, mailbox: Mailbox) -> None:
        """The mailbox gets nothing more; the thread ends with its last listener."""
        with self._guard:
            self._mailboxes.discard(mailbox)
            if not self._mailboxes and self._thread is not None:
                self._stop.set()
                self._thread = None

    def listeners(self) -> list[Mailbox]:
        """Those who listen now."""
        with self._guard:
            return list(self._mailboxes)


class Cursor:
    """How far the event table was read, and the board and the watched jobs as they were then."""

    def __init__(self, moment: datetime) -> None:
        self._reader = live.Reader()
        self._sampled = self._spoke = moment
        self._ticks = live.ticks()
        self._silent = frozenset(silences(moment))
        self._nodes = {n["name"]: n for n in pool.pool(at=moment)}
        self._windows = windows.fingerprint(moment)
        self._told: dict[snapshots.Key, Any] = {}
        self._differing(self._board_items(moment))

    def advance(self, watched: Collection[str], *, all_jobs: bool, moment: datetime) -> Batch | None:
        """What has changed since the last call; None when nothing has."""
        changes = self._reader.take()
        sampled = set(pool.sampled_after(self._sampled - timedelta(seconds=LATE_SAMPLE_S)))
        self._sampled = moment
        ticks = live.ticks()
        ticked, self._ticks = ticks != self._ticks, ticks
        silent = frozenset(silences(moment))
        moved, self._silent = silent ^ self._silent, silent  # by the mere passing of time, so without an event
        due = moment - self._spoke >= timedelta(seconds=KEEPALIVE_S)
        if not (changes or sampled or ticked or moved or due):
            return None
        self._spoke = moment
        jobs, names = snapshots.touched(changes, self._nodes)
        jobs, names = jobs | snapshots.at_work_on(moved, self._nodes), names | moved
        before, self._windows = self._windows, windows.fingerprint(moment)
        if self._windows != before:  # none of its nodes need have an event of its own, least of all when one begins
            names |= set(self._nodes)
        removed = self._reread(names | sampled, moment)
        wanted = jobs if all_jobs else jobs & set(watched)
        # A tick changes why a job waits without an event of that job.
        items = snapshots.job_items(wanted | (set(watched) if ticked else set()), moment)
        items = [i for i in items if i.id in wanted or self._told.get((i.object, i.id)) != _essence(i)]
        self._told |= {(i.object, i.id): _essence(i) for i in items if i.id in watched}
        every = self._board_items(moment)
        told = [*items, *self._differing(every)]
        if due and every[-1] not in told:
            told.append(every[-1])  # the tick: its age is news even when there was none
        return Batch(self._reader.seq, tuple(told), removed)

    def _reread(self, names: Collection[str], moment: datetime) -> tuple[str, ...]:
        fresh = {n["name"]: n for n in live.nodes(names, moment)} if names else {}
        before = {g["uuid"] for n in fresh for g in self._nodes.get(n, {"gpus": []})["gpus"]}
        self._nodes |= fresh
        return tuple(before - {g["uuid"] for n in fresh.values() for g in n["gpus"]})

    def _board_items(self, moment: datetime) -> list[Item]:
        nodes = list(self._nodes.values())
        return [*snapshots.node_items(nodes, moment), *snapshots.head_items(nodes, self._windows, moment)]

    def _differing(self, items: list[Item]) -> list[Item]:
        """Those of the items that are not as they were last told; from now on they count as told."""
        new = [i for i in items if self._told.get((i.object, i.id)) != _essence(i)]
        self._told |= {(i.object, i.id): _essence(i) for i in new}
        return new


def _essence(item: Item) -> Any:
    """The item without what changes by the mere passing of time."""
    data = dict(item.data)
    if item.object == "queue":
        data["levels"] = [{k: v for k, v in level.items() if k != "oldest_wait_s"} for level in data["levels"]]
    for passing in ("age_s", "gpu_hours"):
        data.pop(passing, None)
    return data


def _follow(tailer: Tailer, stop: threading.Event, reading: threading.Event) -> None:
    cursor: Cursor | None = None
    waiter: Waiter | None = None
    try:
        while not stop.is_set():
            try:
                waiter = waiter or Waiter()
                if cursor is None:
                    cursor = Cursor(now())
                    if reading.is_set():  # what came while the database could not be read is told by a snapshot
                        _each(tailer, Mailbox.put_over)
                    reading.set()
                batch = _look(tailer, cursor)
                if batch is not None:
                    _each(tailer, Mailbox.put, batch)
                    stop.wait(PACE_S)
                waiter.wait(FLOOR_S, stop)
            except DatabaseError as lost:
                log.warning("feed can't read", reason=str(lost)[:200])
                cursor = waiter = None
                connection.close()
                _each(tailer, Mailbox.put, Batch(0, (), stale=True))
                stop.wait(FLOOR_S)
    finally:
        connection.close()


def _each(tailer: Tailer, act: Callable[..., None], *args: Batch) -> None:
    for mailbox in tailer.listeners():
        act(mailbox, *args)


def _look(tailer: Tailer, cursor: Cursor) -> Batch | None:
    listeners = tailer.listeners()
    watched = {m.wanted_job for m in listeners if m.wanted_job}
    return cursor.advance(watched, all_jobs=any(m.wants_jobs for m in listeners), moment=now())


TAILER = Tailer()
