"""Where the reference policies put a job: counts of free GPUs by node, best fit, and when a blocked job could start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Take = tuple[tuple[int, int], ...]
"""(node, GPUs taken there), one for each node."""
Need = tuple[int, int, int]
"""So many nodes with so many GPUs each, and the GPUs of one node more (0 for none)."""


class FreeCounts:
    """How many GPUs are free on each node, with the nodes of equal count as one bit set."""

    __slots__ = ("free", "masks", "total")

    def __init__(self, free: Iterable[int], largest: int) -> None:
        self.free = list(free)
        self.total = sum(self.free)
        self.masks = [0] * (largest + 1)
        for node, count in enumerate(self.free):
            self.masks[count] |= 1 << node

    def copy(self) -> FreeCounts:
        """An equal one that changes on its own."""
        made = FreeCounts.__new__(FreeCounts)
        made.free, made.masks, made.total = self.free[:], self.masks[:], self.total
        return made

    def add(self, node: int, gpus: int) -> None:
        """``gpus`` more are free on the node (fewer, when negative)."""
        bit, before = 1 << node, self.free[node]
        self.masks[before] ^= bit
        self.masks[before + gpus] ^= bit
        self.free[node] = before + gpus
        self.total += gpus

    def change(self, take: Take, sign: int) -> None:
        """Takes (``sign`` -1) or gives back (+1) what a job holds."""
        for node, gpus in take:
            self.add(node, sign * gpus)

    def fits(self, need: Need) -> bool:
        """Whether such a job could start on what is free."""
        nodes, each, rest = need
        full = sum(mask.bit_count() for mask in self.masks[each:])
        return full >= nodes and (rest == 0 or sum(mask.bit_count() for mask in self.masks[rest:]) > nodes)

    def best_fit(self, need: Need) -> Take | None:
        """The nodes with the fewest free GPUs that suffice, the first of equals; None if it doesn't fit."""
        nodes, each, rest = need
        if nodes == 1 and not rest:
            mask = next((mask for mask in self.masks[each:] if mask), 0)
            return (((mask & -mask).bit_length() - 1, each),) if mask else None
        if not self.fits(need):
            return None
        taken = [(node, each) for node in self._tightest(each, nodes, 0)]
        if rest:
            taken += [(node, rest) for node in self._tightest(rest, 1, sum(1 << node for node, _ in taken))]
        return tuple(taken)

    def _tightest(self, each: int, nodes: int, without: int) -> list[int]:
        found: list[int] = []
        for mask in self.masks[each:]:
            left = mask & ~without
            while left:
                found.append((left & -left).bit_length() - 1)
                if len(found) == nodes:
                    return found
                left &= left - 1
        raise AssertionError("fits() promised these nodes")


def shadow(now: FreeCounts, ends: Sequence[tuple[int, Take]], need: Need) -> tuple[int, FreeCounts]:
    """When the job fits if nothing else starts, and what is free then.

    ``ends``: (end, take) of everything that runs, by end. All that ends at that very instant counts.
    """
    then = now.copy()
    reached = None
    _, each, rest = need
    least = rest or each
    for end, take in ends:
        if reached is not None and end > reached:
            break
        crossed = False
        for node, gpus in take:
            before = then.free[node]
            then.add(node, gpus)
            crossed = crossed or before < each <= before + gpus or before < least <= before + gpus
        if reached is None and crossed and then.fits(need):
            reached = end
    if reached is None:
        raise ValueError("the job does not fit the empty cluster: leave it out of the trace")
    return reached, then
