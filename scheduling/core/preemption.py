"""Whom to evict for a job that has the right to? The cheapest victims inside one place it then fits in (D7, D10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduling.core.bookings import Bookings
from scheduling.core.gang_victims import Node, cheapest_nodes
from scheduling.core.gangs import GROUP, RACK, rungs_of
from scheduling.core.group_times import earliest_of
from scheduling.core.placement import take_whole_cell
from scheduling.core.reservations import Asked
from scheduling.core.room import Pins
from scheduling.core.victims import Victim, by_greatest_id, cheapest_domain
from scheduling.core.view import View
from scheduling.core.waiting import Queued

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler


FAR_MS = 1 << 42  # longer than any time limit


@dataclass(frozen=True, slots=True)
class Choice:
    """The victims, and exactly the GPUs the job then gets: free ones and theirs."""

    victims: tuple[Held, ...]
    gpus: list[int]


@dataclass(frozen=True, slots=True)
class Patience:
    """Victims would make room, but waiting is as fast (4.3.3): without any, its GPUs are free at ``free_at_ms``; so
    many ``victims`` may save for ``save_ms``."""

    free_at_ms: int
    victims: int
    save_ms: int


def grace_ms(scheduler: Scheduler, held: Held) -> int:
    """How long the job is expected to take for saving: as measured, else its queue's grace."""
    seconds = scheduler.policy.grace_s(held.owner[0]) if held.save_s is None else held.save_s
    return round(seconds * 1000)


def evictable(scheduler: Scheduler, queued: Queued) -> list[Held]:
    """The running jobs that this one may evict now, by id."""
    return [held for held in within_its_rights(scheduler, queued) if not runs_on(scheduler, held)]


def runs_on(scheduler: Scheduler, held: Held) -> bool:
    """Whether the job, which was asked to leave, did not save and is not stopped before it does (D8)."""
    return held.asked_in_vain and not held.leaving and scheduler.policy.never_without_checkpoint(held.owner[0])


def within_its_rights(scheduler: Scheduler, queued: Queued) -> list[Held]:
    """The running jobs that the rules let it evict, by id, also those that would not be stopped for it now.

    What starts in this very cycle does not run yet: so it is with one that gets back the GPUs that it left in vain.
    """
    queue, level = queued.job.queue, queued.job.level
    allowed = {
        (rule.victim_queue, rule.victim_level)
        for rule in scheduler.policy.preemption
        if rule.queue == queue and rule.level == level
    }
    found = [
        held
        for held in scheduler.live.values()
        if held.running
        and held.started_in != scheduler.cycles
        and held.preemptible
        and not held.preempting
        and (held.owner[0], held.level) in allowed
    ]
    return sorted(found, key=lambda held: held.id)


def choose_victims(
    scheduler: Scheduler, bookings: Bookings, queued: Queued, *, pins: Pins, now_ms: int
) -> Choice | Patience | None:
    """The cheapest set that makes room, or that waiting is as fast as evicting it; None when no set makes room."""
    candidates = evictable(scheduler, queued)
    if not candidates:
        return None
    choice = cheapest(scheduler, queued, candidates, pins=pins, now_ms=now_ms)
    if choice is None:
        return None
    asked = Asked(queued.shape.wanted, queued.owner[1], queued.duration_ms)
    by_itself = earliest_of(scheduler, bookings, queued.shape, asked)
    save_ms = max(grace_ms(scheduler, held) for held in choice.victims)
    if by_itself is not None and by_itself[0] <= now_ms + save_ms:
        return Patience(max(by_itself[0], now_ms), len(choice.victims), save_ms)
    return choice


def cheapest(scheduler: Scheduler, queued: Queued, candidates: list[Held], *, pins: Pins, now_ms: int) -> Choice | None:
    """The cheapest set of the candidates that makes room; None when none does."""
    return _Search(scheduler, queued, candidates, pins=pins, now_ms=now_ms).best() if candidates else None


def protected_until(scheduler: Scheduler, held: Held) -> int | None:
    """The instant in ms until which the job is protected for having run so short a time; None for one that is so for
    having made way often, which no time of its own ends."""
    policy = scheduler.policy.evict
    if held.recent_preemptions >= policy.protect_times:
        return None
    return held.started_ms + round(max(policy.protect_s, held.checkpoint_interval_s) * 1000)


def cost_of(scheduler: Scheduler, held: Held, *, queue: str, now_ms: int) -> tuple[int, ...]:
    """What evicting the job costs a preemptor of ``queue``: the smaller, the better, compared from the left.

    Protection (D10), one count per level above the lowest, the other queue, GPU-ms lost since the last checkpoint or
    the start with the time to restore, one, and how little of its time limit is left: of victims that lose the same,
    the one goes whose GPUs are freed for the longest, and those that are about to end are spared.
    """
    policy = scheduler.policy.evict
    ran = max(0, now_ms - held.started_ms)
    young = ran < max(policy.protect_s, held.checkpoint_interval_s) * 1000
    protected = young or held.recent_preemptions >= policy.protect_times
    counts = scheduler.level_counts.get(held.level_value) or scheduler.level_counts[0]
    left = max(0, held.end_ms - now_ms)
    return (int(protected), *counts, int(held.owner[0] != queue), held.lost_ms(now_ms), 1, FAR_MS - left)


