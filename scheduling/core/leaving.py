"""When will victims have left? They may have saved at once, and are stopped at the end of their grace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduling.core.held import OVERDUE_MS
from scheduling.core.preemption import grace_ms, runs_on

if TYPE_CHECKING:
    from scheduling.core.held import Held, Nominee
    from scheduling.core.scheduler import Scheduler


def held_for(scheduler: Scheduler, nominee: Nominee) -> list[Held]:
    """The jobs that still hold GPUs which are kept for the nominee, by id."""
    found = {held.id: held for gpu in nominee.gpus if (held := scheduler.holder[gpu]) is not None}
    return [found[job] for job in sorted(found)]


def unsaved(scheduler: Scheduler, nominee: Nominee) -> tuple[int, int]:
    """(how many, by when in ms): of the jobs that still hold its GPUs, those that run on if they have not saved by then
    (D8); (0, 0) for none."""
    unsure = [held for held in held_for(scheduler, nominee) if runs_on(scheduler, held)]
    return len(unsure), max((held.stop_by_ms or 0 for held in unsure), default=0)


def once_saved(scheduler: Scheduler, victims: Iterable[Held], now_ms: int) -> tuple[int, int]:
    """(expected, latest) instants in ms by which all of them have left: as saving is known to take, or else its queue
    allows for it, and by the end of the grace, or of their own time.

    Those not asked yet are asked at ``now_ms``; no instant is before that. Whose time is over is about to be stopped.
    """
    at_ms = high_ms = now_ms
    for held in victims:
        asked_ms = now_ms if held.asked_ms is None or held.stop_by_ms is None else held.asked_ms
        grace = round(scheduler.policy.grace_s(held.owner[0]) * 1000)
        stop_ms = asked_ms + grace if held.stop_by_ms is None else held.stop_by_ms
        last_ms = min(stop_ms, held.end_ms)
        if last_ms <= now_ms:
            last_ms = now_ms + OVERDUE_MS
        high_ms = max(high_ms, last_ms)
        at_ms = max(at_ms, min(asked_ms + grace_ms(scheduler, held), last_ms))
    return at_ms, high_ms
