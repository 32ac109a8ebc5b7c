"""What does happen to a world to which nothing comes? Every instant is decided anew from a snapshot."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Account, Snapshot
from scheduling.core.wakeup import instants

from .reference_ledgers import Entity
from .unfolding import World

MAX_CYCLES = 500


def true_starts(begin: Snapshot) -> dict[str, int]:
    """By job when it starts, in ms, if every job runs to its time limit, nobody is evicted and nothing else comes."""
    there = World(begin.pool, begin.policy, live=begin.live, windows=begin.windows)
    there.submit(*begin.waiting)
    names: list[tuple[Entity, Account]] = [(("queue", name), each) for name, each in begin.usage.queue.items()]
    names += [(("project", name), each) for name, each in begin.usage.project.items()]
    names += [(("user", *name), each) for name, each in begin.usage.user.items()]
    there.accounts.update(names)
    found: dict[str, int] = {}
    now = begin.now_ms
    for _ in range(MAX_CYCLES):
        for name in sorted(there.live):
            if there.live[name].end_ms <= now:
                there.ended(name, now)
        scheduler = Scheduler(replace(there.snapshot(now), can_preempt=False))
        plan = scheduler.cycle(now)
        found |= {start.job: now for start in plan.starts}
        there.carry_out(plan)
        coming = [*instants(scheduler, frozenset()), *(each.end_ms for each in there.live.values())]
        now = min((instant for instant in coming if instant > now), default=0)
        if not there.waiting or not now:
            return found
    raise AssertionError("the world does not come to an end")
