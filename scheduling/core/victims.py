"""Which victims make room in one place at the least cost: exact arithmetic that knows nothing of pools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import mul

Cost = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Victim:
    """A job that may be evicted.

    ``cost``: that of evicting the whole job, wherever its GPUs lie. Costs are compared from the left and added part
    by part; no part is negative, and all costs of one call have the same number of parts.
    """

    id: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class DomainChoice:
    """The cheapest place: its position among the domains given, and the victims, by id, that make room there."""

    place: int
    cost: Cost
    victims: tuple[Victim, ...]


class Prices:
    """Costs as single integers that add and compare as the costs do, in sums over different victims.

    Each part has the bits that the sum of that part over all the victims needs, so no sum carries into the next part.
    """

    def __init__(self, costs: Collection[Cost]) -> None:
        """``costs``: one for each victim. ValueError when a part is negative."""
        columns = list(zip(*costs, strict=True))
        if any(min(column) < 0 for column in columns):
            raise ValueError("cost of a victim: every part must be 0 or more; clip ages and losses at 0")
        self._totals = [sum(column) for column in columns]
        scales, above = [], 1
        for total in reversed(self._totals):
            scales.append(above)
            above <<= (total + 1).bit_length()
        self._scales = scales[::-1]

    def of(self, cost: Cost) -> int:
        """The price of one victim."""
        return sum(map(mul, self._scales, cost))

    def limit(self, cost: Cost) -> int:
        """A price that sums of the victims are below exactly when their cost is below ``cost``, whatever its parts."""
        for place, (part, total) in enumerate(zip(cost, self._totals, strict=True)):
            if part > total:  # every sum is below it here, so what follows does not matter
                return self.of((*cost[:place], total + 1, *(0 for _ in cost[place + 1 :])))
        return self.of(cost)


def add(a: Cost, b: Cost) -> Cost:
    """The cost of both together."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def cheapest_weights(need: int, items: Sequence[tuple[int, int]]) -> tuple[int, tuple[int, ...]] | None:
    """The least price of items (weight, price) that weigh at least ``need`` together, and their places, ascending.

    Exact (0/1 minimum-cost cover). Among equally cheap sets the one without the last item they differ in. None when
    all together weigh too little; nothing for a need of 0 or less. Prices are 0 or more.
    """
    if need <= 0:
        return 0, ()
    useful = [(weight, price, place) for place, (weight, price) in enumerate(items) if weight > 0]
    total = sum(item[0] for item in useful)
    if total < need:
        return None
    if total == need or len(useful) == 1:
        return sum(item[1] for item in useful), tuple(item[2] for item in useful)
    # The low bits of a key name the item: a sum of keys carries its price, the tie-break and the set at once.
    size = len(items)
    keyed = sorted((price << size | 1 << place, min(weight, need)) for weight, price, place in useful)
    none = sum(key for key, _ in keyed) + 1
    best = [0] + [none] * need
    kept: dict[int, int] = {}
    for key, weight in keyed:
        if kept.get(weight, 0) >= need:  # cheaper ones of the same weight already do all that this one could
            continue
        kept[weight] = kept.get(weight, 0) + weight
        for covered in range(need, 0, -1):
            found = (best[covered - weight] if covered > weight else 0) + key
            if found < best[covered]:
                best[covered] = found
    chosen = best[need]
    return chosen >> size, tuple(place for place in range(size) if chosen >> place & 1)


def cover(need: int, items: Sequence[tuple[int, Victim]]) -> tuple[Cost, tuple[Victim, ...]] | None:
    """The cheapest victims that free at least ``need`` together, by id, and what they cost; exact.

    ``items``: what each victim, named once, frees here. Equally cheap sets: the one without the greatest id that they
    differ in. None when all together free too little; no victims at cost zero for a need of 0 or less.
    """
    named = sorted(items, key=lambda item: item[1].id)
    zero = (0,) * (len(named[0][1].cost) if named else 0)
    if need <= 0:
        return zero, ()
    if sum(weight for weight, _ in named if weight > 0) < need:
        return None
    prices = Prices([victim.cost for _, victim in named])
    found = cheapest_weights(need, [(weight, prices.of(victim.cost)) for weight, victim in named])
    if found is None:
        return None
    victims = tuple(named[place][1] for place in found[1])
    return total_cost(victims), victims


def total_cost(victims: Sequence[Victim]) -> Cost:
    """The cost of all of them together; () for none."""
    return tuple(sum(column) for column in zip(*(victim.cost for victim in victims), strict=True))


def by_greatest_id(victims: Iterable[Victim]) -> tuple[str, ...]:
    """The order among equally cheap sets: the one without the greatest id that they differ in comes first."""
    return tuple(sorted((victim.id for victim in victims), reverse=True))


def cheapest_domain(domains: Iterable[tuple[int, Sequence[tuple[int, Victim]]]]) -> DomainChoice | None:
    """The domain, of (need, items) as in :func:`cover`, whose cover is best by (cost, ids, position); None for none.

    Exact. Domains are visited by their cheapest victim, a lower bound on what they cost, and the visit ends where
    that alone costs more than the best cover found.
    """
    bounded: list[tuple[Cost, int, int, Sequence[tuple[int, Victim]]]] = []
    listed = list(domains)
    for place, (need, items) in enumerate(listed):
        if need <= 0:
            parts = next((len(victim.cost) for _, some in listed for _, victim in some), 0)
            return DomainChoice(place, (0,) * parts, ())
        if sum(weight for weight, _ in items if weight > 0) >= need:
            bounded.append((min(victim.cost for weight, victim in items if weight > 0), place, need, items))
    bounded.sort(key=lambda domain: domain[:2])
    best: DomainChoice | None = None
    for bound, place, need, items in bounded:
        if best is not None:
            if bound > best.cost:
                break
            items = [item for item in items if item[1].cost <= best.cost]
        found = cover(need, items)
        if found is None:
            continue
        if best is None or _rank(found[0], found[1], place) < _rank(best.cost, best.victims, best.place):
            best = DomainChoice(place, *found)
    return best


def _rank(cost: Cost, victims: Sequence[Victim], place: int) -> tuple[Cost, tuple[str, ...], int]:
    return cost, by_greatest_id(victims), place
