"""Whose turn is it in a level? Of the jobs that fit, and of those that are asked because they may get a reservation."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.core.fairshare import FairShare, Owner
from scheduling.core.ordering import Order, Source
from scheduling.core.waiting import Nest, Queued, Shape


class Turns:
    """The jobs of one level that are to be decided in this cycle, each in its turn by ``rank_key``.

    ``sources``: the lines of what fits. ``multi``: the jobs that need several GPUs, all asked until told otherwise.
    ``aged``: those that wait too long. Usually few things fit and at most a dozen are asked, so each kind is kept in
    its own order and only the heads are compared.
    """

    __slots__ = ("_aged", "_cycle", "_fitting", "_multi", "_share", "_sources")

    def __init__(
        self, sources: list[Source], share: FairShare, cycle: int, *, multi: Nest | None, aged: list[Queued]
    ) -> None:
        self._share, self._cycle, self._sources = share, cycle, sources
        self._fitting = Order(sources, share, cycle) if sources else None
        self._multi = Order([(multi, None)], share, cycle) if multi is not None else None
        self._aged = [job for job in aged if job.judged != cycle] if aged else aged  # the next one is the last
        if len(self._aged) > 1:
            self._rank()

    def _rank(self) -> None:
        ratios = self._share.ratios
        known = {owner: ratios(owner) for owner in {job.owner: None for job in self._aged}}
        self._aged.sort(key=lambda job: (known[job.owner], job.submitted_ms, job.id), reverse=True)

    def next(self) -> Queued | None:
        """The job whose turn it is, or None when all are decided. It stays the same until it is."""
        aged = self._aged
        while aged and (aged[-1].judged == self._cycle or not aged[-1].here):
            aged.pop()
        found = aged[-1] if aged else None
        for order in (self._multi, self._fitting):
            job = None if order is None else order.peek()
            if job is None or job is found:
                continue
            if found is None or self._is_before(job, found):
                found = job
        return found

    def _is_before(self, one: Queued, other: Queued) -> bool:
        if one.owner == other.owner:  # their ratios are equal, whatever they are
            return one < other
        ratios = self._share.ratios
        here, there = ratios(one.owner), ratios(other.owner)
        return one < other if here == there else here < there

    def any_fits(self, longest: Callable[[Shape], int]) -> bool:
        """Whether anything still fits, by the longest duration of a shape that may start now; else it is not asked."""
        for nest, shape in self._sources:
            if nest.count and (shape is None or longest(shape) >= nest.shortest_ms):
                return True
        self.nothing_fits()
        return False

    def nothing_fits(self) -> None:
        """None of what fitted does any more: only those are asked that may get a reservation."""
        self._sources, self._fitting = [], None

    def charged(self, owner: Owner) -> None:
        """A job of this owner was placed: the turns of those that share its ledgers are found anew."""
        if self._multi is not None:
            self._multi.charged(owner)
        if self._fitting is not None:
            self._fitting.charged(owner)
        if len(self._aged) > 1:
            self._rank()

    def no_more_multi(self) -> None:
        """The level's reservations are made: of jobs that need several GPUs only those that fit are asked."""
        self._multi = None
