"""Nodes, scheduler, users and operators all at once on one database: nobody is refused for who came between."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from django.db import connection

from scheduling.core.lifecycle import JobState
from scheduling.models import Allocation, Attempt, Job
from scheduling.services import jobs, pool, tick
from scheduling.store import upkeep
from tests import builders as b
from tests.checker.check import check_database

NODES = ("n1", "n2", "n3")
ROUNDS = 12


@dataclass
class Crowd:
    """Everybody acts in a thread of their own, ``ROUNDS`` times; what was raised to whom is kept."""

    faults: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    clock: itertools.count[int] = field(default_factory=itertools.count)

    def now(self) -> datetime:
        """A moment after all before it, which no two have."""
        return b.later(next(self.clock) * 0.02)

    def act(self, deeds: dict[str, Callable[[random.Random], None]]) -> None:
        """All deeds are done, and each round of them is begun at one moment."""
        together = threading.Barrier(len(deeds))

        def of(name: str, deed: Callable[[random.Random], None]) -> None:
            dice = random.Random(name)
            try:
                for _ in range(ROUNDS):
                    together.wait(60)
                    deed(dice)
            except threading.BrokenBarrierError:
                pass  # another has failed, and told it
            except Exception as fault:
                self.faults.append(f"{name}: {fault!r}")
                together.abort()
            finally:
                connection.close()

        threads = [threading.Thread(target=of, args=each) for each in deeds.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)


class Node:
    """Takes what it is given, says that it goes on, and ends it in the next round, as it was asked."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self.crowd, self.name = crowd, name
        self.held: dict[str, int] = {}

    def beat(self, dice: random.Random) -> None:
        """One heartbeat with all reports that are due."""
        attempts = [{"attempt": a, "epoch": e, "state": "running"} for a, e in self.held.items()]
        reply = b.beat(self.name, now=self.crowd.now(), attempts=attempts)
        reports: list[dict[str, object]] = []
        for wanted in reply["desired"]:
            named = {"attempt": wanted["attempt"], "epoch": wanted["epoch"]}
            if wanted["attempt"] not in self.held:
                # Refused where a cancel came in between.
                claimed = wanted["action"] == "run" and pool.claim(self.name, *named.values(), self.crowd.now())
                if isinstance(claimed, dict):
                    self.held[wanted["attempt"]] = wanted["epoch"]
                    reports.append({"type": "started", "pid": 1, **named})
                continue
            outcome = "SUCCEEDED" if wanted["action"] == "run" else "CANCELLED"
            reports.append({"type": "progress", "step": 1, "total": 2, **named})
            if outcome == "CANCELLED" or dice.random() < 0.7:
                reports.append({"type": "finished", "outcome": outcome, "exit_code": 0, **named})
                del self.held[wanted["attempt"]]
        answers = b.beat(self.name, now=self.crowd.now(), reports=reports)["answers"]
        self.crowd.done["reports taken"] += sum(answer["ok"] for answer in answers)


@pytest.mark.django_db(transaction=True)
def test_nobody_is_refused_for_another_and_no_invariant_is_broken():
    who = b.people()
    for name in NODES:
        b.node(name)
    crowd = Crowd()
    mine: list[str] = []

    def submit(dice: random.Random) -> None:
        body = b.command_body(gpu_count=dice.choice((1, 2)), max_duration="10m", priority=dice.choice(("Low", "High")))
        mine.append(b.submitted(who["alice"], body, now=crowd.now()))

    def cancel(dice: random.Random) -> None:
        if mine:
            jobs.cancel(dice.choice(mine), who["alice"], crowd.now())
            crowd.done["cancels"] += 1

    def operate(dice: random.Random) -> None:
        name = dice.choice(NODES)
        for verb in ("cordon", "return"):
            pool.operate(name, verb, who["admin"], crowd.now())

    def count_anew(dice: random.Random) -> None:
        upkeep.rebuild_balances(crowd.now())

    nodes = {name: Node(crowd, name).beat for name in NODES}
    ticks = {"scheduler": lambda _: tick.run_tick("test", crowd.now())}
    crowd.act(nodes | ticks | {"alice": submit, "alice again": cancel, "admin": operate, "upkeep": count_anew})
    assert crowd.faults == []
    assert crowd.done["cancels"] > 0
    assert crowd.done["reports taken"] > 0
    assert Job.objects.filter(state__in=[JobState.SUCCEEDED, JobState.CANCELLED]).count() > 5
    held = Allocation.objects.filter(released_at__isnull=True).values("attempt_id")
    assert not Attempt.objects.filter(ended_at__isnull=False, pk__in=held).exists()
    with connection.cursor() as cursor:
        assert check_database(cursor, now=crowd.now().timestamp()) == []
