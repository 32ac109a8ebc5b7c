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
from scheduling.core.words import agree, gpus_in_words, instant_in_words, level_in_words, nodes_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler

MAX_NAMED = 2
Told = tuple[str, tuple[tuple[str, Number], ...]]


def closed(windows: list[Booking], now_ms: int) -> Told:
    """(message, numbers): operators close the GPUs now, or before the job would end. There is at least one window."""
    begins, opens = _times(windows)
    who = f"{_named(windows)} {agree(len(windows), 'closes', 'close')} the GPUs"
    if begins <= now_ms:
        message = f"It would fit, but {who}, {_last(windows)}until {instant_in_words(opens)}."
    else:
        message = f"It would not end before {who}, {_first(windows)}from {instant_in_words(begins)}, "
        message += f"{_last(windows)}until {instant_in_words(opens)}."
    return message, (("window_from_ms", begins), ("window_until_ms", opens))


def closed_too(count: int, windows: list[Booking], now_ms: int) -> Told:
    """(sentence, numbers): beside those that are free, so many suitable GPUs are closed before the job would end."""
    begins, opens = _times(windows)
    when = "" if begins <= now_ms else f" {_first(windows)}from {instant_in_words(begins)}"
    comma = "," if when or len(windows) > 1 else ""
    message = f"{gpus_in_words(count)} more {agree(count, 'is', 'are')} closed to it by {_named(windows)}{when}"
    message += f"{comma} {_last(windows)}until {instant_in_words(opens)}."
    return message, (("closed", count), ("window_from_ms", begins), ("window_until_ms", opens))


def _times(windows: list[Booking]) -> tuple[int, int]:
    return min(each.start_ms for each in windows), max(each.end_ms for each in windows)


def _named(windows: list[Booking]) -> str:
    """``window a``, ``windows a and b``, ``5 windows (a, b, c and 2 more)``."""
    names = [each.name for each in windows]
    if len(names) <= MAX_NAMED:
        return f"{agree(len(names), 'window', 'windows')} {' and '.join(names)}"
    return f"{len(names)} windows ({', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more)"


def _first(windows: list[Booking]) -> str:
    return agree(len(windows), "", "the first of them ")


def _last(windows: list[Booking]) -> str:
    return agree(len(windows), "", "the last of them ")


def kept_away(scheduler: Scheduler, queued: Queued) -> Told:
    """(message, numbers): where rules about groups let the job run it does not fit, and elsewhere it would."""
    near, apart, own = queued.job.request.near, queued.job.request.apart, queued.job.group
    live = [scheduler.live[job] for job in sorted(scheduler.live)]
    told: list[str] = []
    numbers: list[tuple[str, Number]] = []
    for rule, must in ((apart, "keep out of every {} with"), (near, "share a {} with")):
        found = [held for held in live if rule is not None and held.group == rule.group]
        if rule is not None and found:
            place = must.format(level_in_words(rule))
            told.append(f"it must {place} a job of group {rule.group} ({_running(found, scheduler.inventory)})")
            numbers += [("group", rule.group), ("level", rule.level), ("running", len(found))]
    keepers = [held for held in live if held.apart is not None and held.apart.group == own]
    if keepers:
        told.append(f"its own group {own} is kept away by {_keeping(keepers, scheduler.inventory)}")
        numbers.append(("kept_away_by", len(keepers)))
    return f"GPUs that suit it are free, but {', and '.join(told)}.", tuple(numbers)


def _running(jobs: list[Held], inventory: Inventory) -> str:
    """``1 runs, on n0``, ``3 run, on 2 nodes``."""
    return f"{len(jobs)} {agree(len(jobs), 'runs', 'run')}, on {_where(jobs, inventory)}"


def _keeping(jobs: list[Held], inventory: Inventory) -> str:
    """``1 running job, on n0``, ``3 running jobs, on 2 nodes``."""
    return f"{len(jobs)} running {agree(len(jobs), 'job', 'jobs')}, on {_where(jobs, inventory)}"


def _where(jobs: list[Held], inventory: Inventory) -> str:
    nodes = sorted({node for held in jobs for node in inventory.nodes_of(held.gpus)})
    return nodes[0] if len(nodes) == 1 else nodes_in_words(len(nodes))


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
