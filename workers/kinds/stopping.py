"""When a job is asked to stop: by SIGTERM, or by a file that appears. Standard library only.

Installed before torch is imported, because importing it takes seconds in which a signal would kill the process.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

_LOOK_S = 0.1


class StopRequest:
    """Whether, and for how long, this job has been asked to stop."""

    def __init__(self, preempt_file: Path | None, grace_s: float) -> None:
        self._preempt_file = preempt_file
        self._grace_s = grace_s
        self._signalled = False
        self._since: float | None = None
        self._wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def install(self) -> None:
        """Take SIGTERM from now on; call it in the main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def requested(self) -> bool:
        """Has somebody asked? Stays true."""
        asked = self._signalled or (self._preempt_file is not None and self._preempt_file.exists())
        if (asked or self._since is not None) and self._since is None:
            self._since = time.monotonic()
        return self._since is not None

    def overdue(self) -> bool:
        """Asked, and half of the grace is used up: drop what is in hand."""
        return self.requested() and time.monotonic() - (self._since or 0.0) > self._grace_s / 2

    def wait(self, seconds: float) -> bool:
        """Wait until asked or until ``seconds`` are over; returns :meth:`requested`."""
        end = time.monotonic() + seconds
        while not self.requested() and (left := end - time.monotonic()) > 0:
            # A pipe and not threading.Event: a handler that sets an event can lock up with the thread waiting on it.
            select.select([self._wake], [], [], min(left, _LOOK_S))
        return self.requested()

    def _on_signal(self, number: int, frame: object) -> None:
        self._signalled = True
        try:
            os.write(self._bell, b"!")
        except BlockingIOError:
            return  # the bell is full of earlier signals: whoever waits is awake
