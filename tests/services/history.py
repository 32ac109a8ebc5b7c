"""An afternoon on one full node, driven as its agent would: what is replayed in the tests of what-ifs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.services import pool
from scheduling.store.queries.access import Actor
from tests import builders as b

HOUR = 3600


@dataclass(frozen=True)
class Afternoon:
    """Three jobs that each took all four GPUs of n1 for an hour, one behind the other: hers, hers, his. The first was
    submitted at the begin, the others in the two seconds after; by ``end``, four hours later, all are over."""

    who: dict[str, Actor]
    jobs: tuple[str, str, str]
    end: datetime


def granted(job: str, now: datetime) -> b.Running:
    """What of this job the node was given has started."""
    b.ticked(now)
    desired = b.beat(now=now)["desired"]
    for wanted in desired:
        launch = pool.claim("n1", wanted["attempt"], wanted["epoch"], now)
        if launch["job"] == job:
            told = {"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}
            b.beat(now=now, reports=[told])
            return b.Running(job, wanted["attempt"], wanted["epoch"], "n1", launch["gpus"])
    raise AssertionError(f"{job} was not granted: {desired}")


def afternoon(begin: datetime = b.NOON) -> Afternoon:
    """The three jobs, played through the services."""

    def at(seconds: float) -> datetime:
        return begin + timedelta(seconds=seconds)

    who = b.people()
    b.node("n1", now=begin)
    hers = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    his = [b.model(who["bob"], "c", 3, project="beta"), b.model(who["bob"], "d", 4, project="beta")]
    first = b.running(who["alice"], hers, gpu_count=4, name="one", max_duration="2h", now=begin)
    second = b.submitted(who["alice"], b.merge_body(hers, gpu_count=4, name="two", max_duration="2h"), now=at(1))
    third_body = b.merge_body(his, gpu_count=4, project="beta", name="three", max_duration="2h")
    third = b.submitted(who["bob"], third_body, now=at(2))
    b.finished(first, artifacts=[], now=at(HOUR))
    # Beta has had nothing, so its job is next.
    run = granted(third, at(HOUR))
    b.finished(run, artifacts=[], now=at(2 * HOUR))
    run = granted(second, at(2 * HOUR))
    b.finished(run, artifacts=[], now=at(3 * HOUR))
    return Afternoon(who, (first.job, second, third), at(4 * HOUR))
