"""When must the scheduler look again, if nothing happens until then?"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def instants(scheduler: Scheduler, gone: frozenset[str]) -> list[int]:
    """When something may change without an event, in ms. ``gone``: live jobs that are being taken back."""
    found = [job.due_ms for job in scheduler.sleeping.values()]
    found += _next_start_by(scheduler)
    found += [nominee.deadline_ms for nominee in scheduler.nominees.values()]
    if not (scheduler.waiting or scheduler.sleeping or scheduler.nominees):
        return found
    for window in scheduler.windows:
        found += [window.start_ms, window.end_ms]
    if scheduler.nominees:
        found += [
            held.stop_by_ms for held in scheduler.live.values() if held.preempting and held.stop_by_ms is not None
        ]
    found += [held.end_ms for held in scheduler.live.values() if held.id not in gone]
    aged_ms = round(scheduler.policy.backfill.aged_after_s * 1000)
    youngest = scheduler.waiting.first_since(scheduler.share.clock.now_ms - aged_ms)
    if youngest is not None:
        found.append(youngest.submitted_ms + aged_ms + 1)
    found += [shape.lax_from_ms for level in scheduler.waiting.levels.values() for shape in level.shapes]
    return found


def _next_start_by(scheduler: Scheduler) -> list[int]:
    """The first ``start_by`` of a job that still waits, if there is one."""
    while scheduler.start_by:
        limit, job_id = scheduler.start_by[0]
        job = scheduler.waiting_job(job_id)
        if job is not None and job.start_by_ms == limit:
            return [limit]
        heapq.heappop(scheduler.start_by)
    return []
