"""What would help a waiting job? Changes with which it starts now, or else sooner, and one with which it stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.estimate import estimate
from scheduling.core.expiry import in_time
from scheduling.core.making_room import making_room
from scheduling.core.sooner import sooner

if TYPE_CHECKING:
    from scheduling.core.alternatives import Alternative
    from scheduling.core.explain import Explainer
    from scheduling.core.scheduler import Scheduler
    from scheduling.core.waiting import Queued


def helps(scheduler: Scheduler, explainer: Explainer, queued: Queued, *, over_nodes: bool) -> list[Alternative]:
    """Changes with which the job would start now, evicting others if it may; where there are none, those with which it
    would start sooner; and a later ``start_by`` where it leaves before its start. None starts before its own time.

    ``over_nodes``: whether jobs of its kind may lie on several nodes.
    """
    found = _less(scheduler, explainer, queued, over_nodes=over_nodes)
    if queued.job.start_by_ms is None:
        return found
    expected = estimate(scheduler, explainer, queued)
    longer = in_time(queued.job, expected, explainer.foresight, now_ms=explainer.cycle.now_ms)
    return found if longer is None else [*found, longer]


def _less(scheduler: Scheduler, explainer: Explainer, queued: Queued, *, over_nodes: bool) -> list[Alternative]:
    """Changes of what the job asks for."""
    cycle, bookings = explainer.cycle, explainer.bookings(queued)
    if queued.job.due_ms <= cycle.now_ms:
        found = explainer.alternatives(queued, over_nodes=over_nodes)
        free = {each.name for each in found}
        evicting = making_room(scheduler, cycle, bookings, queued, over_nodes=over_nodes)
        found += [each for each in evicting if each.name not in free]
        if found:
            return found
    start = explainer.starts_by(queued)
    start_ms = None if start is None else start[0]
    return list(sooner(scheduler, cycle, explainer.starts(queued), queued, start_ms=start_ms, over_nodes=over_nodes))
