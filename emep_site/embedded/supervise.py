"""Supervisor (the PyPI package) in the foreground, with a line of status for each program as it changes."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

from supervisor import events, states
from supervisor.options import ServerOptions
from supervisor.supervisord import Supervisor

WORDS = {
    states.ProcessStates.RUNNING: "running",
    states.ProcessStates.BACKOFF: "ended too soon, trying again",
    states.ProcessStates.EXITED: "ended, starting again",
    states.ProcessStates.STOPPING: "stopping",
    states.ProcessStates.STOPPED: "stopped",
    states.ProcessStates.FATAL: "can't be started",
}


class Foreground(Supervisor):
    """A supervisor that tells a person what happens, one line a change, and when ``address`` answers at ``door``."""

    def __init__(self, options: ServerOptions, door: tuple[str, int], address: str) -> None:
        super().__init__(options)
        self._door, self._address, self._answers = door, address, False

    def runforever(self) -> None:
        """Runs until SIGTERM or SIGINT; then stops everything in order."""
        events.subscribe(events.ProcessStateEvent, self._tell)
        super().runforever()

    def tick(self, now: float | None = None) -> None:
        """About once a second; the first time that somebody listens it is said."""
        super().tick(now)
        if not self._answers and listens(*self._door):
            self._answers = True
            self._say(f"EMEP answers at {self._address}")

    def _tell(self, event: events.ProcessStateEvent) -> None:
        process = event.process
        word = WORDS.get(process.state)
        if word is not None:
            pid = f" (process {process.pid})" if process.state == states.ProcessStates.RUNNING else ""
            self._say(f"{process.config.name:<22} {word}{pid}")

    def _say(self, what: str) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {what}\n")
        sys.stdout.flush()


def listens(host: str, port: int) -> bool:
    """True when a connection can be made."""
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


def run(configuration: Path, *, door: tuple[str, int], address: str) -> None:
    """Everything in the configuration runs; returns when all of it has stopped. ``door`` is where web listens, and
    ``address`` what people are told."""
    options = ServerOptions()
    options.first, options.test = True, False
    options.realize(["-n", "-c", str(configuration)], doc="")
    supervisor = Foreground(options, door, address)
    try:
        supervisor.main()
    except Exception as end:
        # asyncore's own way to say that the loop is over
        if type(end).__name__ != "ExitNow":
            raise
