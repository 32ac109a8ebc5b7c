"""Real NVIDIA GPUs through NVML. Every metric is a value, unsupported (absent, never an error) or an error."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import pynvml

from workers.agent.devices import DevicesError, Trial, Use
from workers.agent.devices_release import SLACK_MIB
from workers.protocol import GpuDescription, GpuSample

log = logging.getLogger("emep.agent")
T = TypeVar("T")
MIB = 2**20
# What the fields are called in nvml.h; literals, because some pynvml constants are tuples by a stray comma.
P2P_NVLINK = 2
P2P_OK = 0
RECOVERY_ACTION_FIELD = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
# A program in a loop can raise the same Xid a thousand times a second.
MAX_WAITING_XIDS = 64
UNSUPPORTED = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
# A process sees one slice of a board at most, so jobs that are given whole GPUs can't be given slices for them (C-12).
MIG_WORDS = "MIG mode is on, and slices are not given to jobs: turn it off (nvidia-smi -i {index} -mig 0)"
LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND)
EVENT_WAIT_MS = 1000


class NvmlDevices:
    """The GPUs NVML shows. ``nvml`` has pynvml's functions (tests give a double).

    ``groups`` overrides the NVLink groups found (uuid -> group id); ``fabric`` opts in to groups that span nodes.
    Raises :class:`DevicesError` when NVML can't be used at all.
    """

    simulated = False

    def __init__(
        self, *, nvml: Any = pynvml, groups: dict[str, str] | None = None, fabric: bool = False, node: str = ""
    ) -> None:
        self.nvml = nvml
        self.overrides = groups or {}
        self.fabric = fabric
        self.node = node
        self.waiting_xids: dict[str, list[int]] = {}
        self.xid_lock = threading.Lock()
        self.busy: frozenset[str] = frozenset()
        self.idle_mib: dict[str, int] = {}
        self.closing = threading.Event()
        try:
            nvml.nvmlInit()
            count = int(nvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as problem:
            raise DevicesError(
                f"NVML can't be used: {problem}; install the NVIDIA driver (libnvidia-ml.so.1), "
                "or give --gpus simulated:FILE.yaml"
            ) from problem
        self.handles: dict[str, Any] = {}
        self.numbers: dict[str, int] = {}
        self.unusable: list[str] = []
        for index in range(count):
            self._take(index)
        self._watch_xids()

    # ------------------------------------------------------------ inventory

    def _take(self, index: int) -> None:
        """The board of that number is for jobs, or it is on record why not."""
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(self.nvml.nvmlDeviceGetUUID(handle))
            sliced = self._sliced(handle)
        except pynvml.NVMLError as problem:
            self.unusable.append(f"gpu {index} does not answer and is left out: {problem}")
        else:
            self.numbers[uuid] = index
            if not sliced:
                self.handles[uuid] = handle
                return
            self.unusable.append(f"gpu {index} {uuid} is left out: {MIG_WORDS.format(index=index)}, then start again")
        log.error("%s", self.unusable[-1])

    def _sliced(self, handle: Any) -> bool:
        """Whether the board is in MIG mode; in any mode that is not plainly none its memory is not its own to give."""
        mode = self._ask(lambda: self.nvml.nvmlDeviceGetMigMode(handle))
        return mode is not None and mode[0] != pynvml.NVML_DEVICE_MIG_DISABLE

    def left_out(self) -> list[str]:
        """The boards that did not answer at the start, and those in MIG mode."""
        return list(self.unusable)

    def inventory(self) -> list[GpuDescription]:
        """Every GPU that answers, with its NVLink group: the connected components of working NVLink pairs."""
        groups = self._groups()
        rows: list[GpuDescription] = []
        for uuid, handle in self.handles.items():
            memory = self._ask(partial(self._memory, handle))
            rows.append(
                {
                    "uuid": uuid,
                    "index": self.numbers[uuid],
                    "model": _text(self._ask(partial(self.nvml.nvmlDeviceGetName, handle)) or "unknown"),
                    "memory_mib": int(memory.total) // MIB if memory is not None else 0,
                    "nvlink_group_id": self.overrides.get(uuid, groups.get(uuid)),
                }
            )
        return rows

    def _groups(self) -> dict[str, str | None]:
        uuids = list(self.handles)
        peers: dict[str, set[str]] = {uuid: set() for uuid in uuids}
        for i, a in enumerate(uuids):
            for b in uuids[i + 1 :]:
                if self._linked(self.handles[a], self.handles[b]):
                    peers[a].add(b)
                    peers[b].add(a)
        found: dict[str, str | None] = {}
        for number, component in enumerate(components(peers)):
            wide = self._fabric_group(self.handles[component[0]]) if self.fabric else None
            for uuid in component:
                alone = len(component) == 1 and wide is None
                found[uuid] = None if alone else (wide or f"{self.node}-nvlink-{number}")
        return found

    def _linked(self, a: Any, b: Any) -> bool:
        status = self._ask(lambda: self.nvml.nvmlDeviceGetP2PStatus(a, b, P2P_NVLINK))
        return status == P2P_OK

    def _fabric_group(self, handle: Any) -> str | None:
        """The NVLink domain across nodes; a zero cluster means none, whatever the state says."""
        info = self.nvml.c_nvmlGpuFabricInfoV_t() if hasattr(self.nvml, "c_nvmlGpuFabricInfoV_t") else None
        if info is None or self._ask(lambda: (self.nvml.nvmlDeviceGetGpuFabricInfoV(handle, info), 1)) is None:
            return None
        cluster = bytes(info.clusterUuid)
        if info.state != 3 or info.status != 0 or not any(cluster):
            return None
        return f"fabric-{cluster.hex()}-{info.cliqueId}"

    def _memory(self, handle: Any) -> Any:
        try:
            return self.nvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        except pynvml.NVMLError as problem:
            if problem.value not in UNSUPPORTED:
                raise
            return self.nvml.nvmlDeviceGetMemoryInfo(handle)

    # ------------------------------------------------------------ health

    def sample(self, uuid: str) -> GpuSample:
        """One look at ``uuid``. A GPU that NVML no longer shows, or that is lost, is an error."""
        sample: GpuSample = {"uuid": uuid}
        handle = self.handles.get(uuid)
        if handle is None:
            return {"uuid": uuid, "error": "NVML does not show this GPU", "fault": "missing"}
        try:
            self._fill(sample, handle)
            if self._sliced(handle):
                sample["error"], sample["fault"] = MIG_WORDS.format(index=self.numbers[uuid]), "error"
        except pynvml.NVMLError as problem:
            sample["error"] = str(problem)[:300]
            sample["fault"] = "lost" if problem.value in LOST else "error"
        if uuid not in self.busy and "memory_used_mib" in sample:
            self.idle_mib[uuid] = min(sample["memory_used_mib"], self.idle_mib.get(uuid, sample["memory_used_mib"]))
        return sample

    def _fill(self, sample: GpuSample, handle: Any) -> None:
        nvml = self.nvml
        use = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        if use is not None:
            sample["utilization"] = float(use.gpu)
        memory = self._ask(lambda: self._memory(handle))
        if memory is not None:
            sample["memory_used_mib"] = int(memory.used) // MIB
            sample["memory_mib"] = int(memory.total) // MIB
        heat = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        if heat is not None:
            sample["temperature_c"] = float(heat)
        limit = self._ask(
            lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        )
        if limit:
            sample["temperature_limit_c"] = float(limit)
        power = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        if power is not None:
            sample["power_w"] = power / 1000.0
        errors = self._ask(
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
            )
        )
        if errors is not None:
            sample["ecc"] = int(errors)
        self._wear(sample, handle)
        self._recovery(sample, handle)

    def _wear(self, sample: GpuSample, handle: Any) -> None:
        """Rows that were or are to be replaced; boards that can't do that have retired pages."""
        rows = self._ask(lambda: self.nvml.nvmlDeviceGetRemappedRows(handle))
        if rows is not None:
            sample["remap_pending"], sample["remap_failure"] = int(bool(rows[2])), int(bool(rows[3]))
            return
        pages = self._ask(
            lambda: self.nvml.nvmlDeviceGetRetiredPages(handle, pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
        )
        if pages is not None:
            sample["retired_pages"] = len(pages)

    def _recovery(self, sample: GpuSample, handle: Any) -> None:
        field = getattr(pynvml, RECOVERY_ACTION_FIELD, None)
        if field is None:
            return
        values = self._ask(lambda: self.nvml.nvmlDeviceGetFieldValues(handle, [field]))
        if values and values[0].nvmlReturn == pynvml.NVML_SUCCESS:
            sample["recovery"] = int(values[0].value.uiVal)

    # ------------------------------------------------------------ the test

    def use(self, uuid: str) -> Use:
        """The memory in use and the processes that compute, as far as board and driver can tell."""
        handle = self.handles.get(uuid)
        if handle is None:
            raise DevicesError("NVML does not show this GPU")
        try:
            processes = self._ask(lambda: self.nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
            memory = self._ask(lambda: self._memory(handle))
        except pynvml.NVMLError as problem:
            raise DevicesError(str(problem)) from problem
        used = int(memory.used) // MIB if memory is not None else None
        return Use(used, tuple(int(process.pid) for process in processes))

    def occupied(self, uuid: str) -> str:
        """Processes on the GPU, or memory in use above what it was seen with when idle; empty when it is free.

        Processes of other containers are not shown to us, but their memory is.
        """
        use = self.use(uuid)
        if use.pids:
            return f"processes are on it: {', '.join(str(pid) for pid in use.pids[:10])}"
        idle = self.idle_mib.get(uuid)
        if idle is not None and use.memory_mib is not None and use.memory_mib > idle + SLACK_MIB:
            return f"{use.memory_mib} MiB are in use, and {idle} MiB when it was idle"
        return ""

    def trial(self, uuid: str) -> Trial:
        """The test program, which sees this GPU alone."""
        see = {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return Trial((sys.executable, "-m", "workers.canary"), see)

    def boots(self) -> int:
        """A node that boots takes its agent with it."""
        return 0

    def _ask(self, call: Callable[[], T]) -> T | None:
        """The value, or None where the board or driver has no such thing. Real errors go through."""
        try:
            return call()
        except pynvml.NVMLError as problem:
            if problem.value in UNSUPPORTED:
                return None
            raise

    # ------------------------------------------------------------ Xid events

    def _watch_xids(self) -> None:
        """Start the one thread that waits for critical Xid events, where the driver has them."""
        try:
            events = self.nvml.nvmlEventSetCreate()
            for handle in self.handles.values():
                with contextlib.suppress(pynvml.NVMLError):
                    self.nvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        except pynvml.NVMLError:
            return
        self.xid_thread = threading.Thread(target=self._wait_xids, args=(events,), daemon=True, name="xids")
        self.xid_thread.start()

    def _wait_xids(self, events: Any) -> None:
        while not self.closing.is_set():
            try:
                event = self.nvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
                uuid = _text(self.nvml.nvmlDeviceGetUUID(event.device))
            except pynvml.NVMLError as problem:
                if problem.value != pynvml.NVML_ERROR_TIMEOUT and self.closing.wait(EVENT_WAIT_MS / 1000):
                    break
                continue
            with self.xid_lock:
                waiting = self.waiting_xids.setdefault(uuid, [])
                if len(waiting) < MAX_WAITING_XIDS or int(event.eventData) not in waiting:
                    waiting.append(int(event.eventData))

    def xids(self) -> dict[str, list[int]]:
        """The Xids since the last call, by UUID; of one that comes without end, the first of them."""
        with self.xid_lock:
            new, self.waiting_xids = self.waiting_xids, {}
        return new

    def note_busy(self, uuids: frozenset[str]) -> None:
        """While a job is on it, what a GPU has in use says nothing of an idle one."""
        self.busy = uuids

    def close(self) -> None:
        """End the Xid thread and let go of the driver."""
        self.closing.set()
        with contextlib.suppress(pynvml.NVMLError):
            self.nvml.nvmlShutdown()


def components(peers: dict[str, set[str]]) -> Iterable[list[str]]:
    """The connected components of a graph, each in the order of ``peers``."""
    seen: set[str] = set()
    for first in peers:
        if first in seen:
            continue
        todo, found = [first], {first}
        while todo:
            for peer in peers[todo.pop()] - found:
                found.add(peer)
                todo.append(peer)
        seen |= found
        yield [uuid for uuid in peers if uuid in found]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
