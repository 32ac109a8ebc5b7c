"""What holds a job up when its time has come? Too little is free by then, or jobs ahead of it take it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.estimate import soonest
from scheduling.core.first_start import is_bound
from scheduling.core.plan import Reason
from scheduling.core.reservations import place_name
from scheduling.core.windows_ahead import window_ahead
from scheduling.core.words import instant_in_words

if TYPE_CHECKING:
    from scheduling.core.explain import Explainer
    from scheduling.core.scheduler import Scheduler
    from scheduling.core.waiting import Queued


def when_due(scheduler: Scheduler, explainer: Explainer, queued: Queued, *, plays: bool) -> tuple[Reason, ...]:
    """The reasons for which a job whose time has not come waits on from then, by what is known now; none for one that
    starts at its time. Only with ``plays`` is a short queue played to see whether jobs ahead come first."""
    job, start = queued.job, explainer.starts_by(queued)
    if start is None:
        return ()
    if start[0] > job.due_ms:
        window = window_ahead(scheduler, explainer.bookings(queued), queued, start_ms=start[0])
        return (_short(scheduler, queued, start) if window is None else window,)
    seen = explainer.foresight.start_of(job) if plays else None
    if seen is None or seen <= job.due_ms or seen == job.start_by_ms:
        return ()
    told = max(soonest(seen), job.due_ms)
    message = f"Jobs ahead of it take first what is free by then; it is expected on {instant_in_words(told)}."
    return (Reason("BEHIND", message, (("earliest_at_ms", told),)),)


def _short(scheduler: Scheduler, queued: Queued, start: tuple[int, list[int]]) -> Reason:
    """BUSY with where and when, by the ``max_duration`` of what runs, enough is free for it."""
    first_ms, gpus = start
    told = first_ms if is_bound(scheduler, queued, first_ms) else max(soonest(first_ms), queued.job.due_ms)
    where = place_name(scheduler.inventory, queued.shape.wanted, gpus)
    message = f"Too little is free for it then; enough is expected on {where} on {instant_in_words(told)}."
    numbers = (("need", queued.job.request.gpu_count), ("earliest_domain", where), ("earliest_at_ms", told))
    return Reason("BUSY", message, numbers)
