"""Which jobs fit alike? Each job's shape, made once and shared."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from scheduling.core.best_rung import best_rung
from scheduling.core.placement import find
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.room import Room, Wanted
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import Shape

FEW = 1024


class Shapes:
    """The shapes in use. ``by_project``: windows leave GPUs to single projects, so jobs of two never fit alike."""

    def __init__(self, pool: Pool, policy: Policy, *, by_project: bool) -> None:
        self._pool, self._policy, self._by_project = pool, policy, by_project
        self._sizes = pool.inventory.memory_sizes
        self._known: dict[object, Shape] = {}

    def of(self, job: WaitingJob, usable_room: Callable[[], Room]) -> Shape:
        """The job's shape. ``usable_room``: all GPUs that take work, free; asked only for a job that avoids some."""
        request = job.request
        holds_out = request.max_wait_for_level_s is not None
        project = job.project if self._by_project else ""
        # Requests are alike that the same GPUs suit: of memory counts only how many of the sizes there are suffice.
        key = (
            bisect_left(self._sizes, request.gpu_memory_min_mib), request.node_count, request.gpus_per_node,
            request.nvlink_required, request.nvlink_exclusive, request.required_level, request.affinity,
            request.remainder, request.allow_span, request.max_wait_for_level_s, request.near, request.apart,
            job.avoid_gpus, job.avoid_nodes, job.group, project, job.id if holds_out else "",
        )  # fmt: skip
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = Shape(key, self._wanted(job, usable_room))
            shape.project, shape.group, shape.is_careful = project, job.group, job.is_careful
            shape.is_grouped = request.near is not None or request.apart is not None or job.group is not None
            if holds_out and request.is_gang:
                shape.lax_from_ms = job.submitted_ms + (request.max_wait_for_level_s or 0) * 1000
                shape.wanted.best_rung = best_rung(self._pool, request)
            shape.changes_itself = shape.is_grouped or shape.lax_from_ms > 0
        return shape

    def are_many(self, jobs: int) -> bool:
        """Whether far more shapes are known than can be in use by so many jobs."""
        return len(self._known) > FEW + 4 * jobs

    def keep(self, used: Iterable[Shape]) -> None:
        """All other shapes are forgotten."""
        self._known = {shape.key: shape for shape in used}

    def forget_careful(self) -> None:
        """Jobs that avoid GPUs or nodes get their shapes anew: what they avoid depends on what else takes work."""
        self._known = {key: shape for key, shape in self._known.items() if not shape.is_careful}

    def _wanted(self, job: WaitingJob, usable_room: Callable[[], Room]) -> Wanted:
        exclusive = self._policy.nvlink_mode == "exclusive"
        plain = Wanted(job.request, all_exclusive=exclusive)
        if not job.is_careful:
            return plain
        careful = Wanted(job.request, avoid_gpus=job.avoid_gpus, avoid_nodes=job.avoid_nodes, all_exclusive=exclusive)
        # Where it was lost is avoided only as long as the others could ever hold it (D13).
        return careful if find(usable_room(), careful) is not None else plain
