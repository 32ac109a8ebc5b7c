"""How many suitable GPUs are free where? One eligibility's counts per cell and node, kept by a log of changed cells.

For each count there is one big integer with a bit per cell (or node) that has exactly so many, so the tightest place
with at least g is a few machine operations away, whatever the size of the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bits import places_in
from scheduling.core.preference import CLAIMED_AT, LARGE, MIXED, Preference, kind_of, preference

if TYPE_CHECKING:
    from scheduling.core.room import Pins, Room

OUTLASTED = 1 << 80  # more than any time between two ends, in ms

Found = tuple[Preference, int]
Span = tuple[int, int]
"""From when until when a job would run, in ms."""


class View:
    """The free GPUs of a room among the eligible ones. ``eligible`` is a mask per cell."""

    __slots__ = (
        "_base", "_bits", "_by_group", "_codes", "_mixed", "_most", "_most_in_group", "_nodes_on", "_orders",
        "_position", "_room", "_stride", "by_count", "count", "eligible", "free", "memories", "node_bits", "node_count",
    )  # fmt: skip

    def __init__(self, room: Room, eligible: list[int]) -> None:
        inventory = room.inventory
        self._room, self.eligible = room, eligible
        cells = len(eligible)
        largest = max(inventory.size, default=0)
        self._stride = 2 * (largest + 1)
        self.memories: list[int] = []
        bases: dict[tuple[bool, int, int], int] = {}
        self._base = [0] * cells
        self._mixed: list[int] = []
        seen: set[int] = set()
        for cell, mask in enumerate(eligible):
            if not mask:
                continue
            classes = {inventory.memory_class[gpu] for gpu in inventory.gpus_in(cell, mask)}
            seen |= classes
            if len(classes) > 1:
                self._mixed.append(cell)
                self._base[cell] = -1
            else:
                base = (inventory.group_of[cell] == "", inventory.size[cell], classes.pop())
                self._base[cell] = bases.setdefault(base, len(bases)) * self._stride
        self.memories = sorted(seen)
        self._codes = list(bases)
        self._bits: dict[int, int] = {}
        self.by_count = [0] * (largest + 1)
        self._by_group = [0] * (largest + 1)
        self.count = [0] * cells
        self.free = 0  # of all cells together
        self._most = self._most_in_group = 0
        self._orders: dict[tuple[int, bool], dict[Preference, list[int]]] = {}
        self._nodes_on = False
        self.node_count: list[int] = []
        self.node_bits: list[int] = []
        for cell, mask in enumerate(eligible):
            if mask:
                self._moved(cell, 0)
        self._position = len(room.log)

    def sync(self) -> None:
        """The counts are those of the room as it is now."""
        log = self._room.log
        position, length = self._position, len(log)
        if position == length:
            return
        self._position = length
        if length - position == 1:
            self._moved(*log[position])
            return
        before: dict[int, int] = {}
        for cell, was_free in log[position:]:
            before.setdefault(cell, was_free)
        for cell, was_free in before.items():
            self._moved(cell, was_free)

    def _moved(self, cell: int, was_free: int) -> None:
        """The counts of one cell are those of now; ``was_free`` they are of."""
        eligible = self.eligible[cell]
        if not eligible:
            return
        room, bit, old, base = self._room, 1 << cell, self.count[cell], self._base[cell]
        inventory, free = room.inventory, room.free[cell]
        count = (free & eligible).bit_count()
        if base >= 0:
            bits, full = self._bits, inventory.full[cell]
            if old:
                bits[base + 2 * old + (was_free == full)] ^= bit
            if count:
                code = base + 2 * count + (free == full)
                if code in bits:
                    bits[code] |= bit
                else:
                    bits[code] = bit
                    self._orders.clear()
        if count == old:
            return
        self.count[cell] = count
        self.free += count - old
        self._most = _recount(self.by_count, bit, self._most, old=old, new=count)
        if inventory.group_of[cell]:
            self._most_in_group = _recount(self._by_group, bit, self._most_in_group, old=old, new=count)
        if self._nodes_on:
            node = inventory.node_of[cell]
            bit = 1 << node
            before = self.node_count[node]
            self.node_count[node] = after = before + count - old
            self.node_bits[before] ^= bit
            self.node_bits[after] ^= bit

    def rewind(self) -> None:
        """The log was emptied: start reading it from its beginning."""
        self._position = 0

    def back_to(self, position: int) -> None:
        """What the log has from there on, which leaves the room as it was, is read: it may go."""
        if self._position > position:
            self.sync()
            self._position = position

    def with_nodes(self) -> View:
        """The view, whose counts per node are kept from now on."""
        if self._position != len(self._room.log):
            self.sync()
        if not self._nodes_on:
            inventory = self._room.inventory
            self._nodes_on = True
            self.node_count = [sum(self.count[cell] for cell in cells) for cells in inventory.cells_of]
            self.node_bits = [0] * (inventory.largest_node + 1)
            for node, count in enumerate(self.node_count):
                self.node_bits[count] |= 1 << node
        return self

    @property
    def by_count_in_groups(self) -> list[int]:
        """For each count the cells of NVLink groups with so many free, as bits; those with none at 0."""
        self.sync()
        some = 0
        for bits in self._by_group[1:]:
            some |= bits
        return [self._room.inventory.group_bits & ~some, *self._by_group[1:]]

    def may_fit(self, need: int, *, nvlink: bool) -> bool:
        """False when no cell has ``need`` suitable GPUs free."""
        if self._position != len(self._room.log):
            self.sync()
        return need <= (self._most_in_group if nvlink else self._most)

    def has_place(self, need: int, *, nvlink: bool, pins: Pins) -> bool:
        """Whether a cell has ``need`` suitable GPUs free that are not pinned."""
        if not self.may_fit(need, nvlink=nvlink):
            return False
        if not pins.cells:
            return True
        open_cells = ~pins.cell_bits
        for bits in (self._by_group if nvlink else self.by_count)[need:]:
            if bits & open_cells:
                return True
        room, count = self._room, self.count
        for cell, mask in pins.cells.items():
            if count[cell] < need or (nvlink and not room.inventory.group_of[cell]):
                continue
            if (room.free[cell] & self.eligible[cell] & ~mask).bit_count() >= need:
                return True
        return False

    def best_cell(
        self, need: int, *, nvlink: bool, pins: Pins, claimed: int = 0, span: Span | None = None
    ) -> int | None:
        """The cell a job of ``need`` GPUs is best placed in, leaving out the pinned GPUs; None if there is none.

        ``claimed``: the cells, as bits, that others need more. ``span``: when it would run. With it, of equally good
        large groups that one is taken whose jobs end with it, unless the pool has small groups: those take most of
        what would break large ones, and lining up the rest gains large jobs less than it costs all others.
        """
        if not self.may_fit(need, nvlink=nvlink):
            return None
        best = self._best_unpinned(need, nvlink=nvlink, hidden=pins.cell_bits, claimed=claimed)
        for cell in (*pins.cells, *self._mixed) if pins.cells or self._mixed else ():
            if self.count[cell] < need:
                continue
            found = self._judge(cell, need, nvlink=nvlink, pins=pins, claimed=claimed >> cell & 1)
            if found is not None and (best is None or found < best):
                best = found
        if best is None:
            return None
        key = best[0]
        if span is None or key[0] != LARGE or key[1] != 0 or not self._aligns:
            return best[1]
        return self._aligned(key, need, nvlink=nvlink, pins=pins, claimed=claimed, span=span)

    @property
    def _aligns(self) -> bool:
        room = self._room
        return room.latest is not None and room.prefer == "whole_groups" and not room.inventory.has_small_groups

    def _aligned(self, best: Preference, need: int, *, nvlink: bool, pins: Pins, claimed: int, span: Span) -> int:
        """Of the cells that are equally good the one whose jobs the new one outlasts the least.

        So that a cell is whole again soon. Of those that it doesn't outlast: the one with the least time between the
        two ends, then the lowest index.
        """
        at, bits, all_bits = CLAIMED_AT[self._room.prefer], 0, self._bits
        free_of_claims = (*best[:at], 0, *best[at + 1 :]) if best[at] else best
        for code in self._orders[(need, nvlink)].get(free_of_claims, ()):
            bits |= all_bits[code]
        bits &= ~pins.cell_bits & (claimed if best[at] else ~claimed)
        cells = places_in(bits)
        for cell in (*pins.cells, *self._mixed) if pins.cells or self._mixed else ():
            found = self._judge(cell, need, nvlink=nvlink, pins=pins, claimed=claimed >> cell & 1)
            if found is not None and found[0] == best:
                cells.append(cell)
        if len(cells) == 1:
            return cells[0]
        latest = self._room.latest
        assert latest is not None  # noqa: S101  :meth:`_aligns`
        now, until = span
        lowest, least = -1, 2 * OUTLASTED
        for cell in cells:
            end = latest(cell)
            if end < now:
                end = now
            gap = end - until if end >= until else OUTLASTED + until - end
            if gap < least or (gap == least and cell < lowest):
                lowest, least = cell, gap
        return lowest

    def _best_unpinned(self, need: int, *, nvlink: bool, hidden: int, claimed: int) -> Found | None:
        order = self._orders.get((need, nvlink))
        if order is None:
            order = self._orders[(need, nvlink)] = self._ordered(need, nvlink=nvlink)
        all_bits, at = self._bits, CLAIMED_AT[self._room.prefer]
        spare: Found | None = None
        for key, codes in order.items():
            if spare is not None and key[:at] != spare[0][:at]:
                break
            bits = 0
            for code in codes:
                bits |= all_bits[code]
            bits &= ~hidden
            if bits & ~claimed:
                bits &= ~claimed
                return key, (bits & -bits).bit_length() - 1
            if bits and spare is None:
                spare = (*key[:at], 1, *key[at + 1 :]), (bits & -bits).bit_length() - 1
        return spare

    def _ordered(self, need: int, *, nvlink: bool) -> dict[Preference, list[int]]:
        """The classes of cells that have occurred and hold ``need``, the best first; equally good ones together."""
        found: dict[Preference, list[int]] = {}
        for code in sorted(self._bits):
            base, rest = divmod(code, self._stride)
            loose, size, tier = self._codes[base]
            free = rest >> 1
            if free < need or (nvlink and loose):
                continue
            key = preference(
                self._room.prefer, kind=kind_of(size, self._room.inventory.largest_group, loose=loose),
                whole=bool(rest & 1), size=size, tier=tier, free=free, need=need,
            )  # fmt: skip
            found.setdefault(key, []).append(code)
        return dict(sorted(found.items()))

    def _judge(self, cell: int, need: int, *, nvlink: bool, pins: Pins, claimed: int) -> Found | None:
        """One cell looked at by itself: pinned in part, or with memory of several classes."""
        inventory = self._room.inventory
        loose = inventory.group_of[cell] == ""
        open_here = self._room.free[cell] & ~pins.cells.get(cell, 0)
        suited = open_here & self.eligible[cell]
        free = suited.bit_count()
        if free < need or (nvlink and loose):
            return None
        whole = open_here == inventory.full[cell]
        key = preference(
            self._room.prefer, kind=kind_of(inventory.size[cell], inventory.largest_group, loose=loose),
            whole=whole, size=inventory.size[cell],
            tier=tier_of(self._room, cell, suited, need=need), free=free, need=need, claimed=claimed,
        )  # fmt: skip
        return key, cell


def _recount(by_count: list[int], bit: int, most: int, *, old: int, new: int) -> int:
    """The cell of this bit has ``new`` free and no longer ``old``; returns the most that any has."""
    if old:
        by_count[old] ^= bit
    if new:
        by_count[new] |= bit
        if new > most:
            return new
    while most and not by_count[most]:
        most -= 1
    return most


def tier_of(room: Room, cell: int, mask: int, *, need: int) -> int:
    """The smallest memory class of which ``need`` GPUs of the mask are; ``MIXED`` when classes must be mixed."""
    counts: dict[int, int] = {}
    for gpu in room.inventory.gpus_in(cell, mask):
        memory = room.inventory.memory_class[gpu]
        counts[memory] = counts.get(memory, 0) + 1
    return min((memory for memory, count in counts.items() if count >= need), default=MIXED)
