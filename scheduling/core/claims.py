"""Which free GPUs are spoken for? Those that waiting jobs with required rules need, because they can go nowhere else.

Whoever can go elsewhere takes them last. The GPUs that suit a rule are scarce when a job would leave fewer of them free
than are asked for by that rule and by the rules that lie within it (Hall's condition, for rules that are nested).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduling.core.resources import AffinityTerm
    from scheduling.core.room import Room, Wanted
    from scheduling.core.view import View

MAX_CLAIMS = 32  # so many different rules are weighed; with more at once it would take longer than it gains
MAX_KNOWN = 1024

Suited = tuple[int, tuple["AffinityTerm", ...]]
"""Which GPUs suit: how many of the pool's memory sizes are too small, and the required rules."""


class Claim:
    """A rule of waiting jobs. ``need``: the GPUs that are asked for by it and by the rules that lie within it.

    ``above``: the rules that it lies within, itself too.
    """

    __slots__ = ("above", "cells", "gpus", "need", "view")

    def __init__(self, view: View, first: list[int]) -> None:
        self.view, self.need = view, 0
        self.above: list[Claim] = []
        self.gpus = gpus_of(view, first)
        self.cells = sum(1 << cell for cell, mask in enumerate(view.eligible) if mask)


class Claims:
    """How many GPUs the waiting jobs with required rules ask for, by what suits them."""

    __slots__ = ("_asked", "_claims", "_generation", "_rivals", "_room", "_stale")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._asked: dict[Suited, int] = {}
        self._stale, self._generation = False, -1  # of what follows
        self._claims: dict[Suited, Claim] = {}
        self._rivals: dict[Suited, list[Claim]] = {}

    def change(self, wanted: Wanted, sign: int) -> None:
        """A job that asks for this waits (``sign`` 1), or waits no more (-1)."""
        if not wanted.terms:
            return
        suited, count = self._room.suited(wanted), sign * wanted.count
        before = self._asked.get(suited, 0)
        after = self._asked[suited] = before + count
        if before and after:
            for each in self._claims[suited].above if suited in self._claims else ():
                each.need += count
            return
        self._stale = True
        if not after:
            del self._asked[suited]

    def against(self, wanted: Wanted) -> int:
        """The cells, as bits, that the job should leave to others as long as it can go elsewhere."""
        if not self._asked:
            return 0
        room, own, found = self._room, self._room.suited(wanted), 0
        if self._stale or self._generation != room.generation:
            self._renew()
        rivals = self._rivals.get(own)
        if rivals is None:
            ours = gpus_of(room.suited_view(own), room.inventory.first)
            if self._generation != room.generation:  # that view has pushed out the others
                self._renew()
            rivals = [claim for claim in self._claims.values() if ours & claim.gpus and ours & ~claim.gpus]
            if len(self._rivals) >= MAX_KNOWN:
                self._rivals.clear()
            self._rivals[own] = rivals
        for claim in rivals:
            claim.view.sync()
            if claim.view.free - wanted.count < claim.need:
                found |= claim.cells
        return found

    def _renew(self) -> None:
        """What follows from the rules is that of those which wait now."""
        room, rules = self._room, self._asked if len(self._asked) <= MAX_CLAIMS else {}
        kept = self._claims if self._generation == room.generation else {}
        self._generation = -1
        while self._generation != room.generation:  # a view more may push out all others, once
            self._generation = room.generation
            self._claims = {suited: kept.get(suited) or self._claim(suited) for suited in rules}
            kept = {}
        for claim in self._claims.values():
            claim.need, claim.above = 0, [each for each in self._claims.values() if not claim.gpus & ~each.gpus]
        for suited, claim in self._claims.items():
            for each in claim.above:
                each.need += self._asked[suited]
        self._rivals.clear()
        self._stale = False

    def _claim(self, suited: Suited) -> Claim:
        return Claim(self._room.suited_view(suited), self._room.inventory.first)


def gpus_of(view: View, first: list[int]) -> int:
    """The GPUs that suit, as bits. ``first``: the first GPU of each cell."""
    return sum(mask << first[cell] for cell, mask in enumerate(view.eligible))
