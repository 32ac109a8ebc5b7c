"""Do two ways of deciding agree? What of a plan must be equal, and worlds in time on which both are asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from scheduling.core.decide import decide
from scheduling.core.plan import Plan
from scheduling.core.pool import Pool
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob, Window

from .random_worlds import NOW, Taste, a_job, a_policy, a_pool, a_world, rarely, running_jobs, some
from .reference import Cycle
from .unfolding import World


def essence(plan: Plan) -> dict[str, Any]:
    """What happens by the plan. Attempts are named by their jobs: who drives the core may number them differently."""
    return {
        "reclaims": sorted(each.job for each in plan.reclaims),
        "starts": [(each.job, each.gpus, each.nodes) for each in plan.starts],
        "preempts": sorted((each.nominee, each.job, each.grace_s) for each in plan.preempts),
        "nominations": [(each.job, each.gpus, each.deadline_ms) for each in plan.nominations],
        "unnominations": sorted(each.job for each in plan.unnominations),
        "expired": sorted(each.job for each in plan.expired),
        "reservations": [(each.job, each.start_ms, each.end_ms, sorted(each.gpus)) for each in plan.reservations],
    }


def assert_follows_the_rules(snapshot: Snapshot, plan: Plan) -> Cycle:
    """The plan is the reference's; the reference's state after it, for more questions."""
    reference = Cycle(snapshot, follow=plan)
    assert essence(plan) == essence(reference.run())
    return reference


PLAIN = Taste(families=False)


class Twins:
    """A scheduler that is kept and a world that remembers what the store would; each cycle they must agree."""

    def __init__(self, dice: Random, taste: Taste) -> None:
        self.dice, self.taste, self.now, self.count = dice, taste, NOW, 0
        self.asked_in_vain = 0
        pool = a_pool(dice, taste)
        first = a_world(dice, taste)
        self.world = World(pool, a_policy(dice, taste), live=running_jobs(dice, pool, taste), windows=_of(pool, first))
        for attempt in self.world.live.values():
            self.world.origin[attempt.job] = a_job(dice, attempt.job, taste)
        self.scheduler = Scheduler(self.world.snapshot(self.now))

    def step(self) -> tuple[Snapshot, Plan]:
        """Something happens, then there is a cycle: the snapshot before it, and what the scheduler decided."""
        self.now += 10_000 * self.dice.randint(0, 14 if self.taste.unsaved else 40)
        self._arrivals()
        for name in self._over():
            self.scheduler.ended(name, self.now)
            again = self.world.ended(name, self.now)
            if again is not None:
                self.scheduler.submit(again)
        for name in self.world.live:
            if rarely(self.dice, 8):
                self.world.saved(name, self.now)
                self.scheduler.live[name].saved_ms = self.now
        before = self.world.snapshot(self.now)
        plan = self.scheduler.cycle(self.now)
        for spared in self.world.spare(plan) if self.taste.unsaved else ():
            self.scheduler.learn(spared)
            self.asked_in_vain += spared.asked_ms is not None
        self.world.carry_out(plan)
        return before, plan

    def late_jobs(self, count: int) -> Iterable[WaitingJob]:
        """Plain jobs of owners that have others, which come after a cycle at its instant."""
        owners = [*self.world.waiting.values(), *self.world.live.values()]
        for number in range(count if owners else 0):
            owner = some(self.dice, *owners)
            job = a_job(self.dice, f"late{number}", PLAIN, now_ms=self.now)
            job = replace(job, queue=owner.queue, project=owner.project, user=owner.user)
            yield replace(job, level="Low", level_value=1, start_by_ms=None, submitted_ms=self.now)

    def _arrivals(self) -> None:
        for _ in range(some(self.dice, 0, 1, 2, 4)):
            self.count += 1
            job = a_job(self.dice, f"j{self.count}", self.taste, now_ms=self.now)
            self.world.submit(job)
            self.scheduler.submit(job)
        for name in sorted(self.world.waiting):
            if rarely(self.dice, 15):
                self.world.withdraw(name)
                self.scheduler.withdraw(name)

    def _over(self) -> Iterable[str]:
        """The jobs that end now: all whose time is up, many of those asked to stop, and some of the others."""
        soon = 9 if self.taste.unsaved else 3
        for attempt in list(self.world.live.values()):
            is_due = attempt.end_ms <= self.now and not rarely(self.dice, 4)
            if is_due or some(self.dice, *[False] * (soon if attempt.state == "PREEMPTING" else 9), True):
                yield attempt.job


def _of(pool: Pool, other: Snapshot) -> tuple[Window, ...]:
    known = {node.name for node in pool.nodes}
    return tuple(window for window in other.windows if known >= set(window.nodes))


def decided(snapshot: Snapshot) -> dict[str, Any]:
    """The essence of what a scheduler built for this one moment decides."""
    return essence(decide(snapshot))
