"""A double of NVML with pynvml's own function names and errors; a test says what each GPU is and what fails."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass
class FakeGpu:
    """One board. ``fails`` maps a pynvml function's name to the error code it raises."""

    uuid: str
    links: tuple[int, ...] = ()
    memory: int = 80 * 2**30
    ecc: int = 0
    used: int = 3 * 2**30
    pids: tuple[int, ...] = ()
    recovery: int = 0
    remap_pending: int = 0
    remap_failure: int = 0
    retired: int = 0
    mig: int = 0
    fails: dict[str, int] = field(default_factory=dict)
    hangs: threading.Event | None = None


class FakeNvml:
    """Stands in for the module ``pynvml``; ``events`` holds the Xids to come as (gpu index, number)."""

    def __init__(self, *gpus: FakeGpu, init_error: int | None = None) -> None:
        self.gpus = list(gpus)
        self.init_error = init_error
        self.events: queue.Queue[tuple[int, int]] = queue.Queue()
        self.taken = 0
        self.shut = False

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)

    def nvmlShutdown(self) -> None:
        self.shut = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self._of("nvmlDeviceGetHandleByIndex", self.gpus[index], self.gpus[index])

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetP2PStatus(self, a: FakeGpu, b: FakeGpu, cap: object) -> int:
        assert cap == 2, "the NVLink capability, as a number"
        return self._of("nvmlDeviceGetP2PStatus", a, 0 if self.gpus.index(b) in a.links else 5)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: object = None) -> Any:
        if version is not None and "memory_v2" in gpu.fails:
            raise pynvml.NVMLError(gpu.fails["memory_v2"])
        return self._of("nvmlDeviceGetMemoryInfo", gpu, SimpleNamespace(total=gpu.memory, used=gpu.used))

    def nvmlDeviceGetRemappedRows(self, gpu: FakeGpu) -> tuple[int, int, int, int]:
        return self._of("nvmlDeviceGetRemappedRows", gpu, (0, 0, gpu.remap_pending, gpu.remap_failure))

    def nvmlDeviceGetRetiredPages(self, gpu: FakeGpu, cause: object) -> list[int]:
        return self._of("nvmlDeviceGetRetiredPages", gpu, [0] * gpu.retired)

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: list[int]) -> list[Any]:
        value = SimpleNamespace(nvmlReturn=pynvml.NVML_SUCCESS, value=SimpleNamespace(uiVal=gpu.recovery))
        return self._of("nvmlDeviceGetFieldValues", gpu, [value])

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        return self._of("nvmlDeviceGetComputeRunningProcesses", gpu, [SimpleNamespace(pid=pid) for pid in gpu.pids])

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, kinds: int, events: object) -> None:
        self._of("nvmlDeviceRegisterEvents", gpu, None)

    def nvmlEventSetWait_v2(self, events: object, wait_ms: int) -> Any:
        try:
            index, number = self.events.get(timeout=0.02)
        except queue.Empty:
            self.taken += 1
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT) from None
        return SimpleNamespace(device=self.gpus[index], eventData=number)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        plain: dict[str, Callable[[FakeGpu], Any]] = {
            "nvmlDeviceGetName": lambda _gpu: "NVIDIA H200",
            "nvmlDeviceGetUtilizationRates": lambda _gpu: SimpleNamespace(gpu=37, memory=5),
            "nvmlDeviceGetTemperature": lambda _gpu: 51,
            "nvmlDeviceGetTemperatureThreshold": lambda _gpu: 95,
            "nvmlDeviceGetMigMode": lambda gpu: (gpu.mig, gpu.mig),
            "nvmlDeviceGetPowerUsage": lambda _gpu: 123_456,
            "nvmlDeviceGetTotalEccErrors": lambda gpu: gpu.ecc,
        }
        if name not in plain:
            raise AttributeError(name)
        return lambda gpu, *_: self._of(name, gpu, plain[name](gpu))

    def _of(self, name: str, gpu: FakeGpu, value: Any) -> Any:
        if gpu.hangs is not None:
            gpu.hangs.wait()
        code = gpu.fails.get(name, gpu.fails.get("*"))
        if code is not None:
            raise pynvml.NVMLError(code)
        return value
