"""The free GPUs of the pool, and the views of them that requests ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy

from scheduling.core.claims import Claims, Suited
from scheduling.core.pool import Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.rules import holds
from scheduling.core.view import View

MAX_VIEWS = 512
NO_SUCH_MIB = 1 << 62  # more than any GPU has
MAX_LOG = 4096
NOTHING_AVOIDED: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class Pins:
    """GPUs that a job must leave out, as a mask per cell."""

    __slots__ = ("cell_bits", "cells", "node_bits")

    def __init__(self, cells: dict[int, int], node_of: list[int]) -> None:
        self.cells = cells
        self.cell_bits = 0
        self.node_bits = 0
        for cell in cells:
            self.cell_bits |= 1 << cell
            self.node_bits |= 1 << node_of[cell]


NO_PINS = Pins({}, [])


class Wanted:
    """What placing a job needs to know of it.

    ``confined``: a mask per cell it must stay in, or None; it follows from rules about groups and changes as jobs
    come and go. ``strict``: it still holds out for ``best_rung``, the best its request ever finds here (D18).
    """

    __slots__ = (
        "avoid_gpus", "avoid_nodes", "best_rung", "confined", "count", "exclusive", "generation", "is_gang", "is_plain",
        "need", "nodes", "nvlink", "remainder", "request", "room", "strict", "terms", "view", "wishes",
    )  # fmt: skip

    def __init__(
        self,
        request: ResourceRequest,
        *,
        avoid_gpus: frozenset[str] = frozenset(),
        avoid_nodes: frozenset[str] = frozenset(),
        all_exclusive: bool = False,
    ) -> None:
        self.request = request
        self.need, self.nodes, self.remainder = request.gpus_per_node, request.node_count, request.remainder
        self.count, self.is_gang = request.gpu_count, request.is_gang
        self.nvlink = request.nvlink_required
        self.exclusive = request.nvlink_exclusive or (all_exclusive and request.nvlink_required)
        self.terms, self.wishes = request.required_terms, request.preferred_terms
        self.avoid_gpus, self.avoid_nodes = avoid_gpus, avoid_nodes
        # Whether it is one set of GPUs on one node, with nothing to wish for: the common and the quick case.
        self.is_plain = not (self.is_gang or self.exclusive or request.allow_span or self.wishes)
        self.strict = False
        self.best_rung = 0
        self.confined: tuple[int, ...] | None = None
        self.view: View | None = None
        self.room: Room | None = None
        self.generation = -1

    def confined_to(self, cells: tuple[int, ...] | None) -> Wanted:
        """The same but for the places it must stay in: a mask per cell, or None for none."""
        found = copy(self)
        found.confined, found.view = cells, None
        return found

    def at_any_rung(self) -> Wanted:
        """The same, as when it holds out for no rung any more."""
        found = copy(self)
        found.strict = False
        return found


class Room:
    """Which GPUs are free. ``free`` and ``usable`` are masks per cell; ``log`` has (cell, free before) per change.

    ``opened`` counts how often any have become free. ``latest``: by when a cell's GPUs are all expected to be free,
    where that is known.
    """

    def __init__(self, pool: Pool, *, usable: frozenset[str], prefer: str = "whole_groups") -> None:
        self.pool, self.inventory, self.prefer = pool, pool.inventory, prefer
        self.usable = [0] * len(self.inventory.full)
        for gpu, uuid in enumerate(gpu.uuid for gpu in self.inventory.gpus):
            if uuid in usable:
                cell = self.inventory.cell_of[gpu]
                self.usable[cell] |= 1 << gpu - self.inventory.first[cell]
        self.free = list(self.usable)
        self.free_count = sum(mask.bit_count() for mask in self.free)
        self.log: list[tuple[int, int]] = []
        self.generation = self.opened = 0
        self.claims: Claims | None = None
        self.latest: Callable[[int], int] | None = None
        self._views: dict[object, View] = {}

    def take(self, cells: dict[int, int]) -> None:
        """The GPUs, given as a mask per cell, are no longer free; taking one twice is a bug."""
        for cell, mask in cells.items():
            free = self.free[cell]
            if mask & ~free:
                raise ValueError(f"GPUs of cell {cell} are given out twice: {mask & ~free:b}")
            self.log.append((cell, free))
            self.free[cell] = free ^ mask
            self.free_count -= mask.bit_count()

    def are_usable(self, cells: dict[int, int]) -> bool:
        """Whether all of these GPUs, given as a mask per cell, take work."""
        lacking = 0
        for cell, mask in cells.items():
            lacking |= mask & ~self.usable[cell]
        return not lacking

    def give(self, cells: dict[int, int]) -> None:
        """The GPUs are free again, those of them that are usable."""
        for cell, mask in cells.items():
            free = self.free[cell]
            if mask & free:
                raise ValueError(f"GPUs of cell {cell} are given back twice: {mask & free:b}")
            fit = mask & self.usable[cell]
            if fit:
                self.log.append((cell, free))
                self.free[cell] = free | fit
                self.free_count += fit.bit_count()
                self.opened += 1
        if len(self.log) > MAX_LOG:
            for view in self._views.values():
                view.sync()
                view.rewind()
            self.log.clear()

    @contextmanager
    def as_if_free(self, gpus: list[int]) -> Iterator[None]:
        """For as long as it lasts these GPUs are free and no others. Nothing else may be taken or given meanwhile."""
        free, count = self.free, self.free_count
        now = {cell: mask for cell, mask in enumerate(free) if mask} if count else {}
        then, length = dict.fromkeys(now, 0) | self.inventory.cells_of_gpus(gpus), len(self.log)
        self._set(then, len(gpus))
        try:
            yield
        finally:
            self._set(dict.fromkeys(then, 0) | now, count)
            for view in self._views.values():
                view.back_to(length)
            del self.log[length:]

    def _set(self, cells: dict[int, int], count: int) -> None:
        """Just these GPUs of the cells are free, ``count`` in all cells together."""
        for cell, mask in cells.items():
            if self.free[cell] != mask:
                self.log.append((cell, self.free[cell]))
                self.free[cell] = mask
        self.free_count = count

    def view(self, wanted: Wanted, *, wishes: int = 0, memory: int | None = None) -> View:
        """The view for a request with its first ``wishes`` preferred rules, of GPUs of one ``memory`` class or all."""
        plain = wishes == 0 and memory is None
        if plain and wanted.view is not None and wanted.room is self and wanted.generation == self.generation:
            return wanted.view
        terms = (*wanted.terms, *wanted.wishes[:wishes])
        avoided = NOTHING_AVOIDED
        if wanted.avoid_gpus or wanted.avoid_nodes:
            avoided = (tuple(sorted(wanted.avoid_gpus)), tuple(sorted(wanted.avoid_nodes)))
        key = (self._too_small(wanted), terms, avoided, wanted.confined, memory)
        view = self._views.get(key)
        if view is None:
            masks = self._eligible(wanted.request.gpu_memory_min_mib, terms, memory)
            view = self._kept(key, self._confine(masks, wanted))
        if plain:
            wanted.view, wanted.room, wanted.generation = view, self, self.generation
        return view

    def suited(self, wanted: Wanted) -> Suited:
        """Equal for requests that the same GPUs suit by their memory and their required rules."""
        return self._too_small(wanted), wanted.terms

    def suited_view(self, suited: Suited) -> View:
        """The view of the GPUs that suit by memory and required rules, until ``generation`` changes."""
        place, terms = suited
        key = (place, terms, NOTHING_AVOIDED, None, None)
        view = self._views.get(key)
        if view is None:
            least = (*self.inventory.memory_sizes, NO_SUCH_MIB)[place]
            view = self._kept(key, self._eligible(least, terms, None))
        return view

    def _too_small(self, wanted: Wanted) -> int:
        """How many of the memory sizes there are do not suffice."""
        return bisect_left(self.inventory.memory_sizes, wanted.request.gpu_memory_min_mib)

    def _kept(self, key: object, masks: list[int]) -> View:
        if len(self._views) >= MAX_VIEWS:
            self._views.clear()
            self.generation += 1
        view = self._views[key] = View(self, masks)
        return view

    def _eligible(self, least: int, terms: tuple[AffinityTerm, ...], memory: int | None) -> list[int]:
        """The installed GPUs with enough memory on which all terms hold, whether they are free or not."""
        inventory = self.inventory
        masks = [0] * len(inventory.full)
        for place, gpu in enumerate(inventory.gpus):
            if gpu.memory_mib < least or (memory is not None and inventory.memory_class[place] != memory):
                continue
            if terms and not all(holds(term, self.pool, gpu) for term in terms):
                continue
            cell = inventory.cell_of[place]
            masks[cell] |= 1 << place - inventory.first[cell]
        return masks

    def _confine(self, masks: list[int], wanted: Wanted) -> list[int]:
        inventory = self.inventory
        if wanted.confined is not None:
            masks = [mask & allowed for mask, allowed in zip(masks, wanted.confined, strict=True)]
        for cell, mask in self.masks_of(wanted.avoid_gpus).items():
            masks[cell] &= ~mask
        for name in sorted(wanted.avoid_nodes):
            for cell in inventory.cells_of[inventory.node_at[name]] if name in inventory.node_at else ():
                masks[cell] = 0
        return masks

    def masks_of(self, uuids: Iterable[str]) -> dict[int, int]:
        """GPUs given by UUID as a mask per cell; unknown and retired ones are left out."""
        known = self.inventory.gpu_at
        return self.inventory.cells_of_gpus([known[uuid] for uuid in sorted(uuids) if uuid in known])
