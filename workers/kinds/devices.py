"""Which devices a torch job computes on, set up for results that repeat."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from workers.engines.merging import CPU, device_class


def prepare_devices(gpu_count: int) -> tuple[list[torch.device], str]:
    """The devices to use and a line that says why; deterministic algorithms on, TF32 off.

    A job on simulated GPUs gets UUIDs that CUDA does not know: torch then sees no device and the CPU does the work.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, without 2 s of imports
    # Every buffer here is filled by a read; filling it with NaN first would only cost time.
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010  it has no type
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # spinning threads of several jobs on few cores slow each other down many times
    if gpu_count and torch.cuda.is_available():
        devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
        return devices, f"computing on {len(devices)} CUDA devices ({torch.cuda.get_device_name(0)})"
    if gpu_count:
        return [CPU], f"torch sees none of the {gpu_count} allocated GPUs (simulated?): computing on the CPU"
    return [CPU], "no GPU allocated: computing on the CPU"


def of_one_kind(devices: Sequence[torch.device]) -> list[torch.device]:
    """The devices of the kind of which there are most: another kind computes other bits."""
    kinds = [device_class(device) for device in devices]
    most = max(kinds, key=lambda kind: (kinds.count(kind), kind))
    return [device for device, kind in zip(devices, kinds, strict=True) if kind == most]


def sharing(devices: Sequence[torch.device], gpu_count: int) -> list[torch.device]:
    """What a job's work is shared out to: its devices of one kind, and the CPU as many times as GPUs are simulated."""
    if list(devices) == [CPU]:
        return [CPU] * max(gpu_count, 1)
    return of_one_kind(devices)
