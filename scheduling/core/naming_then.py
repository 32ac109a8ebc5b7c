"""Which GPUs would it get at its earliest start? The best of those that are free by then, as placement picks them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from scheduling.core.between import first_of
from scheduling.core.first_start import asked_of
from scheduling.core.outlook import outlook_of
from scheduling.core.placement import find
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.explain import Explainer
    from scheduling.core.scheduler import Scheduler


def gpus_then(scheduler: Scheduler, explainer: Explainer, queued: Queued) -> list[int]:
    """The GPUs of the job's earliest start; empty where it has none.

    That instant asks only where enough is free. Here preferred rules, bandwidth and tight packing count too, among
    all that is free then past what is promised to others. Where others would have to be evicted, for jobs whose rules
    are about groups, and where one place has enough first and nothing is wished for, they are those with which the
    instant was found.
    """
    expected = explainer.starts_by(queued)
    if expected is None:
        return []
    shape, wanted, start_ms = queued.shape, queued.shape.wanted, max(expected[0], explainer.cycle.now_ms)
    waits_for_room = wanted.is_plain and queued.job.due_ms <= explainer.cycle.now_ms
    if shape.is_grouped or waits_for_room:
        return expected[1]
    if wanted.strict and start_ms >= shape.lax_from_ms:
        wanted = wanted.at_any_rung()
    starts, project = explainer.starts(queued), queued.owner[1]
    count = bisect_left(starts.begins(shape, project), start_ms + queued.duration_ms)
    key, is_shared = (shape, count, start_ms), not (shape.changes_itself or queued.may_evict)
    if is_shared and key in starts.named:
        return starts.named[key]
    asked = asked_of(queued, explainer.cycle.now_ms, wanted=wanted, from_ms=start_ms)
    outlook = outlook_of(scheduler.releases, first_of(scheduler, starts.bookings, project, count), asked)
    found, ready = expected[1], outlook.all_by(start_ms, *explainer.releases)
    if len(ready) > len(found):
        with scheduler.room.as_if_free(ready):
            found = find(scheduler.room, wanted) or found
    if is_shared:
        starts.named[key] = found
    return found
