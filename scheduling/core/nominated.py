"""What becomes of a job whose victims are leaving? It starts, it plans once more, or it waits anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.placement import find, fits_with
from scheduling.core.plan import Unnominate
from scheduling.core.preemption import cheapest, evictable, runs_on

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.held import Held, Nominee


def go_on(cycle: Cycle, nominee: Nominee) -> None:
    """The job starts when its GPUs are free, or elsewhere; past its deadline, or without one of them, it waits anew."""
    scheduler, queued = cycle.scheduler, nominee.queued
    held = any(scheduler.holder[gpu] is not None for gpu in nominee.gpus)
    usable = all(mask & ~scheduler.room.usable[cell] == 0 for cell, mask in nominee.cells.items())
    if not held and usable:
        scheduler.unnominate(nominee, keep=True)
        cycle.start(queued, nominee.gpus, nominated=True)
    elif nominee.deadline_ms <= cycle.now_ms or _is_broken(cycle, nominee):
        _wait_anew(cycle, nominee)
    elif not _starts_elsewhere(cycle, nominee):
        late = _late(cycle, nominee)
        if late and not nominee.again:
            _plan_again(cycle, nominee, late)
        elif any(runs_on(scheduler, each) for each in late):
            _wait_anew(cycle, nominee)


def _wait_anew(cycle: Cycle, nominee: Nominee) -> None:
    cycle.scheduler.unnominate(nominee)
    cycle.unnominations.append(Unnominate(nominee.queued.id))
    cycle.scheduler.enqueue(nominee.queued.job)


def _starts_elsewhere(cycle: Cycle, nominee: Nominee) -> bool:
    """Whether the job was started: on free GPUs, and on those of its own that have been left already."""
    scheduler, queued = cycle.scheduler, nominee.queued
    room, wanted = scheduler.room, queued.shape.wanted
    cycle.refresh(queued.shape)
    left = scheduler.inventory.cells_of_gpus([gpu for gpu in nominee.gpus if scheduler.holder[gpu] is None])
    own = {cell: taken for cell, mask in left.items() if (taken := mask & room.usable[cell])}
    if wanted.count > room.free_count + sum(mask.bit_count() for mask in own.values()):
        return False
    pins = cycle.bookings.pins(queued.owner[1], queued.duration_ms)
    if not fits_with(room, wanted, pins, opened=own):
        return False
    scheduler.unnominate(nominee)
    place = find(room, wanted, pins, span=cycle.span(queued))
    if place is None:
        raise RuntimeError(f"job {queued.id} fits, and there is no place for it")
    cycle.unnominations.append(Unnominate(queued.id))
    cycle.start(queued, place)
    return True


def _is_broken(cycle: Cycle, nominee: Nominee) -> bool:
    """Whether a GPU or a node of the set takes no work any more. A node that is only silent may come back in time."""
    inventory = cycle.scheduler.inventory
    return any(
        inventory.gpus[gpu].state is not GpuState.HEALTHY
        or inventory.nodes[inventory.node_of[inventory.cell_of[gpu]]].state is not NodeState.READY
        for gpu in nominee.gpus
    )


def _late(cycle: Cycle, nominee: Nominee) -> list[Held]:
    """The victims that have not left in the time they had to save."""
    holder = cycle.scheduler.holder
    held = {each.id: each for gpu in nominee.gpus if (each := holder[gpu]) is not None}
    now = cycle.now_ms
    return [
        each for each in held.values() if each.preempting and each.stop_by_ms is not None and each.stop_by_ms <= now
    ]


def _plan_again(cycle: Cycle, nominee: Nominee, late: list[Held]) -> None:
    """The one new plan without the victims that did not save (D8).

    Without another legal set all stays as it is, and whoever enforces the graces stops them for good; but one that is
    not to be stopped without a checkpoint runs on, and the job waits anew.
    """
    scheduler, job = cycle.scheduler, nominee.queued.job
    scheduler.unnominate(nominee)
    queued = scheduler.enqueue(job)
    pins = cycle.bookings.pins(queued.owner[1], queued.duration_ms)
    cycle.refresh(queued.shape)
    candidates = evictable(scheduler, queued) if scheduler.may_evict(job) else []
    choice = cheapest(scheduler, queued, candidates, pins=pins, now_ms=cycle.now_ms)
    if choice is not None:
        cycle.unnominations.append(Unnominate(queued.id))
        cycle.ask_to_leave(queued, choice, again=True)
    elif any(runs_on(scheduler, each) for each in late):
        cycle.unnominations.append(Unnominate(queued.id))
    else:
        scheduler.nominate(queued, nominee.gpus, deadline_ms=nominee.deadline_ms)
