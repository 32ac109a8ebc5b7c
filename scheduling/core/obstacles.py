"""Who or what stands in its way? Operators' windows, jobs that run, and jobs that have just got what it wants.

Other jobs are counted and never named: whoever reads a reason may not know of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduling.core.bookings import Booking
from scheduling.core.closing import able
from scheduling.core.held import Held
from scheduling.core.inventory import Inventory
from scheduling.core.plan import Number
from scheduling.core.room import Wanted
from scheduling.core.waiting import Queued
from scheduling.core.words import agree, gpus_in_words, instant_in_words, level_in_words, nodes_in_words

if TYPE_CHECKING:
    from scheduling.core.cycle import Cycle
    from scheduling.core.scheduler import Scheduler

MAX_NAMED = 2
Told = tuple[str, tuple[tuple[str, Number], ...]]


def closed(windows: list[Booking], now_ms: int, *, opens_ms: int) -> Told:
    """(message, numbers): operators close the GPUs now, or before the job would end. There is at least one window;
    ``opens_ms`` is the end of that one after which it would fit."""
    begins = min(each.start_ms for each in windows)
    who = f"{_named(windows)} {agree(len(windows), 'closes', 'close')} the GPUs"
    if begins <= now_ms:
        message = f"It would fit, but {who}, {_until(windows, opens_ms)}."
    else:
        message = f"It would not end before {who}, {_first(windows)}from {instant_in_words(begins)}, "
        message += f"{_until(windows, opens_ms)}."
    return message, (("window_from_ms", begins), ("window_until_ms", opens_ms))


def closed_too(cells: Mapping[int, int], windows: list[Booking], now_ms: int, *, opens_ms: int) -> Told:
    """(sentence, numbers): beside those that are free, such suitable GPUs, a mask per cell, are closed before the job
    would end; where they are the first to open, they do at ``opens_ms``, the end of one of the windows."""
    count, begins = sum(mask.bit_count() for mask in cells.values()), min(each.start_ms for each in windows)
    when = "" if begins <= now_ms else f" {_first(windows)}from {instant_in_words(begins)}"
    comma = "," if when or len(windows) > 1 else ""
    message = f"{gpus_in_words(count)} more {agree(count, 'is', 'are')} closed to it by {_named(windows)}{when}"
    message += f"{comma} {_until(windows, opens_ms)}."
    return message, (("closed", count), ("window_from_ms", begins), ("window_until_ms", opens_ms))


def closed_then(windows: list[Booking], free_ms: int, *, opens_ms: int) -> Told:
    """(message, numbers): once what runs has left the GPUs, from ``free_ms`` on, operators close them, or do so before
    the job would end. There is at least one window; ``opens_ms`` is the end of one of them."""
    begins = min(each.start_ms for each in windows)
    who = f"{_named(windows)} {agree(len(windows), 'closes', 'close')}"
    if begins <= free_ms:
        why = f"{who} them, {_until(windows, opens_ms)}"
    else:
        why = f"it would not end before {who} them, {_first(windows)}from {instant_in_words(begins)}, "
        why += _until(windows, opens_ms)
    message = f"GPUs may be free for it on {instant_in_words(free_ms)}, but {why}."
    return message, (("window_from_ms", begins), ("window_until_ms", opens_ms))


def _named(windows: list[Booking]) -> str:
    """``window a``, ``windows a and b``, ``5 windows (a, b and 3 more)``; those that are a project's, of which a reader
    may not know, without their names: ``window a and 2 windows reserved for others``."""
    names = [each.name for each in windows if each.project is None]
    reserved, told = len(windows) - len(names), list[str]()
    if len(names) > MAX_NAMED:
        told.append(f"{len(names)} windows ({', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more)")
    elif names:
        told.append(f"{agree(len(names), 'window', 'windows')} {' and '.join(names)}")
    if reserved:
        told.append(f"{agree(reserved, 'a window', f'{reserved} windows')} reserved for others")
    return " and ".join(told)


def _first(windows: list[Booking]) -> str:
    return agree(len(windows), "", "the first of them ")


def _until(windows: list[Booking], opens_ms: int) -> str:
    """``until ...``, and of several windows which one that is."""
    ends = sorted(each.end_ms for each in windows)
    which = {ends[0]: "the first of them ", ends[-1]: "the last of them "}.get(opens_ms, "one of them ")
    return f"{agree(len(windows), '', which)}until {instant_in_words(opens_ms)}"


def kept_away(scheduler: Scheduler, queued: Queued) -> Told:
    """(message, numbers): where rules about groups let the job run it does not fit, and elsewhere it would."""
    words, numbers = _of_groups(scheduler, queued)
    return f"GPUs that suit it are free, but {words}.", numbers


def kept_away_too(scheduler: Scheduler, queued: Queued, rules: str) -> Told:
    """(message, numbers): free GPUs would do where its required rules don't hold, and rules about groups keep it off
    what those leave."""
    words, numbers = _of_groups(scheduler, queued)
    room, inventory = scheduler.room, scheduler.inventory
    left = able(room, Wanted(queued.job.request), room.usable)
    nodes = sorted({inventory.nodes[inventory.node_of[cell]].name for cell, mask in enumerate(left) if mask})
    where = " and ".join(nodes) if len(nodes) <= MAX_NAMED else nodes_in_words(len(nodes))
    return f"Free GPUs would do, but the required rules ({rules}) leave only {where}, and {words}.", numbers


def _of_groups(scheduler: Scheduler, queued: Queued) -> Told:
    """(phrases, numbers): what its rules about groups, and those of others about its own group, demand of the job."""
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
    return ", and ".join(told), tuple(numbers)


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
