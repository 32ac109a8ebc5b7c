"""What would help where nothing starts now? Changes with which the job would start sooner by what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.core.alternatives import (
    Alternative,
    changes_that,
    is_easier_with_less,
    loosened_neighbours,
    loosened_topology,
    spread,
    usable_s,
)
from scheduling.core.between import Starts
from scheduling.core.estimate import STEP_MS, soonest_to_come
from scheduling.core.first_start import is_bound, start_between
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import WaitingJob
from scheduling.core.waiting import ENDLESS, Queued
from scheduling.core.words import duration_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler

WORTH = 10  # a change is worth telling when it saves a tenth of the wait


class Sooner:
    """The changes with which a job could start after now and, by a minute and a tenth of its wait or more, before
    ``start_ms``, its own earliest start (None: it has none), and before its ``start_by``. Whom it may evict does not
    count.

    ``starts``: those between what was promised to others before its turn. ``over_nodes``: whether jobs of its kind may
    lie on several nodes.
    """

    def __init__(
        self, scheduler: Scheduler, cycle: Cycle, starts: Starts, queued: Queued, *, start_ms: int | None,
        over_nodes: bool,
    ) -> None:  # fmt: skip
        self._scheduler, self._cycle, self._starts, self._queued = scheduler, cycle, starts, queued
        now_ms, self._over_nodes = cycle.now_ms, over_nodes
        self._by_ms = ENDLESS if start_ms is None else start_ms - max(STEP_MS, (start_ms - now_ms) // WORTH)
        if queued.job.start_by_ms is not None:  # a job that could start at the very instant leaves
            self._by_ms = min(self._by_ms, queued.job.start_by_ms - 1)

    def changes(self) -> Iterator[Alternative]:
        """One of each kind, with its start as it is told. Of what is counted it is the largest number that helps."""
        if self._by_ms <= self._cycle.now_ms:
            return
        job, seconds = self._queued.job, self._queued.duration_ms // 1000
        limit = self._shorter_s()
        if limit:
            words = f"a time limit of at most {duration_in_words(limit)}"
            told = self._told(replace(job, remaining_s=limit))
            yield Alternative("duration_at_most_s", limit, words, job.request, limit, told)
        # What rules about groups, and what it avoids, leave to a job may be less where it asks for less.
        is_easier = not (self._queued.shape.changes_itself or job.is_careful) and is_easier_with_less(job.request)
        less = changes_that(
            self._scheduler.room, job.request, self._helps, over_nodes=self._over_nodes,
            reaches=self._is_in_time if is_easier else None,
        )  # fmt: skip
        neighbours = ((name, 1, words, changed) for name, words, changed in loosened_neighbours(job.request))
        for name, value, words, changed in (*less, *neighbours):
            told = self._told(replace(job, request=changed))
            if told is not None:
                yield Alternative(name, value, words, changed, seconds, told)

    def _helps(self, changed: ResourceRequest) -> bool:
        return self._told(replace(self._queued.job, request=changed)) is not None

    def _is_in_time(self, changed: ResourceRequest) -> bool:
        """Whether it could start soon enough so, now or later."""
        other = self._described(replace(self._queued.job, request=changed))
        start = start_between(self._scheduler, self._starts, other, evicts=False)
        return start is not None and start[0] <= self._by_ms

    def _told(self, job: WaitingJob) -> int | None:
        """When such a job could start, as it is told; None when that is no sooner, or now, or never."""
        other = self._described(job)
        start = start_between(self._scheduler, self._starts, other, evicts=False)
        if start is None or not self._cycle.now_ms < start[0] <= self._by_ms:
            return None
        if is_bound(self._scheduler, other, start[0]):
            return start[0]
        return max(soonest_to_come(start[0], self._cycle.now_ms), job.due_ms)

    def _described(self, job: WaitingJob) -> Queued:
        other = self._scheduler.described(job)
        self._cycle.refresh(other.shape)
        return other

    def _shorter_s(self) -> int:
        """The longest time limit, in seconds, with which it starts sooner since it ends before a promise; 0 for none.

        A shorter job gets ahead of more of the promises, and of nothing else.
        """
        queued, most = self._queued, 0
        for count, promise in enumerate(self._starts.bookings.blocking(queued.owner[1])):
            start = start_between(self._scheduler, self._starts, queued, evicts=False, most=count)
            if start is None or start[0] > self._by_ms:
                break
            limit = usable_s(promise.start_ms - start[0])
            if most < limit < queued.duration_ms // 1000 and self._told(replace(queued.job, remaining_s=limit)):
                most = limit
        return most


def sooner(
    scheduler: Scheduler, cycle: Cycle, starts: Starts, queued: Queued, *, start_ms: int | None,
    over_nodes: bool = False,
) -> Iterator[Alternative]:  # fmt: skip
    """The changes of :class:`Sooner`."""
    return Sooner(scheduler, cycle, starts, queued, start_ms=start_ms, over_nodes=over_nodes).changes()


def tried(request: ResourceRequest, *, over_nodes: bool = False) -> tuple[str, ...]:
    """Which kinds of change there are for such a job, in words. ``over_nodes``: its kind may lie on several nodes."""
    counts = ("fewer nodes", "fewer GPUs on each") if request.is_gang else ("fewer GPUs",)
    several = request.gpus_per_node > 1
    asks_place = any(True for _ in (*loosened_topology(request), *loosened_neighbours(request)))
    return (
        *(counts if several else counts[:-1]),
        *(("GPUs spread over any nodes",) if over_nodes and spread(request) is not None else ()),
        *(("less memory",) if request.gpu_memory_min_mib else ()),
        "a shorter time limit",
        *(("one thing less that it asks of its place",) if asks_place else ()),
    )
