"""Computes a candidate into a writer: which device does which tensor, and when to stop."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import torch

from workers.engines.merging import CPU, Candidate
from workers.engines.planning import PlannedTensor
from workers.engines.writing import PlannedWriter


class Abandoned(Exception):
    """The tensor in hand is given up because there is no time left to finish it."""


def partition(tensors: Sequence[PlannedTensor], workers: int) -> list[list[PlannedTensor]]:
    """Split by greedy size balance: the largest first, each to the least loaded; every list in output order."""
    loads = [(0, i) for i in range(workers)]
    owner: dict[str, int] = {}
    for tensor in sorted(tensors, key=lambda t: -t.spec.nbytes):
        load, i = heapq.heappop(loads)
        owner[tensor.spec.name] = i
        heapq.heappush(loads, (load + tensor.spec.nbytes, i))
    return [[t for t in tensors if owner[t.spec.name] == i] for i in range(workers)]


def ahead(stretches: Iterator[torch.Tensor], beside: Executor) -> Iterator[torch.Tensor]:
    """The same stretches, each computed ``beside`` while whoever asks is busy with the one before it."""
    following = beside.submit(next, stretches, None)
    while (stretch := following.result()) is not None:
        following = beside.submit(next, stretches, None)
        yield stretch


def produce(
    candidate: Candidate,
    writer: PlannedWriter,
    *,
    devices: Sequence[torch.device] = (CPU,),
    on_tensor: Callable[[PlannedTensor], None] = lambda tensor: None,
    should_stop: Callable[[], bool] = lambda: False,
    must_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Write every tensor that the (opened) writer does not have yet; True when all are there.

    Each device computes its share in the order of the plan; a stretch is written while the next one is computed, in
    two threads a device. ``should_stop`` is asked between tensors, ``must_stop`` between stretches of one: then the
    tensor is given up. ``on_tensor`` is called after each tensor, by the thread that wrote it. The bytes don't depend
    on ``devices`` of one kind, nor on their number. A refusal stops every device at its next tensor and is raised; of
    several the one of the tensor that comes first.
    """
    failures: list[tuple[int, BaseException]] = []
    places = {tensor.spec.name: place for place, tensor in enumerate(writer.plan.tensors)}

    def guarded(stretches: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        for stretch in stretches:
            if must_stop():
                raise Abandoned
            yield stretch

    def work(device: torch.device, share: Sequence[PlannedTensor]) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="stretch") as beside:
            for tensor in share:
                if failures or should_stop():
                    return
                try:
                    writer.write(tensor, ahead(guarded(candidate.chunks(tensor.spec, device)), beside))
                except Abandoned:
                    return
                except BaseException as failure:  # raised below, in the thread of whoever asked
                    failures.append((places[tensor.spec.name], failure))
                    return
                on_tensor(tensor)

    rest = [t for t in writer.plan.tensors if t.spec.name not in writer.done]
    if len(devices) == 1:
        work(devices[0], rest)
    else:
        with ThreadPoolExecutor(len(devices), thread_name_prefix="merge") as pool:
            shares = partition(rest, len(devices))
            for future in [pool.submit(work, d, s) for d, s in zip(devices, shares, strict=True)]:
                future.result()
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]
    return len(writer.done) == len(writer.plan.tensors)
