"""GPUs that exist only in a YAML file: the embedded default, and the double in tests.

    seed: 1
    node: {rack_id: r1, network_bandwidth_gbps: 100, labels: {zone: a}}
    gpus: [{uuid: SIM-0, model: Simulated 80, memory: 80GiB, nvlink_group_id: n1-g0}]
    faults: [{at_s: 30, gpu: SIM-0, fault: overheat, for_s: 60}]   # hang | error | overheat | ecc | xid

Telemetry follows the load smoothly and depends only on seed, load and time.
"""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from workers.agent.devices import DevicesError
from workers.protocol import GpuDescription, GpuSample

FAULTS = ("hang", "error", "overheat", "ecc", "xid")
SLOWDOWN_C = 95.0
SETTLE_S = 20.0
_UNITS = {"": 10**9, "GB": 10**9, "GIB": 2**30, "MB": 10**6, "MIB": 2**20, "TB": 10**12, "TIB": 2**40}


@dataclass(frozen=True, slots=True)
class Fault:
    """``fault`` befalls ``gpu`` from ``at_s`` after the start for ``for_s``; ``xid`` is the number reported."""

    at_s: float
    gpu: str
    fault: str
    for_s: float
    xid: int = 79

    def active(self, t: float) -> bool:
        """Whether it is on ``t`` seconds after the start."""
        return self.at_s <= t < self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class Scene:
    """A parsed file: the node's own facts, its GPUs, and what will befall them."""

    node: Mapping[str, Any]
    gpus: tuple[GpuDescription, ...]
    faults: tuple[Fault, ...]
    seed: int


