"""Which victims make several nodes ready for a gang: a bounded branch and bound over the victims that span nodes.

The nodes are coupled only by victims on several of them. With those decided, every node has an exact cheapest cover
and the cheapest nodes are an optimum. While one is undecided, each of its nodes is charged an equal share of its
price; no set of victims can cost less than the covers at these charges (the bound of a relaxed fixed charge). Every
step also rounds its covers up to whole victims, which gives a choice that can be used.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from scheduling.core.victims import Cost, Prices, Victim, cheapest_weights, total_cost

STEPS = 128  # bounds worked out per call: most calls end long before, the rest within some ten milliseconds

Cover = tuple[int, tuple[int, ...]]
Pick = tuple[int, int]  # (kind, place): for WHOLE a node that gives a full share, for REST the one of the remainder
WHOLE, REST = 0, 1


@dataclass(frozen=True, slots=True)
class Node:
    """A node that the gang could use: GPUs still missing for a full share, 0 or less when it is ready as it is.

    ``items``: what each victim, named once, frees here. ``need_rest``: GPUs missing for the remainder, at most
    ``need``; it counts only where a remainder is asked for.
    """

    need: int
    items: tuple[tuple[int, str], ...]
    need_rest: int = 0


@dataclass(frozen=True, slots=True)
class GangChoice:
    """Victims by id, and the positions of the nodes that they make ready, the remainder's apart."""

    cost: Cost
    victims: tuple[Victim, ...]
    nodes: tuple[int, ...]
    rest: int | None = None