class _Search:
    """One preemptor's question: what is free for it, what its victims would free, place by place."""

    def __init__(
        self, scheduler: Scheduler, queued: Queued, candidates: list[Held], *, pins: Pins, now_ms: int
    ) -> None:
        room, inventory = scheduler.room, scheduler.inventory
        self._scheduler, self._wanted, self._pins = scheduler, queued.shape.wanted, pins
        self._view: View = room.view(self._wanted)
        self._held = {held.id: held for held in candidates}
        self._victims = {
            held.id: Victim(held.id, cost_of(scheduler, held, queue=queued.job.queue, now_ms=now_ms))
            for held in candidates
        }
        self._frees: dict[int, dict[str, int]] = {}  # by cell: the mask each victim would free for this job
        for held in candidates:
            for cell, mask in held.cells.items():
                left = self._suited(cell, mask)
                if left:
                    self._frees.setdefault(cell, {})[held.id] = left
        self._cells_of = inventory.cells_of

    def _suited(self, cell: int, mask: int) -> int:
        usable = self._scheduler.room.usable[cell]
        whole = self._wanted.exclusive and not self._wanted.request.is_gang
        eligible = usable if whole else self._view.eligible[cell]
        return mask & usable & eligible & ~self._pins.cells.get(cell, 0)

    def best(self) -> Choice | None:
        """The cheapest victims and the GPUs, or None."""
        wanted = self._wanted
        if wanted.request.is_gang:
            return self._gang()
        if wanted.exclusive:
            return self._whole_group()
        inventory = self._scheduler.inventory
        if wanted.request.allow_span:
            places = [list(range(len(inventory.full)))]
        elif wanted.nvlink:
            places = [[cell] for cell in sorted(self._frees) if inventory.group_of[cell]]
        else:
            places = [self._cells_of[node] for node in sorted({inventory.node_of[cell] for cell in self._frees})]
        need = wanted.request.gpu_count
        found = cheapest_domain((need - self._free_in(cells), self._items(cells)) for cells in places)
        if found is None:
            return None
        gpus = self._gpus(places[found.place], found.victims, need=need)
        return Choice(self._chosen(found.victims), gpus)

    def _free_in(self, cells: Iterable[int]) -> int:
        free = self._scheduler.room.free
        return sum(self._suited(cell, free[cell]).bit_count() for cell in cells)

    def _weights(self, cells: Iterable[int]) -> dict[str, int]:
        weights: dict[str, int] = {}
        for cell in cells:
            for victim, mask in self._frees.get(cell, {}).items():
                weights[victim] = weights.get(victim, 0) + mask.bit_count()
        return weights

    def _items(self, cells: Iterable[int]) -> list[tuple[int, Victim]]:
        return [(weight, self._victims[victim]) for victim, weight in self._weights(cells).items()]

    def _chosen(self, victims: Iterable[Victim]) -> tuple[Held, ...]:
        return tuple(self._held[victim.id] for victim in victims)

    def _gpus(self, cells: Iterable[int], victims: Iterable[Victim], *, need: int) -> list[int]:
        """``need`` GPUs of the cells: free ones first, then those of the victims."""
        inventory, free = self._scheduler.inventory, self._scheduler.room.free
        ids = [victim.id for victim in victims]
        open_now: list[int] = []
        freed: list[int] = []
        for cell in cells:
            open_now += inventory.gpus_in(cell, self._suited(cell, free[cell]))
            mask = 0
            for victim in ids:
                mask |= self._frees.get(cell, {}).get(victim, 0)
            freed += inventory.gpus_in(cell, mask)
        return (open_now + freed)[:need]

    def _whole_group(self) -> Choice | None:
        """All GPUs of one group, those that are free and the rest from victims."""
        room, inventory = self._scheduler.room, self._scheduler.inventory
        need = self._wanted.need
        places = [
            cell
            for cell in sorted(self._frees)
            if inventory.whole_group[cell]
            and room.usable[cell] == inventory.full[cell]
            and cell not in self._pins.cells
            and self._view.eligible[cell].bit_count() >= need
        ]
        found = cheapest_domain(
            (inventory.size[cell] - room.free[cell].bit_count(), self._items([cell])) for cell in places
        )
        if found is None:
            return None
        cell = places[found.place]
        return Choice(self._chosen(found.victims), take_whole_cell(room, cell, self._view.eligible[cell], need=need))

    def _gang(self) -> Choice | None:
        inventory, wanted = self._scheduler.inventory, self._wanted
        _, highest = rungs_of(self._scheduler.room, wanted)
        if highest == GROUP:
            scopes = [[[cell] for cell in inventory.group_cells[group]] for group in inventory.spanning]
        elif highest == RACK:
            scopes = [[self._cells_of[node] for node in nodes] for nodes in inventory.nodes_of_rack.values()]
        else:
            scopes = [self._cells_of]
        best: tuple[tuple[int, ...], tuple[str, ...]] | None = None
        choice: Choice | None = None
        for places in scopes:
            nodes = [self._node(cells) for cells in places]
            found = cheapest_nodes(
                wanted.nodes, nodes, self._victims, rest=wanted.remainder > 0, below=None if best is None else best[0]
            )
            if found is None:
                continue
            key = (found.cost, by_greatest_id(found.victims))
            if best is None or key < best:
                best = key
                gpus: list[int] = []
                for node in found.nodes:
                    gpus += self._gpus(places[node], found.victims, need=wanted.need)
                if found.rest is not None:
                    gpus += self._gpus(places[found.rest], found.victims, need=wanted.remainder)
                choice = Choice(self._chosen(found.victims), gpus)
        return choice

    def _node(self, cells: list[int]) -> Node:
        free = self._free_in(cells)
        weights: Mapping[str, int] = self._weights(cells)
        items = tuple((weight, victim) for victim, weight in weights.items())
        return Node(self._wanted.need - free, items, self._wanted.remainder - free)
