"""GPUs that exist only in a YAML file: the embedded default, and the double in tests.

    seed: 1
    node: {rack_id: r1, network_bandwidth_gbps: 100, labels: {zone: a}}
    gpus: [{uuid: SIM-0, model: Simulated 80, memory: 80GiB, nvlink_group_id: n1-g0}]
    faults: [{at_s: 30, gpu: SIM-0, fault: overheat, for_s: 60}]   # see devices_script.py

Telemetry follows the load smoothly and depends only on seed, load and time.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from workers.agent.devices import DevicesError, Trial, Use
from workers.agent.devices_script import Fault, Script, parse_fault
from workers.protocol import GpuDescription, GpuSample
from workers.said_back import shown

SLOWDOWN_C = 95.0
SETTLE_S = 20.0
HANG_LOOK_S = 0.05
LEAK_MIB = 4096
# With one of these the test on the GPU fails.
FAILING = frozenset({"canary", "error", "missing"})
_UNITS = {"": 10**9, "GB": 10**9, "GIB": 2**30, "MB": 10**6, "MIB": 2**20, "TB": 10**12, "TIB": 2**40}


@dataclass(frozen=True, slots=True)
class Scene:
    """A parsed file: the node's own facts, its GPUs, and what will befall them."""

    node: Mapping[str, Any]
    gpus: tuple[GpuDescription, ...]
    faults: tuple[Fault, ...]
    seed: int


