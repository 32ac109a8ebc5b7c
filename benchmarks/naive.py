"""What a scheduler without indexes does after each event: score and sort all jobs, and scan the GPUs for each."""

from __future__ import annotations

import time

from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob

Free = dict[str, list[tuple[str, int, bool]]]
"""By node: (GPU, memory in MiB, whether it is free)."""


def naive_pass_s(snapshot: Snapshot, scheduler: Scheduler) -> float:
    """CPU seconds of one naive pass over the jobs of ``snapshot`` that still wait, on the pool as it is now.

    One running job has just ended, as in the passes it is compared with.
    """
    held = {snapshot_gpu for live in list(scheduler.live.values())[1:] for snapshot_gpu in live.gpus}
    names = scheduler.inventory.gpus
    taken = {names[gpu].uuid for gpu in held}
    free: Free = {node.name: [] for node in snapshot.pool.nodes}
    for gpu in snapshot.pool.gpus:
        free[gpu.node].append((gpu.uuid, gpu.memory_mib, gpu.uuid not in taken))
    waiting = [job for job in snapshot.waiting if job.id in scheduler.waiting.by_id]
    used: dict[str, int] = {}
    for live in scheduler.live.values():
        used[live.owner[1]] = used.get(live.owner[1], 0) + len(live.gpus)
    began = time.process_time()
    naive_pass(waiting, free, used)
    return time.process_time() - began


def naive_pass(waiting: list[WaitingJob], free: Free, used: dict[str, int]) -> dict[str, list[str]]:
    """The GPUs of each job that starts, in the order of level, fair share of the projects, and submission."""
    starts: dict[str, list[str]] = {}

    def key(job: WaitingJob) -> tuple[float, int, str]:
        return (-job.level_value * (2 - used.get(job.project, 0) / 1000), job.submitted_ms, job.id)

    for job in sorted(waiting, key=key):
        chosen = _chosen(job, free)
        if chosen:
            starts[job.id] = chosen
            taken = set(chosen)
            for name, gpus in free.items():
                free[name] = [(gpu, memory, is_free and gpu not in taken) for gpu, memory, is_free in gpus]
    return starts


def _chosen(job: WaitingJob, free: Free) -> list[str]:
    request, found, nodes = job.request, [], 0
    for gpus in free.values():
        fitting = [gpu for gpu, memory, is_free in gpus if is_free and memory >= request.gpu_memory_min_mib]
        if len(fitting) >= request.gpus_per_node:
            found += fitting[: request.gpus_per_node]
            nodes += 1
            if nodes == request.node_count:
                return found
    return []
