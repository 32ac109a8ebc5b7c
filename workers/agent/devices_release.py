"""Has a job left its GPUs? What is on each is compared with what was on it before; a hung driver is not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workers.agent.devices import Devices, DevicesError, Use
from workers.agent.messages import GpusLooked, LookAtGpus
from workers.agent.statedir import StateDir, read_json, write_json

# So much more than before may be in use: what a driver keeps for itself varies by some tens of MiB with its version,
# its persistence mode and retired pages, while one CUDA context of a process that was left takes some 300 MiB and more
# on a board for data centres. What holds less than this is still seen as a process.
SLACK_MIB = 256
FILE = "gpus.json"


def left_on(before: Use | None, now: Use) -> str:
    """What a job has left on its GPU, in words; empty when nothing. ``before`` None: nobody had looked.

    Memory that the board can't tell is not waited for.
    """
    new = sorted(set(now.pids) - set(before.pids if before is not None else ()))
    words = [f"processes are on it ({', '.join(str(pid) for pid in new[:10])})"] if new else []
    was = before.memory_mib if before is not None else None
    if now.memory_mib is not None and was is not None and now.memory_mib > was + SLACK_MIB:
        words.append(f"{now.memory_mib - was} MiB are still held ({now.memory_mib} in use, {was} before it)")
    return " and ".join(words)


class Departures:
    """What was on the GPUs before each job, kept in its directory, and what is on them after it.

    One call at a time for each GPU: while a driver hangs no second thread waits for it.
    """

    def __init__(self, devices: Devices, state: StateDir, *, deadline_s: float) -> None:
        self.devices = devices
        self.state = state
        self.deadline_s = deadline_s
        self.asked: dict[str, _Question] = {}
        self.guard = threading.Lock()

    def before(self, directory: Path, uuids: Sequence[str]) -> None:
        """What is on the GPUs now is on record in the attempt's ``directory``; not of those that don't answer."""
        told = self._uses(uuids)
        uses = {uuid: use for uuid, use in told.items() if isinstance(use, Use)}
        write_json(
            directory / FILE, {uuid: {"memory_mib": u.memory_mib, "pids": list(u.pids)} for uuid, u in uses.items()}
        )

    def look(self, command: LookAtGpus) -> GpusLooked:
        """What is left on the GPUs of the ended attempt; takes no longer than the deadline."""
        record = read_json(self.state.of(command.ref) / FILE) or {}
        left: list[str] = []
        silent: list[str] = []
        for uuid, use in self._uses(command.gpus).items():
            if isinstance(use, str):
                silent.append(f"{uuid}: {use}")
            elif words := left_on(_use(record.get(uuid)), use):
                left.append(f"{uuid}: {words}")
        return GpusLooked(command.ref, "; ".join(left), "; ".join(silent))

    def _uses(self, uuids: Sequence[str]) -> dict[str, Use | str]:
        """What is on each GPU, or in words why that can't be told."""
        until = time.monotonic() + self.deadline_s
        fresh: dict[str, _Question] = {}
        with self.guard:
            for uuid in uuids:
                if uuid not in self.asked or self.asked[uuid].done.is_set():
                    fresh[uuid] = self.asked[uuid] = _Question(self.devices, uuid)
                    threading.Thread(target=fresh[uuid].ask, daemon=True, name=f"use-{uuid}").start()
        found: dict[str, Use | str] = {}
        for uuid in uuids:  # an answer to a look of before would tell of another time
            if uuid in fresh and fresh[uuid].done.wait(max(0.0, until - time.monotonic())):
                found[uuid] = fresh[uuid].answer
            else:
                found[uuid] = f"the driver gave no answer within {self.deadline_s:g} s"
        return found


class _Question:
    """One look at one GPU, made in a thread of its own."""

    def __init__(self, devices: Devices, uuid: str) -> None:
        self.devices = devices
        self.uuid = uuid
        self.done = threading.Event()
        self.answer: Use | str = "the look at it crashed"

    def ask(self) -> None:
        """The answer is here, or why there is none."""
        try:
            self.answer = self.devices.use(self.uuid)
        except DevicesError as problem:
            self.answer = str(problem)[:200]
        finally:
            self.done.set()


def _use(kept: Any) -> Use | None:
    """What :meth:`Departures.before` wrote down of one GPU."""
    try:
        memory = kept["memory_mib"]
        return Use(int(memory) if memory is not None else None, tuple(int(pid) for pid in kept["pids"]))
    except (KeyError, TypeError, ValueError):
        return None
