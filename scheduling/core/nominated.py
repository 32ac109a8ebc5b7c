"""What becomes of a job whose victims are leaving? It starts, it plans once more, or it waits anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.placement import find
from scheduling.core.plan import Unnominate
from scheduling.core.preemption import cheapest, evictable

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.held import Nominee


def go_on(cycle: Cycle, nominee: Nominee) -> None:
    """The job starts when its GPUs are free, or elsewhere; past its deadline, or without one of them, it waits anew."""
    scheduler, queued = cycle.scheduler, nominee.queued
    room = scheduler.room
    held = any(scheduler.holder[gpu] is not None for gpu in nominee.gpus)
    usable = all(mask & ~room.usable[cell] == 0 for cell, mask in nominee.cells.items())
    if not held and usable:
        scheduler.unnominate(nominee, keep=True)
        cycle.start(queued, nominee.gpus, nominated=True)
        return
    if nominee.deadline_ms <= cycle.now_ms or _is_broken(cycle, nominee):
        scheduler.unnominate(nominee)
        cycle.unnominations.append(Unnominate(queued.id))
        scheduler.enqueue(queued.job)
        return
    cycle.refresh(queued.shape)
    pins = cycle.bookings.pins(queued.owner[1], queued.duration_ms)
    place = find(room, queued.shape.wanted, pins, span=cycle.span(queued))
    if place is not None:
        scheduler.unnominate(nominee)
        cycle.unnominations.append(Unnominate(queued.id))
        cycle.start(queued, place)
    elif not nominee.again and _is_late(cycle, nominee):
        _plan_again(cycle, nominee)


def _is_broken(cycle: Cycle, nominee: Nominee) -> bool:
    """Whether a GPU or a node of the set takes no work any more. A node that is only silent may come back in time."""
    inventory = cycle.scheduler.inventory
    return any(
        inventory.gpus[gpu].state is not GpuState.HEALTHY
        or inventory.nodes[inventory.node_of[inventory.cell_of[gpu]]].state is not NodeState.READY
        for gpu in nominee.gpus
    )


def _is_late(cycle: Cycle, nominee: Nominee) -> bool:
    """Whether a victim has not left in the time it had to save."""
    holder = cycle.scheduler.holder
    held = [each for gpu in nominee.gpus if (each := holder[gpu]) is not None]
    return any(each.preempting and each.stop_by_ms is not None and each.stop_by_ms <= cycle.now_ms for each in held)


def _plan_again(cycle: Cycle, nominee: Nominee) -> None:
    """The one new plan without the victim that did not save (D8); without another legal set all stays as it is.

    Whoever enforces the graces then stops that victim for good.
    """
    scheduler = cycle.scheduler
    scheduler.unnominate(nominee)
    queued = scheduler.enqueue(nominee.queued.job)
    pins = cycle.bookings.pins(queued.owner[1], queued.duration_ms)
    cycle.refresh(queued.shape)
    place = find(scheduler.room, queued.shape.wanted, pins, span=cycle.span(queued))
    if place is not None:  # with what others have left for it
        cycle.unnominations.append(Unnominate(queued.id))
        cycle.start(queued, place)
        return
    choice = cheapest(scheduler, queued, evictable(scheduler, queued), pins=pins, now_ms=cycle.now_ms)
    if choice is None:
        scheduler.nominate(queued, nominee.gpus, deadline_ms=nominee.deadline_ms)
        return
    cycle.unnominations.append(Unnominate(queued.id))
    cycle.ask_to_leave(queued, choice, again=True)