def memory_mib(value: Any) -> int:
    """``80GiB``, ``80GB`` or a plain number (GB of 10^9 bytes) in whole MiB; raises ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(value))
    if found is None or found[2].upper() not in _UNITS or float(found[1]) <= 0:
        raise ValueError(f"memory must be like 80GiB or 80GB, not {value!r:.40}")
    return int(float(found[1]) * _UNITS[found[2].upper()]) // 2**20


def parse_scene(text: str) -> Scene:
    """The scene in YAML ``text``; raises :class:`DevicesError` that names the field and what it should be."""
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as problem:
        raise DevicesError(f"the simulated GPUs' file is not YAML: {problem}") from problem
    if not isinstance(raw, dict) or not isinstance(raw.get("gpus"), list) or not raw["gpus"]:
        raise DevicesError("gpus: give a list of at least one {uuid, model, memory, nvlink_group_id}")
    gpus: list[GpuDescription] = []
    for index, gpu in enumerate(raw["gpus"]):
        where = f"gpus.{index}"
        if not isinstance(gpu, dict) or not gpu.get("uuid"):
            raise DevicesError(f"{where}.uuid: every GPU needs a uuid of its own")
        try:
            mib = memory_mib(gpu.get("memory"))
        except ValueError as problem:
            raise DevicesError(f"{where}.{problem}") from problem
        group = gpu.get("nvlink_group_id")
        gpus.append(
            {
                "uuid": str(gpu["uuid"]), "index": index, "model": str(gpu.get("model", "Simulated GPU")),
                "memory_mib": mib, "nvlink_group_id": str(group) if group is not None else None,
            }
        )  # fmt: skip
    uuids = [gpu["uuid"] for gpu in gpus]
    if len(set(uuids)) != len(uuids):
        raise DevicesError("gpus: two GPUs have the same uuid")
    faults = tuple(_fault(i, fault, uuids) for i, fault in enumerate(raw.get("faults") or []))
    return Scene(raw.get("node") or {}, tuple(gpus), faults, int(raw.get("seed", 0)))


def _fault(index: int, raw: Any, uuids: list[str]) -> Fault:
    where = f"faults.{index}"
    if not isinstance(raw, dict) or raw.get("gpu") not in uuids:
        raise DevicesError(f"{where}.gpu: name one of {', '.join(uuids)}")
    if raw.get("fault") not in FAULTS:
        raise DevicesError(f"{where}.fault: choose one of {', '.join(FAULTS)}, not {raw.get('fault')!r}")
    try:
        at_s, for_s = float(raw.get("at_s", 0)), float(raw.get("for_s", math.inf))
        return Fault(at_s, str(raw["gpu"]), str(raw["fault"]), for_s, int(raw.get("xid", 79)))
    except (TypeError, ValueError) as problem:
        raise DevicesError(f"{where}: at_s and for_s are seconds, xid a number ({problem})") from problem


def read_scene(path: Path) -> Scene:
    """The scene in the file ``path``; raises :class:`DevicesError` when there is none to read."""
    try:
        return parse_scene(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise DevicesError(f"--gpus simulated:{path}: {problem.strerror}") from problem


@dataclass(slots=True)
class _Load:
    """How busy one GPU is: it moves from ``level`` at ``since`` towards ``target``."""

    level: float = 0.0
    target: float = 0.0
    since: float = 0.0
    xid_told: set[int] = field(default_factory=set)

    def at(self, t: float) -> float:
        return self.target + (self.level - self.target) * math.exp(-max(0.0, t - self.since) / SETTLE_S)


class SimulatedDevices:
    """The GPUs of a scene; ``clock`` gives seconds, and time starts when this is made."""

    simulated = True

    def __init__(self, scene: Scene, *, clock: Callable[[], float]) -> None:
        self.scene = scene
        self.clock = clock
        self.began = clock()
        self.closing = threading.Event()
        self.loads = {gpu["uuid"]: _Load() for gpu in scene.gpus}
        self.memory = {gpu["uuid"]: gpu["memory_mib"] for gpu in scene.gpus}

    def inventory(self) -> list[GpuDescription]:
        """The scene's GPUs."""
        return [gpu.copy() for gpu in self.scene.gpus]

    def note_busy(self, uuids: frozenset[str]) -> None:
        """Their load rises from now on, that of the others falls."""
        t = self.clock() - self.began
        for uuid, load in self.loads.items():
            target = 1.0 if uuid in uuids else 0.0
            if target != load.target:
                load.level, load.target, load.since = load.at(t), target, t

    def sample(self, uuid: str) -> GpuSample:
        """One look; a scripted hang doesn't return before it is over (or the devices are closed)."""
        t = self.clock() - self.began
        load = self.loads.get(uuid)
        if load is None:
            return {"uuid": uuid, "error": "there is no such simulated GPU"}
        active = [f for f in self.scene.faults if f.gpu == uuid and f.active(t)]
        for fault in active:
            if fault.fault == "hang":
                self.closing.wait(min(fault.at_s + fault.for_s - t, threading.TIMEOUT_MAX))
        kinds = {fault.fault for fault in active}
        if "error" in kinds:
            return {"uuid": uuid, "error": "simulated fault: the GPU gives an error"}
        level, ripple = load.at(t), self._ripple(uuid, t)
        sample: GpuSample = {
            "uuid": uuid,
            "utilization": round(min(100.0, max(0.0, 92.0 * level + 3.0 * ripple * level)), 1),
            "memory_used_mib": int(self.memory[uuid] * (0.01 + 0.70 * level)),
            "temperature_c": round(34.0 + 38.0 * level + 1.5 * ripple, 1),
            "temperature_limit_c": SLOWDOWN_C,
            "power_w": round(60.0 + 420.0 * level + 8.0 * ripple, 1),
            "ecc": sum(1 + int(t - f.at_s) for f in self._past(uuid, "ecc", t)),
        }
        if "overheat" in kinds:
            sample["temperature_c"] = SLOWDOWN_C + 10.0
        xids = [f for f in self._past(uuid, "xid", t) if id(f) not in load.xid_told]
        if xids:
            load.xid_told |= {id(f) for f in xids}
            sample["xids"] = [f.xid for f in xids]
        return sample

    def _past(self, uuid: str, kind: str, t: float) -> list[Fault]:
        return [f for f in self.scene.faults if f.gpu == uuid and f.fault == kind and f.at_s <= t]

    def _ripple(self, uuid: str, t: float) -> float:
        """A slow wave from -1 to 1, of its own for each GPU and seed."""
        phase = zlib.crc32(f"{self.scene.seed}:{uuid}".encode()) / 2**32 * 2 * math.pi
        return 0.7 * math.sin(t / 7.0 + phase) + 0.3 * math.sin(t / 2.3 + 2 * phase)

    def close(self) -> None:
        """End the scripted hangs."""
        self.closing.set()
