"""The moves of bytes that go on beside the agent's loop: a few at a time, each once, each with an end that is told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from workers.agent import launch as launching
from workers.agent import messages as m
from workers.agent.bell import backoff
from workers.agent.client import Api
from workers.agent.devices_release import Departures
from workers.agent.disk_share import too_much
from workers.agent.fetching import Fetcher
from workers.agent.meter import Meter
from workers.agent.publish import checkpoint_files, failed, publish_attempt, publish_snapshot
from workers.agent.statedir import Ref, StateDir, boottime
from workers.agent.transfer import Aborted, Patience, TransferFailed
from workers.protocol import Timings

log = logging.getLogger("emep.agent")
AT_ONCE = 3
# Between two tellings of how far one is, as a share of a heartbeat: 2 s as shipped.
TELL = 0.2
Work = Callable[[Patience, Meter], m.Event]


class Transfers:
    """Carries out Prepare, Publish and Snapshot in threads, moving bytes a few at a time; ``post`` takes what comes.

    ``timings`` are those that hold now; ``disk_bytes`` is what one attempt may take; ``later(work)`` runs in a thread.
    """

    def __init__(
        self, state: StateDir, api: Api, departures: Departures, *, timings: Callable[[], Timings], disk_bytes: int,
        later: Callable[[Callable[[], None]], None], post: Callable[[m.Event], None],
    ) -> None:  # fmt: skip
        self.state = state
        self.api = api
        self.departures = departures
        self.timings = timings
        self.disk_bytes = disk_bytes
        self.later = later
        self.post = post
        self.room = threading.BoundedSemaphore(AT_ONCE)
        self.aborts: dict[Ref, threading.Event] = {}
        self.working: set[tuple[str, Ref]] = set()

    def prepare(self, command: m.Prepare) -> None:
        """All that the attempt needs lies in place, or it is told why not."""
        directory, launch = self.state.of(command.ref), command.launch

        def work(patience: Patience, meter: Meter) -> m.Event:
            if trouble := too_much(launch, self.disk_bytes):
                raise TransferFailed(trouble, retryable=True)  # a node that grants more can do it
            with self.room:
                launching.lay_out(directory)
                fetcher = Fetcher(self.api, self.state.cache, ref=command.ref, patience=patience, meter=meter)
                fetcher.inputs(launch["inputs"], directory / "work" / "input")
                if launch["resume"] is not None:
                    fetcher.checkpoint(launch["resume"], directory / "work" / "checkpoint")
                self.departures.before(directory, launch["gpus"])
                return m.Prepared(command.ref)

        self._begin("prepare", command.ref, work)

    def publish(self, command: m.Publish) -> None:
        """What the ended attempt calls for is in the store, or it is told why not.

        Whether it has left a checkpoint is told first, whatever else is being moved: its upload may be given up then.
        """
        directory = self.state.of(command.ref)

        def work(patience: Patience, meter: Meter) -> m.Event:
            saved = checkpoint_files(command, directory)
            if saved:
                self.post(m.CheckpointFound(command.ref))
            if not saved and not command.outputs:
                return m.Published(command.ref)
            with self.room:
                return publish_attempt(self.api, command, directory, patience, meter, saved=saved)

        self._begin("publish", command.ref, work)

    def snapshot(self, command: m.Snapshot) -> None:
        """The checkpoint that the running job declared is in the store, or it is told why not."""
        directory = self.state.of(command.ref)

        def work(patience: Patience, meter: Meter) -> m.Event:
            with self.room:
                return publish_snapshot(self.api, command, directory, patience, meter)

        self._begin("snapshot", command.ref, work)

    def abort(self, ref: Ref) -> None:
        """Whatever is under way for the attempt ends before its next call."""
        self.aborts.setdefault(ref, threading.Event()).set()

    def forget(self, ref: Ref) -> None:
        """The attempt is gone, and all that was under way for it."""
        abort = self.aborts.pop(ref, None)
        if abort is not None:
            abort.set()

    def leave(self) -> None:
        """Nothing goes on."""
        for abort in self.aborts.values():
            abort.set()

    def _begin(self, what: str, ref: Ref, work: Work) -> None:
        """Run ``work`` in a thread, each once; its event follows unless it was aborted."""
        if (what, ref) in self.working:
            return
        self.working.add((what, ref))
        abort = self.aborts.setdefault(ref, threading.Event())
        patience = Patience(lambda tries: not abort.wait(min(backoff(tries), self.timings().heartbeat_s)), abort.is_set)
        meter = Meter(ref, self.post, boottime, TELL * self.timings().heartbeat_s)

        def guarded() -> None:
            event: m.Event | None = None
            arrived = False
            try:
                event = work(patience, meter)
                arrived = True
            except Aborted:
                log.info("%s: %s aborted", ref.name, what)
            except TransferFailed as problem:
                event = failed(what, ref, problem)
            except Exception as problem:
                if abort.is_set():  # its files may be gone already
                    log.info("%s: %s aborted: %s", ref.name, what, problem)
                else:
                    log.exception("%s: %s crashed", ref.name, what)
                    event = failed(what, ref, TransferFailed(f"the agent's own error: {problem}", retryable=True))
            self.working.discard((what, ref))
            meter.end(whole=arrived)
            if event is not None:
                self.post(event)

        self.later(guarded)
