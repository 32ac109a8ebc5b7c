"""What is new in the files of the attempts on this node: births, ends, events, logs, and how much disk they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.declared import facts_at_end
from workers.agent.disk import keep_ends
from workers.agent.disk_share import taken
from workers.agent.phase import ALIVE, Phase
from workers.agent.processes import Processes
from workers.agent.statedir import Ref, StateDir
from workers.agent.tail import EVENTS_BYTES, EventsTail, LogTail

LOG_CAP = 2**20
# So much more of the job's time than a measurement of its disk took passes before the next.
REST = 10.0
Measure = Callable[[Callable[[], None]], None]


@dataclass(slots=True)
class Tails:
    """What is being read of one attempt's files. ``measure_at``: when its disk is looked at next (boot clock)."""

    events: EventsTail
    log: LogTail
    read_at: float = float("-inf")
    measure_at: float = float("-inf")
    measuring: bool = False


class Lookout:
    """Watches the attempts in ``state``. ``disk_bytes`` is what one may take; ``clock`` the boot-time clock.

    ``later(work)`` runs what may take long beside the caller, ``post(event)`` takes what it finds.
    """

    def __init__(
        self, state: StateDir, processes: Processes, *, disk_bytes: int, clock: Callable[[], float],
        later: Measure, post: Callable[[m.Event], None],
    ) -> None:  # fmt: skip
        self.state = state
        self.processes = processes
        self.disk_bytes = disk_bytes
        self.clock = clock
        self.later = later
        self.post = post
        self.tails: dict[Ref, Tails] = {}

    def news(self, held: Held, now: float, *, every_s: float) -> Iterator[m.Event]:
        """What there is to tell of one attempt; its files are read at most every ``every_s`` while it runs.

        The caller tells the machine each event before it asks for the next, which may depend on it.
        """
        if held.phase is Phase.STARTING and (born := self.processes.born(held.ref)) is not None:
            yield m.Born(held.ref, *born)
        if held.phase in ALIVE and (end := self.processes.ended(held.ref)) is not None:
            stop = self.processes.stop_asked(held.ref)
            offset = stop.events_offset if stop is not None else None
            facts = facts_at_end(self.state.of(held.ref), held.launch, end=end, stop_offset=offset)
            yield m.Exited(held.ref, end, facts)
        if held.phase in (Phase.RUNNING, Phase.PUBLISHING, Phase.FINISHED) and not held.log_done:
            yield from self._files(held, now, every_s)

    def acknowledged(self, ref: Ref, upto: int | None) -> None:
        """The server holds the log up to ``upto`` bytes; None: it wants no more of it."""
        tails = self.tails.get(ref)
        if tails is not None and upto is not None:
            tails.log.acknowledge(upto)
        elif tails is not None:
            tails.log.refuse()

    def forget(self, ref: Ref) -> None:
        """Nothing of this attempt is read any more."""
        self.tails.pop(ref, None)

    def _files(self, held: Held, now: float, every_s: float) -> Iterator[m.Event]:
        final = held.phase is not Phase.RUNNING
        tails = self.tails.get(held.ref)
        directory = self.state.of(held.ref)
        if tails is None:
            cap = int(held.launch.get("log_bytes") or LOG_CAP) if held.launch is not None else LOG_CAP
            events = EventsTail(directory / "events.jsonl", offset=held.events_offset)
            tails = self.tails[held.ref] = Tails(events, LogTail(directory / "stdout", cap))
        if not final:
            self._bound(held, tails, directory, now, every_s)
            if now - tails.read_at < every_s:
                return
        tails.read_at = now
        reports = tuple(tails.events.poll(now))
        chunk = None if held.log_waiting else tails.log.chunk(final=final)
        done = final and not held.log_waiting and tails.log.at_end()
        yield m.Tailed(held.ref, reports, tails.events.offset, chunk, done, tails.events.saved)

    def _bound(self, held: Held, tails: Tails, directory: Path, now: float, every_s: float) -> None:
        """Keep its log's middle off the disk, and see how much it takes in all."""
        keep_ends(tails.log.path, head=tails.log.cap, tail=tails.log.cap)
        keep_ends(tails.events.path, head=EVENTS_BYTES, tail=0)
        if tails.measuring or now < tails.measure_at:
            return
        tails.measuring = True

        def measure() -> None:
            begun = self.clock()
            used, inputs = taken(directory, held.launch)
            tails.measure_at = self.clock() + max(every_s, REST * (self.clock() - begun))
            tails.measuring = False
            if used > self.disk_bytes:
                self.post(m.OverQuota(held.ref, used, self.disk_bytes, inputs))

        self.later(measure)
