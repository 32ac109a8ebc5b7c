"""How much is ahead of a job in the queue? Counted by owner: of the jobs only those are compared that tie."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from scheduling.core.fairshare import FairShare, Owner, Ratios
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler

Place = tuple[int, Ratios]
Row = tuple[int, str, int]
"""When the job was submitted, its id, and its work in GPU-ms."""


class Ahead:
    """The queue as the ledgers stood when this was made, by :func:`scheduling.core.ordering.rank_key`."""

    __slots__ = ("_before", "_known", "_places", "_share", "_tied")

    def __init__(self, jobs: Iterable[Queued], share: FairShare, *, promised: Container[Queued]) -> None:
        """The jobs count up to their ``max_duration``, but for those in ``promised``, which are no work."""
        by_owner: dict[tuple[int, Owner], list[Row]] = {}
        for queued in jobs:
            key = (queued.level, queued.owner)
            rows = by_owner.get(key)
            if rows is None:
                rows = by_owner[key] = []
            work = 0 if queued in promised else queued.shape.wanted.count * queued.duration_ms
            rows.append((queued.submitted_ms, queued.id, work))
        tied: dict[Place, list[Row]] = {}
        for (level, owner), rows in by_owner.items():
            tied.setdefault((-level, share.ratios(owner)), []).extend(rows)
        self._share, self._places = share, sorted(tied)
        self._tied = [tied[place] for place in self._places]
        counts, works = map(len, self._tied), (sum([work for _, _, work in rows]) for rows in self._tied)
        self._before = list(zip(accumulate(counts, initial=0), accumulate(works, initial=0), strict=True))
        self._known: dict[int, list[int]] = {}  # by place: the work of the first so many of those that tie

    def of(self, queued: Queued) -> tuple[int, int]:
        """(jobs, their GPU-ms) of higher rank than this one, which need not be among them."""
        mine = (-queued.level, self._share.ratios(queued.owner))
        place = bisect_left(self._places, mine)
        count, work = self._before[place]
        if place == len(self._places) or self._places[place] != mine:
            return count, work
        rows, sums = self._tied[place], self._known.get(place)
        if sums is None:
            rows.sort()
            sums = self._known[place] = list(accumulate([its for _, _, its in rows], initial=0))
        sooner = bisect_left(rows, (queued.submitted_ms, queued.id, 0))
        return count + sooner, work + sums[sooner]


class Queue:
    """What is ahead of whom, as the ledgers stand: otherwise with an owner more than without, since targets move."""

    def __init__(self, scheduler: Scheduler, *, promised: Container[Queued]) -> None:
        """Jobs in ``promised`` are no work that is ahead of others."""
        self._scheduler, self._promised = scheduler, promised
        self._guest: Owner | None = None
        self._ahead: dict[Owner | None, Ahead] = {}

    @contextmanager
    def joined_by(self, owner: Owner) -> Iterator[None]:
        """Within it the owner counts as active, as with one waiting job more."""
        share = self._scheduler.share
        self._guest = owner if share.join(owner) else None
        try:
            yield
        finally:
            share.leave(owner)
            self._guest = None

    def ahead_of(self, queued: Queued) -> tuple[int, int]:
        """(jobs, their GPU-ms) of higher rank than this one, which need not wait."""
        ahead = self._ahead.get(self._guest)
        if ahead is None:
            jobs = self._scheduler.waiting.by_id.values()
            ahead = self._ahead[self._guest] = Ahead(jobs, self._scheduler.share, promised=self._promised)
        return ahead.of(queued)
