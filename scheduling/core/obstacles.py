"""Who or what stands in its way? Operators' windows, jobs that run, and jobs that have just got what it wants.

Other jobs are counted and never named: whoever reads a reason may not know of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bookings import Booking
from scheduling.core.held import Held
from scheduling.core.inventory import Inventory
from scheduling.core.plan import Number
from scheduling.core.waiting import Queued
from scheduling.core.words import instant_in_words, level_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler

Told = tuple[str, tuple[tuple[str, Number], ...]]


def closed(windows: list[Booking], now_ms: int) -> Told:
    """(message, numbers): operators close the GPUs now, or before the job would end. There is at least one window."""
    begins, opens = min(each.start_ms for each in windows), max(each.end_ms for each in windows)
    if len(windows) == 1:
        who, first, last = "an operator's window closes", "from", "until"
    else:
        who, first = f"{len(windows)} operators' windows close", "the first of them from"
        last = "the last of them until"
    if begins <= now_ms:
        message = f"It would fit, but {who} the GPUs, {last} {instant_in_words(opens)}."
    else:
        message = f"It would not end before {who} the GPUs, {first} {instant_in_words(begins)}, "
        message += f"{last} {instant_in_words(opens)}."
    return message, (("window_from_ms", begins), ("window_until_ms", opens))


def kept_away(scheduler: Scheduler, queued: Queued) -> Told:
    """(message, numbers): where rules about groups let the job run it does not fit, and elsewhere it would."""
    near, apart, own = queued.job.request.near, queued.job.request.apart, queued.job.group
    live = [scheduler.live[job] for job in sorted(scheduler.live)]
    told: list[str] = []
    numbers: list[tuple[str, Number]] = []
    for rule, where in ((apart, "in no"), (near, "in a")):
        found = [held for held in live if rule is not None and held.group == rule.group]
        if rule is not None and found:
            running = _running(found, scheduler.inventory)
            told.append(
                f"it is to run {where} {level_in_words(rule)} with a job of group {rule.group}, of which {running}"
            )
            numbers += [("group", rule.group), ("level", rule.level), ("running", len(found))]
    keepers = [held for held in live if held.apart is not None and held.apart.group == own]
    if keepers:
        told.append(f"running jobs keep away from its group {own}, of which {_running(keepers, scheduler.inventory)}")
        numbers.append(("kept_away_by", len(keepers)))
    return f"It would fit on other GPUs, but {', and '.join(told)}.", tuple(numbers)


def _running(jobs: list[Held], inventory: Inventory) -> str:
    """``1 runs on n0``, ``3 run on 2 nodes``."""
    nodes = sorted({node for held in jobs for node in inventory.nodes_of(held.gpus)})
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    return f"{len(jobs)} {'runs' if len(jobs) == 1 else 'run'} on {where}"


def got_ahead(scheduler: Scheduler, cycle: Cycle, level: int) -> tuple[list[Held], dict[int, int]]:
    """The jobs of the level and above that the cycle has started, in their order, and the GPUs that they took."""
    ahead: list[Held] = []
    cells: dict[int, int] = {}
    for start in cycle.starts if cycle.taken else ():
        held = scheduler.live.get(start.job)
        if held is None or held.level_value < level:
            continue
        own = {cell: mask & cycle.taken.get(cell, 0) for cell, mask in held.cells.items()}
        if any(own.values()):
            ahead.append(held)
            cells |= {cell: cells.get(cell, 0) | mask for cell, mask in own.items()}
    return ahead, cells
