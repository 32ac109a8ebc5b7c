"""How will shares go on, and when does whoever is ahead fall behind? If nothing new starts: no promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from scheduling.core.share_forecast import Prospect, Prospects, passes, prospects
from scheduling.core.snapshot import Snapshot
from scheduling.store import load
from scheduling.store.clock import from_ms, to_ms
from scheduling.store.queries import share
from scheduling.store.queries.access import Actor

DAYS = 7  # that are foreseen one by one
WITHIN_DAYS = 14  # in which somebody falls behind, or it is not said when
DAY = timedelta(days=1)
ASSUMED = "nothing new starts, what runs goes to its time limit, and the weights and who has work stay as they are"


class Point(NamedTuple):
    """An instant: GPU-ms consumed by then, and that with what is in flight, of the target."""

    at: datetime
    consumed: float
    used_of_target: float


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A project, or a person in ``project``: the points of now and of each of the days to come. ``ahead``: who is just
    ahead, if anybody is, and ``falls_behind_at``: when that one has used more of its target, if within
    :data:`WITHIN_DAYS`."""

    name: str
    project: str
    target: float
    points: tuple[Point, ...]
    ahead: str | None
    falls_behind_at: datetime | None


def shares(actor: Actor, now: datetime) -> tuple[dict[str, Any], tuple[Foreseen, ...]]:
    """The ledgers as :func:`scheduling.store.queries.share.share` has them, and how they go on, of the same moment."""
    snapshot = load.snapshot(now)
    return share.share(actor, now, snapshot), _foreseen(actor, snapshot)


def ahead(actor: Actor, now: datetime) -> tuple[Foreseen, ...]:
    """Every project that has work and a weight, and the people of those that the actor may know of: whoever is first in
    the queue first."""
    return _foreseen(actor, load.snapshot(now))


def _foreseen(actor: Actor, snapshot: Snapshot) -> tuple[Foreseen, ...]:
    found: Prospects = prospects(snapshot)
    families = [("", found.projects)]
    families += [(project, people) for project, people in found.people.items() if actor.sees(project)]
    return tuple(each for project, family in families for each in _family(project, family))


def _family(project: str, ranked: Sequence[Prospect]) -> Iterator[Foreseen]:
    for place, each in enumerate(ranked):
        now_ms = each.now_ms
        before = [peer for peer in ranked[:place] if peer.ratio(now_ms) < each.ratio(now_ms)]
        peer = before[-1] if before else None
        until = to_ms(from_ms(now_ms) + WITHIN_DAYS * DAY)
        at = None if peer is None else passes(each, peer, until)
        yield Foreseen(
            each.name,
            project,
            each.target,
            tuple(_points(each)),
            peer.name if peer else None,
            None if at is None else from_ms(at),
        )


def _points(found: Prospect) -> Iterator[Point]:
    now = from_ms(found.now_ms)
    for day in range(DAYS + 1):
        at = now + day * DAY
        yield Point(at, found.consumed(to_ms(at)), found.ratio(to_ms(at)))
