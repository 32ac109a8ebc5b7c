"""A scheduler's memory filled from a snapshot: what runs, what waits, what is promised."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from scheduling.core.bookings import Booking
from scheduling.core.fairshare import Run
from scheduling.core.held import Held
from scheduling.core.inventory import Inventory
from scheduling.core.snapshot import LiveAttempt, Nomination, Snapshot, Window

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def booked(window: Window, inventory: Inventory) -> Booking:
    """The window as a promise of all GPUs of its nodes; unknown nodes are left out."""
    known = sorted(inventory.node_at[name] for name in window.nodes if name in inventory.node_at)
    cells = {cell: inventory.full[cell] for node in known for cell in inventory.cells_of[node]}
    gpus = [gpu for cell, mask in cells.items() for gpu in inventory.gpus_in(cell, mask)]
    start, end, name = window.start_ms, window.end_ms, window.name
    return Booking(gpus, cells, start, end_ms=end, window=True, project=window.project, name=name)


def fill(scheduler: Scheduler, snapshot: Snapshot) -> None:
    """Everything that runs, waits and is nominated in the snapshot does so in the scheduler."""
    for attempt in sorted(snapshot.live, key=lambda attempt: attempt.job):
        hold(scheduler, attempt)
    for job in snapshot.waiting:
        scheduler.submit(job)
    for nomination in sorted(snapshot.nominations, key=lambda each: each.job):
        _renominate(scheduler, nomination)


def hold(scheduler: Scheduler, attempt: LiveAttempt) -> None:
    """The attempt holds its GPUs, as far as they are known, and is charged for them."""
    inventory = scheduler.inventory
    gpus = [inventory.gpu_at[gpu] for gpu in attempt.gpus if gpu in inventory.gpu_at]
    micro = scheduler.billing_of(gpus) if attempt.billing_micro is None else attempt.billing_micro
    owner = attempt.owner
    run = Run(owner, micro, attempt.granted_ms, end_ms=attempt.end_ms)
    held = Held(attempt.job, owner, gpus, cells=inventory.cells_of_gpus(gpus), run=run).as_in(attempt)
    scheduler.share.join(owner)
    scheduler.share.start(run)
    scheduler.occupy(held, free={cell: mask & scheduler.room.free[cell] for cell, mask in held.cells.items()})
    if held.stop_by_ms is not None:
        heapq.heappush(scheduler.ends, (held.stop_by_ms, held.id))


def _renominate(scheduler: Scheduler, nomination: Nomination) -> None:
    queued = scheduler.waiting.by_id.get(nomination.job)
    if queued is None:
        scheduler.orphaned.append(nomination.job)
        return
    known = scheduler.inventory.gpu_at
    gpus = [known[gpu] for gpu in nomination.gpus if gpu in known]
    scheduler.nominate(queued, gpus, deadline_ms=nomination.deadline_ms, again=nomination.again)
