"""Sees job processes die: a killed one can't say when it ended, and the product's word is not to be trusted here."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path
from types import TracebackType

from tests.checker.truth import BELL, ring, write


class Witness:
    """While it is entered, each process that begins a log in the directory gets a ``died`` line when it is gone."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._done = directory, threading.Event()
        if not (directory / BELL).exists():
            os.mkfifo(directory / BELL)
        self._known: set[Path] = set()
        self._living: dict[int, Path] = {}
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._bell = os.open(directory / BELL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        ring(self._directory)
        self._thread.join()
        for descriptor in (*self._living, self._bell):
            os.close(descriptor)

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._done.is_set()  # then one look more: who died before counts, however lately
            self._meet()
            ready, _, _ = select.select([self._bell, *self._living], [], [], 0 if over else None)
            for descriptor in ready:
                if descriptor == self._bell:
                    os.read(self._bell, 4096)
                else:
                    self._saw_die(self._living.pop(descriptor))
                    os.close(descriptor)

    def _meet(self) -> None:
        """Every log that is new has its process watched; one that is gone already died before now."""
        for path in sorted(set(self._directory.glob("*.jsonl")) - self._known):
            self._known.add(path)
            if path.name.startswith(("client-", "node-")):
                continue
            try:
                self._living[os.pidfd_open(int(path.stem.rsplit("-", 1)[1]))] = path
            except ProcessLookupError:
                self._saw_die(path)

    def _saw_die(self, path: Path) -> None:
        job, epoch, pid = path.stem.rsplit("-", 2)
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        write(log, "died", job=job, epoch=int(epoch), pid=int(pid))
        os.close(log)