def memory_mib(value: Any) -> int:
    """``80GiB``, ``80GB`` or a plain number (GB of 10^9 bytes) in whole MiB; raises ValueError for anything else.

    Rounded up as a job's ``gpu_memory_min`` is (D26), so that a GPU of 80GB serves a job that needs 80GB.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(value), re.ASCII)
    if found is None or found[2].upper() not in _UNITS or Fraction(found[1]) <= 0:
        raise ValueError(f"memory must be like 80GiB or 80GB, not {shown(value)}")
    return math.ceil(Fraction(found[1]) * _UNITS[found[2].upper()] / 2**20)


def parse_scene(text: str, folder: Path = Path()) -> Scene:
    """The scene in YAML ``text``, whose triggers lie in ``folder``.

    Raises :class:`DevicesError` that names the field and what it should be.
    """
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
    given = enumerate(raw.get("faults") or [])
    faults = tuple(parse_fault(i, fault, uuids=uuids, folder=folder) for i, fault in given)
    return Scene(raw.get("node") or {}, tuple(gpus), faults, int(raw.get("seed", 0)))


def read_scene(path: Path) -> Scene:
    """The scene in the file ``path``; raises :class:`DevicesError` when there is none to read."""
    try:
        return parse_scene(path.read_text(encoding="utf-8"), path.absolute().parent)
    except OSError as problem:
        raise DevicesError(f"--gpus simulated:{path}: {problem.strerror}") from problem


@dataclass(slots=True)
class _Load:
    """How busy one GPU is: it moves from ``level`` at ``since`` towards ``target``."""

    level: float = 0.0
    target: float = 0.0
    since: float = 0.0

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
        self.script = Script(scene.faults)
        self.guard = threading.Lock()
        self.loads = {gpu["uuid"]: _Load() for gpu in scene.gpus}
        self.worked: set[str] = set()
        self.memory = {gpu["uuid"]: gpu["memory_mib"] for gpu in scene.gpus}

    @property
    def _t(self) -> float:
        return self.clock() - self.began

    def boots(self) -> int:
        """How often the node was rebooted by the script."""
        with self.guard:
            return len(self.script.reboots(self._t))

    def inventory(self) -> list[GpuDescription]:
        """The scene's GPUs that are there, with the size they report, in the order of the newest reboot."""
        t = self._t
        with self.guard:
            reboots = self.script.reboots(t)
            faults = {gpu["uuid"]: self.script.active(gpu["uuid"], t) for gpu in self.scene.gpus}
        order = reboots[-1].order if reboots else ()
        found: list[GpuDescription] = []
        for gpu in self.scene.gpus:
            if any(f.fault == "missing" for f in faults[gpu["uuid"]]):
                continue
            row = gpu.copy()
            row["index"] = order.index(gpu["uuid"]) if order else gpu["index"]
            row["memory_mib"] = next(
                (f.memory_mib for f in faults[gpu["uuid"]] if f.fault == "memory"), row["memory_mib"]
            )
            found.append(row)
        return sorted(found, key=lambda row: row["index"])

    def left_out(self) -> list[str]:
        """All that the scene has is for jobs."""
        return []

    def note_busy(self, uuids: frozenset[str]) -> None:
        """Their load rises from now on, that of the others falls."""
        t = self._t
        self.worked |= uuids
        for uuid, load in self.loads.items():
            target = 1.0 if uuid in uuids else 0.0
            if target != load.target:
                load.level, load.target, load.since = load.at(t), target, t

    def _faults(self, uuid: str) -> dict[str, Fault]:
        with self.guard:
            return {fault.fault: fault for fault in self.script.active(uuid, self._t)}

    def sample(self, uuid: str) -> GpuSample:
        """One look; a scripted hang doesn't return before it is over (or the devices are closed)."""
        if uuid not in self.loads:
            return {"uuid": uuid, "error": "there is no such simulated GPU", "fault": "missing"}
        self._hang(uuid)
        faults = self._faults(uuid)
        if "missing" in faults:
            return {"uuid": uuid, "error": "simulated fault: the driver does not show this GPU", "fault": "missing"}
        if "error" in faults:
            return {"uuid": uuid, "error": "simulated fault: the GPU gives an error", "fault": "error"}
        t = self._t
        level, ripple = self.loads[uuid].at(t), self._ripple(uuid, t)
        with self.guard:
            errors = self.script.memory_errors(uuid, t)
        return {
            "uuid": uuid,
            "utilization": round(min(100.0, max(0.0, 92.0 * level + 3.0 * ripple * level)), 1),
            "memory_used_mib": int(self.memory[uuid] * (0.01 + 0.70 * level)),
            "memory_mib": faults["memory"].memory_mib if "memory" in faults else self.memory[uuid],
            "temperature_c": SLOWDOWN_C + 10.0
            if "overheat" in faults
            else round(34.0 + 38.0 * level + 1.5 * ripple, 1),
            "temperature_limit_c": SLOWDOWN_C,
            "power_w": round(60.0 + 420.0 * level + 8.0 * ripple, 1),
            "ecc": errors,
            "remap_failure": int("remap" in faults),
        }

    def xids(self) -> dict[str, list[int]]:
        """The scripted Xids since the last call."""
        with self.guard:
            return self.script.xids(self._t)

    def _hang(self, uuid: str) -> None:
        while "hang" in self._faults(uuid) and not self.closing.wait(HANG_LOOK_S):
            pass

    def use(self, uuid: str) -> Use:
        """Nothing, or with a scripted leak what was left on the GPU by a job, once there was one."""
        self._hang(uuid)
        faults = self._faults(uuid)
        if uuid not in self.loads or "missing" in faults:
            raise DevicesError("simulated fault: the driver does not show this GPU")
        if "error" in faults:
            raise DevicesError("simulated fault: the GPU gives an error")
        return Use(LEAK_MIB if "leak" in faults and uuid in self.worked else 0)

    def occupied(self, uuid: str) -> str:
        """A scripted leak: what a job left on the GPU; else nothing."""
        return f"simulated fault: {LEAK_MIB} MiB are still in use" if "leak" in self._faults(uuid) else ""

    def trial(self, uuid: str) -> Trial:
        """A process that passes unless the script has something against this GPU."""
        faults = self._faults(uuid)
        say = "hang" if "hang" in faults else "fail" if faults.keys() & FAILING else "pass"
        return Trial((sys.executable, "-m", "workers.canary", "--simulated", say), {})

    def _ripple(self, uuid: str, t: float) -> float:
        """A slow wave from -1 to 1, of its own for each GPU and seed."""
        phase = zlib.crc32(f"{self.scene.seed}:{uuid}".encode()) / 2**32 * 2 * math.pi
        return 0.7 * math.sin(t / 7.0 + phase) + 0.3 * math.sin(t / 2.3 + 2 * phase)

    def close(self) -> None:
        """End the scripted hangs."""
        self.closing.set()
