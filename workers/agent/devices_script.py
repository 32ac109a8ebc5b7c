"""What befalls simulated GPUs and when: the scripted faults of a scene.

    faults:
      - {gpu: SIM-0, fault: overheat, at_s: 30, for_s: 60}     # seconds after the agent's start
      - {gpu: SIM-0, fault: xid, xid: 79, when: pull-the-plug}  # while that file exists, beside the scene's own
      - {gpu: SIM-1, fault: leak, when: stuck}   # memory of a job stays in use after its end, and fails the GPU's test
      - {fault: reboot, at_s: 90, order: [SIM-1, SIM-0]}        # the node comes back with other indices

With ``when``, ``at_s`` counts from the moment the file is first seen, and the fault ends with the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.agent.devices import DevicesError
from workers.said_back import shown

# of a GPU: its check; what the board reports; the test on it and what is left on it
FAULTS = ("hang", "error", "missing", "overheat", "ecc", "xid", "memory", "remap", "canary", "leak")
REBOOT = "reboot"
KNOWN = {"gpu", "fault", "at_s", "for_s", "xid", "memory_mib", "when", "order"}


@dataclass(frozen=True, slots=True)
class Fault:
    """``fault`` befalls ``gpu`` from ``at_s`` on for ``for_s`` seconds, counted from the start or, with ``when``, from
    the appearance of that file. ``xid`` is the number told, ``memory_mib`` the wrong size, ``order`` the new one."""

    gpu: str
    fault: str
    at_s: float = 0.0
    for_s: float = math.inf
    xid: int = 79
    memory_mib: int = 1024
    when: Path | None = None
    order: tuple[str, ...] = ()


def parse_fault(index: int, raw: Any, *, uuids: Sequence[str], folder: Path) -> Fault:
    """The fault in an entry of the scene; raises :class:`DevicesError` that names the field and what it should be."""
    where = f"faults.{index}"
    if not isinstance(raw, Mapping):
        raise DevicesError(f"{where}: give {{gpu, fault, at_s, for_s}}")
    unknown = sorted(str(name) for name in raw if name not in KNOWN)
    if unknown:
        raise DevicesError(f"{where}.{unknown[0][:80]}: there is no such field; there are {', '.join(sorted(KNOWN))}")
    kind = raw.get("fault")
    if kind not in (*FAULTS, REBOOT):
        raise DevicesError(f"{where}.fault: choose one of {', '.join((*FAULTS, REBOOT))}, not {shown(kind)}")
    if kind != REBOOT and raw.get("gpu") not in uuids:
        raise DevicesError(f"{where}.gpu: name one of {', '.join(uuids)}")
    order = raw.get("order") or []
    if kind == REBOOT and order and (not isinstance(order, list) or sorted(order) != sorted(uuids)):
        raise DevicesError(f"{where}.order: name each of {', '.join(uuids)} once")
    try:
        return Fault(
            gpu=str(raw.get("gpu") or ""), fault=str(kind), at_s=float(raw.get("at_s", 0)),
            for_s=float(raw.get("for_s", math.inf)), xid=int(raw.get("xid", 79)),
            memory_mib=int(raw.get("memory_mib", 1024)), when=folder / str(raw["when"]) if raw.get("when") else None,
            order=tuple(order) if kind == REBOOT else (),
        )  # fmt: skip
    except (TypeError, ValueError) as problem:
        words = f"at_s and for_s are seconds, xid and memory_mib whole numbers ({problem})"
        raise DevicesError(f"{where}: {words}") from problem


class Script:
    """The faults of a scene in time; ``t`` is seconds after the start. Kept in order of the scene."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        self.seen: dict[int, float] = {}
        self.counted = dict.fromkeys(range(len(self.faults)), 0)
        self.before = dict.fromkeys(range(len(self.faults)), 0)
        self.told: set[int] = set()

    def begun(self, number: int, t: float) -> float | None:
        """When the fault of that number began; None while it is not on."""
        fault = self.faults[number]
        began = fault.at_s
        if fault.when is not None:
            if not fault.when.exists():
                self.seen.pop(number, None)
                self.told.discard(number)
                self.before[number] = self.counted[number]
                return None
            began += self.seen.setdefault(number, t)
        return began if began <= t < began + fault.for_s else None

    def active(self, gpu: str, t: float) -> list[Fault]:
        """The faults that are on for the GPU."""
        return [f for n, f in enumerate(self.faults) if f.gpu == gpu and self.begun(n, t) is not None]

    def memory_errors(self, gpu: str, t: float) -> int:
        """Errors of the ``ecc`` faults so far: one when it begins and one a second; they never go away."""
        for n, fault in enumerate(self.faults):
            if fault.gpu != gpu or fault.fault != "ecc":
                continue
            began = self.begun(n, t)
            if began is not None:
                self.counted[n] = self.before[n] + 1 + int(t - began)
            elif fault.when is None and t >= fault.at_s + fault.for_s:
                self.counted[n] = 1 + int(fault.for_s)
        return sum(self.counted[n] for n, f in enumerate(self.faults) if f.gpu == gpu and f.fault == "ecc")

    def xids(self, t: float) -> dict[str, list[int]]:
        """The Xids that have come since the last call, by GPU; each fault tells its own once."""
        found: dict[str, list[int]] = {}
        for n, fault in enumerate(self.faults):
            # Asked first: that the file is gone is only seen by looking.
            if fault.fault == "xid" and self.begun(n, t) is not None and n not in self.told:
                self.told.add(n)
                found.setdefault(fault.gpu, []).append(fault.xid)
        return found

    def reboots(self, t: float) -> list[Fault]:
        """The reboots so far, in order; one by a file counts as long as the file is there."""
        return [
            f
            for n, f in enumerate(self.faults)
            if f.fault == REBOOT and (self.begun(n, t) is not None or (f.when is None and t >= f.at_s))
        ]
