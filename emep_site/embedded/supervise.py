"""Supervisor (the PyPI package) in the foreground, with a line of status for each program as it changes."""

from __future__ import annotations

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
    """A supervisor that tells a person what happens, one line a change."""

    def runforever(self) -> None:
        """Runs until SIGTERM or SIGINT; then stops everything in order."""
        events.subscribe(events.ProcessStateEvent, self._tell)
        super().runforever()

    def _tell(self, event: events.ProcessStateEvent) -> None:
        process = event.process
        word = WORDS.get(process.state)
        if word is not None:
            pid = f" (process {process.pid})" if process.state == states.ProcessStates.RUNNING else ""
            sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {process.config.name:<22} {word}{pid}\n")
            sys.stdout.flush()


def run(configuration: Path) -> None:
    """Everything in the configuration runs; returns when all of it has stopped."""
    options = ServerOptions()
    options.first, options.test = True, False
    options.realize(["-n", "-c", str(configuration)], doc="")
    supervisor = Foreground(options)
    try:
        supervisor.main()
    except Exception as end:
        # asyncore's own way to say that the loop is over
        if type(end).__name__ != "ExitNow":
            raise
