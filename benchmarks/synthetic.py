"""A pool and a queue of any size, made up: the same for the same numbers."""

from __future__ import annotations

import random

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import WaitingJob

GIB = 1024
NODE_GPUS, RACK_NODES = 8, 8
MEMORIES_MIB = (24 * GIB, 40 * GIB, 80 * GIB)  # of the GPUs of a node, node by node
# (nodes, GPUs on each, NVLink): 22 drawn alike, so that those that stand here more than once are asked for more often.
REQUESTS = (
    *[(1, 1, False)] * 5, *[(1, 2, False)] * 2, (1, 4, False), *[(1, 2, True)] * 2, *[(1, 4, True)] * 3,
    *[(1, 8, True)] * 3, (1, 8, False), (2, 4, False), *[(2, 8, False)] * 2, (4, 8, False), (8, 8, False),
)  # fmt: skip
ASKED_MIB = tuple(gib * GIB for gib in (0, 8, 16, 20, 24, 30, 40, 48, 80))
DURATIONS_S = (600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400)
PROJECTS, USERS_EACH = 20, 8
SUBMITTED_OVER_MS = 20 * 3_600_000  # less than a day: nobody has waited so long that the starvation guard wakes


def pool(gpus: int) -> Pool:
    """At least so many GPUs: nodes of 8 in one NVLink group, eight nodes a rack, half the racks on a fast network."""
    nodes, devices = [], []
    for place in range(-(-gpus // NODE_GPUS)):
        name, rack = f"n{place:05d}", place // RACK_NODES
        nodes.append(Node(name, f"r{rack:04d}", 100.0 if rack % 2 else 400.0))
        memory = MEMORIES_MIB[place % len(MEMORIES_MIB)]
        devices += [Gpu(f"{name}/{n}", name, n, "model", memory, f"{name}-nvlink") for n in range(NODE_GPUS)]
    return Pool(tuple(nodes), tuple(devices))


class Demand:
    """Jobs, one after the other: three queues, 20 projects, 160 users. None of them may evict others."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._made = 0
        self._requests: dict[object, ResourceRequest] = {}

    def job(self, submitted_ms: int) -> WaitingJob:
        """The next job."""
        chance, number = self._chance, self._made
        self._made += 1
        queue = chance.choice(DEFAULT_POLICY.queues)
        names = [level for level in queue.levels if level.name not in DEFAULT_POLICY.permission_levels]
        level = chance.choices(names, [{"High": 1, "Normal": 6, "Low": 3}[each.name] for each in names])[0]
        project, seconds = chance.randrange(PROJECTS), chance.choice(DURATIONS_S)
        return WaitingJob(
            id=f"job-{number:07d}",
            queue=queue.name,
            level=level.name,
            level_value=level.value,
            project=f"project-{project:02d}",
            user=f"user-{project:02d}-{chance.randrange(USERS_EACH)}",
            submitted_ms=submitted_ms,
            request=self._request(seconds),
            remaining_s=seconds,
        )

    def jobs(self, count: int) -> tuple[WaitingJob, ...]:
        """So many jobs, submitted evenly over the time before ``SUBMITTED_OVER_MS``."""
        return tuple(self.job(SUBMITTED_OVER_MS * place // count) for place in range(count))

    def _request(self, seconds: int) -> ResourceRequest:
        (nodes, each, nvlink), memory = self._chance.choice(REQUESTS), self._chance.choice(ASKED_MIB)
        key = (nodes, each, nvlink, memory, seconds)
        if key not in self._requests:
            self._requests[key] = ResourceRequest(
                nodes * each,
                node_count=nodes,
                gpus_per_node=each,
                gpu_memory_min_mib=memory,
                nvlink_required=nvlink,
                max_duration_s=seconds,
            )
        return self._requests[key]