def cheapest_nodes(
    count: int,
    nodes: Sequence[Node],
    victims: Mapping[str, Victim],
    *,
    rest: bool = False,
    below: Cost | None = None,
) -> GangChoice | None:
    """Victims that make ``count`` nodes ready, and with ``rest`` one more for the remainder, at least cost.

    A victim costs once and frees its GPUs on all its nodes. No victim can be left out of the choice. It is the
    cheapest when the search ends within ``STEPS``, else the best found. Of the ready nodes the first are taken.
    None when it is impossible, or not for less than ``below``. ``victims`` by id has at least those of the items.
    ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError("count: a gang needs at least 1 node with a full share")
    ids = sorted({victim for node in nodes for _, victim in node.items})
    prices = Prices([victims[victim].cost for victim in ids])
    limit = None if below is None else prices.limit(below) if ids else int(any(below))
    problem = _Problem(count, nodes, ids, [prices.of(victims[victim].cost) for victim in ids], rest=rest)
    chosen = _Search(problem, limit).best()
    if chosen is None:
        return None
    evicted = tuple(victims[ids[victim]] for victim in chosen)
    ready, remainder = problem.ready_nodes(chosen)
    parts = len(next(iter(victims.values())).cost) if victims else 0
    return GangChoice(total_cost(evicted) or (0,) * parts, evicted, ready, remainder)


class _Problem:
    """The nodes and victims as numbers; victims in the order of their ids."""

    def __init__(self, count: int, nodes: Sequence[Node], ids: list[str], prices: list[int], *, rest: bool) -> None:
        number = {victim: place for place, victim in enumerate(ids)}
        self.count = count
        self.kinds = (WHOLE, REST) if rest else (WHOLE,)
        self.needs = ([node.need for node in nodes], [min(node.need, node.need_rest) for node in nodes])
        self.items = [[(number[victim], weight) for weight, victim in node.items if weight > 0] for node in nodes]
        self.prices = prices
        self.where: list[list[tuple[int, int]]] = [[] for _ in ids]
        for place, items in enumerate(self.items):
            items.sort()
            for victim, weight in items:
                self.where[victim].append((place, weight))
        self._ready = [sum(need <= 0 for need in needs) for needs in self.needs]

    def price(self, chosen: Sequence[int]) -> int:
        return sum(self.prices[victim] for victim in chosen)

    def minimal(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """What is left of victims that suffice when each that can be spared is dropped, the dearest first."""
        freed: dict[int, int] = {}
        ready = list(self._ready)
        for victim in chosen:
            self._free(freed, ready, victim, 1)
        kept = sorted(chosen)
        for victim in sorted(chosen, key=lambda victim: (self.prices[victim], victim), reverse=True):
            self._free(freed, ready, victim, -1)
            if all(ready[kind] >= self.count + kind for kind in self.kinds):
                kept.remove(victim)
            else:
                self._free(freed, ready, victim, 1)
        return tuple(kept)

    def _free(self, freed: dict[int, int], ready: list[int], victim: int, sign: int) -> None:
        for place, weight in self.where[victim]:
            before = freed.get(place, 0)
            after = freed[place] = before + sign * weight
            for kind in self.kinds:
                need = self.needs[kind][place]
                ready[kind] += (after >= need) - (before >= need)

    def ready_nodes(self, chosen: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
        """The first nodes that are ready without the chosen victims, and the one of the remainder."""
        freed: dict[int, int] = {}
        for victim in chosen:
            for place, weight in self.where[victim]:
                freed[place] = freed.get(place, 0) + weight
        places = range(len(self.items))
        whole, some = ([p for p in places if freed.get(p, 0) >= needs[p]] for needs in self.needs)
        if REST not in self.kinds:
            return tuple(whole[: self.count]), None
        # A node that has room for the remainder only is no loss to the others.
        full = frozenset(whole)
        remainder = next((place for place in some if place not in full), whole[-1])
        return tuple([place for place in whole if place != remainder][: self.count]), remainder


@dataclass(slots=True)
class _State:
    """Some victims decided: the covers of every node at the charges of the others, and the nodes in their order."""

    taken: frozenset[int]
    barred: frozenset[int]
    spent: int
    covers: tuple[list[Cover | None], ...]
    order: tuple[list[tuple[int, int]], ...]
    bound: int = 0
    picks: tuple[Pick, ...] = ()


class _Search:
    """Best first over states, within ``STEPS``."""

    def __init__(self, problem: _Problem, limit: int | None) -> None:
        self._problem = problem
        self._limit = limit
        self._found: tuple[int, ...] | None = None
        self._steps = 0
        self._use_places(list(range(len(problem.items))))

    def best(self) -> tuple[int, ...] | None:
        """The victims of the best choice, or None."""
        root, hasty = self._root(hasty=True), True
        while root is not None and self._limit is not None:
            kept = self._worthwhile(root, self._limit)
            if len(kept) == len(self._places) and not hasty:
                break
            self._use_places(kept)
            root, hasty = self._root(), False
        heap: list[tuple[int, int, _State]] = [] if root is None else [(root.bound, 0, root)]
        pushed = 0
        while heap and self._steps < STEPS:
            bound, _, state = heappop(heap)
            if self._limit is not None and bound >= self._limit:
                break
            victim = self._undecided(state)
            if victim is None:  # every victim in the covers is charged in full: the rounding was exact
                continue
            for take in (False, True):
                child = self._child(state, victim, take=take)
                if child is not None:
                    pushed -= 1  # of equal bounds the newest first: it has the most decided
                    heappush(heap, (child.bound, pushed, child))
        return self._found

    def _use_places(self, places: list[int]) -> None:
        """Only these nodes may be picked; a victim's price is shared by those of them that it can help."""
        problem = self._problem
        self._places = places
        self._where: dict[int, list[int]] = {}
        for place in places:
            for victim, _ in problem.items[place]:
                self._where.setdefault(victim, []).append(place)
        most = problem.count + len(problem.kinds) - 1
        self._shares = {victim: min(most, len(where)) for victim, where in self._where.items()}
        self._charge = {victim: problem.prices[victim] // share for victim, share in self._shares.items()}

    def _root(self, *, hasty: bool = False) -> _State | None:
        """Nothing decided. ``hasty``: nodes that are too dear to be picked get no cover, only a floor."""
        problem = self._problem
        size = len(problem.items)
        covers: tuple[list[Cover | None], ...] = tuple([None] * size for _ in problem.kinds)
        state = _State(frozenset(), frozenset(), 0, covers, tuple([] for _ in problem.kinds))
        self._floors: list[list[tuple[int, int]]] = []
        for kind in problem.kinds:
            order = state.order[kind]
            floors = sorted((self._floor(kind, place), place) for place in self._places)
            seen = 0
            for floor, place in floors:
                if hasty and len(order) > problem.count and order[problem.count][0] <= floor:
                    break
                seen += 1
                found = covers[kind][place] = self._cover(state, kind, place)
                if found is not None:
                    insort(order, (found[0], place))
            self._floors.append(floors[seen:])
        return self._weighed(state)

    def _floor(self, kind: int, place: int) -> int:
        """What the node costs at least: its need at the best price per GPU."""
        need = self._problem.needs[kind][place]
        if need <= 0:
            return 0
        charge = self._charge
        return min(
            (charge[victim] * need // min(weight, need) for victim, weight in self._problem.items[place]), default=0
        )

    def _child(self, state: _State, victim: int, *, take: bool) -> _State | None:
        decided = frozenset([victim])
        child = _State(
            state.taken | decided if take else state.taken,
            state.barred if take else state.barred | decided,
            state.spent + (self._problem.prices[victim] if take else 0),
            tuple(list(covers) for covers in state.covers),
            tuple(list(order) for order in state.order),
        )
        for kind in self._problem.kinds:
            order = child.order[kind]
            for place in self._where[victim]:
                before = child.covers[kind][place]
                after = child.covers[kind][place] = self._cover(child, kind, place)
                if before is not None:
                    del order[bisect_left(order, (before[0], place))]
                if after is not None:
                    insort(order, (after[0], place))
        return self._weighed(child)

    def _cover(self, state: _State, kind: int, place: int) -> Cover | None:
        need = self._problem.needs[kind][place]
        if need <= 0:
            return 0, ()
        charge, taken, barred = self._charge, state.taken, state.barred
        still: list[tuple[int, int]] = []
        names: list[int] = []
        for victim, weight in self._problem.items[place]:
            if victim in taken:
                need -= weight
            elif victim not in barred:
                still.append((weight, charge[victim]))
                names.append(victim)
        found = cheapest_weights(need, still)
        return None if found is None else (found[0], tuple(names[item] for item in found[1]))

    def _weighed(self, state: _State) -> _State | None:
        """The state with its bound and picks, its rounding remembered if better; None when it can't lead to better."""
        self._steps += 1
        picked = self._pick(state)
        if picked is None:
            return None
        state.bound, state.picks = state.spent + picked[0], picked[1]
        if self._limit is not None and state.bound >= self._limit:
            return None
        used = {victim for kind, place in state.picks for victim in (state.covers[kind][place] or (0, ()))[1]}
        chosen = self._problem.minimal(sorted(used | state.taken))
        price = self._problem.price(chosen)
        if self._limit is None or price < self._limit:
            self._limit, self._found = price, chosen
        return state

    def _pick(self, state: _State) -> tuple[int, tuple[Pick, ...]] | None:
        """The nodes whose covers cost least together, and that cost."""
        count = self._problem.count
        order = state.order[WHOLE]
        if len(order) < count:
            return None
        first = order[:count]
        spent = sum(price for price, _ in first)
        whole = [place for _, place in first]
        if REST not in self._problem.kinds:
            return spent, tuple((WHOLE, place) for place in whole)
        inside = frozenset(whole)
        options = [(spent + price, place, place) for price, place in state.order[REST] if place not in inside][:1]
        if len(order) > count:  # one of the first gives the remainder and the next takes its place
            next_price, next_place = order[count]
            for price, place in first:
                rest = state.covers[REST][place]
                if rest is not None:
                    options.append((spent - price + next_price + rest[0], place, next_place))
        if not options:
            return None
        total, remainder, extra = min(options)
        places = [place for place in (*whole, extra) if place != remainder]
        return total, (*((WHOLE, place) for place in places), (REST, remainder))

    def _worthwhile(self, root: _State, limit: int) -> list[int]:
        """The nodes that a choice cheaper than the limit may need: forced in, they don't break it."""
        count = self._problem.count
        whole = [price for price, _ in root.order[WHOLE][:count]]
        rest = root.order[REST][0][0] if REST in self._problem.kinds else 0
        others = (sum(whole[:-1]) + rest, sum(whole))
        kept: set[int] = set()
        for kind in self._problem.kinds:
            room = limit - others[kind]
            kept.update(place for price, place in (*root.order[kind], *self._floors[kind]) if price < room)
        return sorted(kept)

    def _undecided(self, state: _State) -> int | None:
        """The victim whose price is charged least in full by the covers picked; None when all are."""
        uses: dict[int, int] = {}
        for kind, place in state.picks:
            for victim in (state.covers[kind][place] or (0, ()))[1]:
                uses[victim] = uses.get(victim, 0) + 1
        missing = [
            (self._problem.prices[victim] - times * self._charge[victim], -victim)
            for victim, times in uses.items()
            if times < self._shares[victim]
        ]
        return -max(missing)[1] if missing else None
