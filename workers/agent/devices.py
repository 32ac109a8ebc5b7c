"""A node's GPUs behind one narrow interface, and looking at them without ever waiting for a hung driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.protocol import GpuDescription, GpuSample

DRAIN_PEERS = 3


class DevicesError(Exception):
    """The devices can't be used as configured; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A program that tries a GPU: it ends with 0 when the GPU does right, and its last line says what it found."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """What is on a GPU: ``memory_mib`` in use (None: the board can't tell), and the processes that compute on it."""

    memory_mib: int | None
    pids: tuple[int, ...] = ()


class Devices(Protocol):
    """What the agent asks of its GPUs. ``sample``, ``use`` and ``occupied`` may hang; all else answers at once."""

    simulated: bool

    def inventory(self) -> list[GpuDescription]:
        """Every GPU the node has for jobs, in order of index."""
        ...

    def left_out(self) -> list[str]:
        """GPUs that are seen and are not for jobs, each in words: which one, why, and what to do."""
        ...

    def sample(self, uuid: str) -> GpuSample:
        """One look at one GPU: what it can't tell is absent, what failed is ``error``."""
        ...

    def xids(self) -> dict[str, list[int]]:
        """The Xids that have come since the last call, by UUID, oldest first."""
        ...

    def boots(self) -> int:
        """How often the node was booted since the agent's start: 0 but for simulated ones."""
        ...

    def use(self, uuid: str) -> Use:
        """What is on the GPU at this moment. Raises :class:`DevicesError` when it doesn't answer."""
        ...

    def occupied(self, uuid: str) -> str:
        """What still uses a GPU that should be idle, in words; empty when nothing does."""
        ...

    def trial(self, uuid: str) -> Trial:
        """The program that tries this GPU."""
        ...

    def note_busy(self, uuids: frozenset[str]) -> None:
        """These GPUs are held by jobs from now on, and no others."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...


@dataclass(slots=True)
class _Look:
    done: threading.Event = field(default_factory=threading.Event)
    sample: GpuSample | None = None


class Poller:
    """Looks at all GPUs at once, each in a thread of its own; one that doesn't answer in time is an error.

    A look that hangs keeps its thread, and no second one is started for that GPU until it has returned.
    """

    def __init__(self, devices: Devices, uuids: Sequence[str]) -> None:
        self.devices = devices
        self.uuids = list(uuids)
        self.looks: dict[str, _Look] = {}

    def collect(self, deadline_s: float) -> list[GpuSample]:
        """A sample of every GPU, within ``deadline_s`` in all."""
        until = time.monotonic() + deadline_s
        for uuid in self.uuids:
            if uuid not in self.looks:
                look = self.looks[uuid] = _Look()
                threading.Thread(target=self._look, args=(uuid, look), daemon=True, name=f"look-{uuid}").start()
        samples: list[GpuSample] = []
        for uuid in self.uuids:
            look = self.looks[uuid]
            if look.done.wait(max(0.0, until - time.monotonic())) and look.sample is not None:
                samples.append(look.sample)
                del self.looks[uuid]
            else:
                samples.append(_hung(uuid, f"the driver gave no answer within {deadline_s:g} s"))
        return samples

    def _look(self, uuid: str, look: _Look) -> None:
        try:
            look.sample = self.devices.sample(uuid)
        except DevicesError as problem:
            look.sample = {"uuid": uuid, "error": str(problem)[:300], "fault": "error"}
        finally:
            look.sample = look.sample or {"uuid": uuid, "error": "the look at it crashed", "fault": "error"}
            look.done.set()


def _hung(uuid: str, words: str) -> GpuSample:
    return {"uuid": uuid, "error": words, "fault": "hung"}


def trouble(sample: GpuSample) -> str:
    """What is wrong with a GPU by this one look, in words for its operator; empty when nothing is."""
    if sample.get("error"):
        return sample["error"]
    if sample.get("remap_failure"):
        return "a memory row could not be replaced; the board is worn out"
    if sample.get("recovery", 0) not in (0, DRAIN_PEERS):
        return f"the driver asks for recovery action {sample['recovery']} (1 reset, 2 reboot, 4 drain and reset)"
    heat, limit = sample.get("temperature_c"), sample.get("temperature_limit_c")
    if heat is not None and limit is not None and heat >= limit:
        return f"{heat:g} °C is at or above the board's slowdown limit of {limit:g} °C"
    return ""
