"""Whom it is cheapest to evict in one place: example 14, and brute force over all sets of victims."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from scheduling.core.victims import DomainChoice, Prices, Victim, add, cheapest_domain, cover, total_cost

Items = list[tuple[int, Victim]]


def low(name: str, gpus: int, idle_s: int, *, normal: int = 0) -> tuple[int, Victim]:
    """A job that loses ``idle_s`` since its checkpoint and two minutes of restoring, on each of its GPUs."""
    return gpus, Victim(name, (0, normal, 0, gpus * (idle_s + 120) * 1000, 1, idle_s * 1000))


def some_items(dice: random.Random, most: int = 9, *, alike: bool = False) -> Items:
    names = dice.sample(range(100), dice.randint(0, most))
    return [
        (dice.choice([1, 1, 2, 2, 3, 4, 8]), Victim(f"{name:02d}", (0, 1) if alike else some_cost(dice)))
        for name in names
    ]


def some_cost(dice: random.Random) -> tuple[int, ...]:
    return dice.randint(0, 1), dice.randint(0, 1), dice.choice([0, 5, 7, 10**12]), 1


def ids(victims: Sequence[Victim]) -> tuple[str, ...]:
    return tuple(victim.id for victim in victims)


def order_of(victims: Sequence[Victim]) -> tuple[tuple[int, ...], list[str]]:
    return total_cost(victims), sorted(ids(victims), reverse=True)


def every_set(items: Items) -> list[Items]:
    return [list(some) for size in range(len(items) + 1) for some in combinations(items, size)]


def brute_cover(need: int, items: Items) -> tuple[str, ...] | None:
    enough = [[victim for _, victim in some] for some in every_set(items) if sum(w for w, _ in some) >= need]
    return tuple(sorted(ids(min(enough, key=order_of)))) if enough else None


def covered(need: int, items: Items) -> tuple[str, ...] | None:
    found = cover(need, items)
    return None if found is None else ids(found[1])


def test_example_14_the_lowest_level_goes_first_though_more_work_is_lost():
    items = [low("1", 4, 600, normal=1), low("2", 2, 3600), low("3", 2, 1800)]
    found = cover(4, items)
    assert found is not None
    assert (ids(found[1]), found[0][3]) == (("2", "3"), 11_280_000)


def test_example_14_two_victims_that_lose_less_go_before_one():
    found = cheapest_domain([(8, [low("1", 8, 6000)]), (8, [low("2", 4, 600), low("3", 4, 600)])])
    assert found is not None
    assert (found.place, ids(found.victims), found.cost[3]) == (1, ("2", "3"), 5_760_000)


@pytest.mark.parametrize("alike", [False, True])
def test_a_cover_is_the_cheapest_of_all_sets(alike):
    for seed in range(150):
        dice = random.Random(seed)
        items, need = some_items(dice, alike=alike), dice.randint(1, 9)
        assert covered(need, items) == brute_cover(need, items), seed


def test_a_cover_costs_what_its_victims_cost():
    found = cover(3, [low("1", 2, 5), low("2", 2, 7), low("3", 8, 9000)])
    assert found == ((0, 0, 0, 2 * 125_000 + 2 * 127_000, 2, 12_000), (low("1", 2, 5)[1], low("2", 2, 7)[1]))


def test_no_victim_of_a_cover_can_be_spared_even_if_it_costs_nothing():
    for seed in range(100):
        dice = random.Random(seed)
        items = [(weight, Victim(victim.id, (0,))) for weight, victim in some_items(dice)]
        need = dice.randint(1, 9)
        weights = {victim.id: weight for weight, victim in items}
        chosen = covered(need, items) or ()
        assert all(sum(weights[name] for name in chosen if name != spared) < need for spared in chosen), seed


def test_the_order_of_the_items_changes_nothing():
    for seed in range(60):
        dice = random.Random(seed)
        items, need = some_items(dice, alike=True), dice.randint(1, 9)
        assert cover(need, items) == cover(need, dice.sample(items, len(items))), seed


def test_of_equal_sets_the_one_without_the_greatest_id_wins():
    assert covered(4, [(2, Victim(name, (1,))) for name in "dbca"]) == ("a", "b")


@pytest.mark.parametrize("need", [0, -3])
def test_no_need_takes_no_victims(need):
    assert cover(need, [low("1", 4, 600)]) == ((0, 0, 0, 0, 0, 0), ())


@pytest.mark.parametrize("items", [[], [low("1", 2, 0), low("2", 1, 0)], [(0, low("1", 2, 0)[1])]])
def test_too_little_to_free_is_no_cover(items):
    assert cover(4, items) is None


def test_a_victim_that_frees_nothing_here_is_never_taken():
    assert covered(2, [(0, Victim("a", (0,))), (2, Victim("b", (5,)))]) == ("b",)


def test_the_order_of_the_costs_is_that_of_ids_kept_as_powers_of_two():
    plain = [(1, Victim(name, (7,))) for name in "abcdef"]
    powers = [(1, Victim(name, (7, 1 << place))) for place, name in enumerate("abcdef")]
    assert covered(3, powers) == covered(3, plain)


def test_a_negative_cost_is_refused_by_name():
    with pytest.raises(ValueError, match="cost of a victim: every part must be 0 or more"):
        cover(1, [(1, Victim("a", (0, -1))), (1, Victim("b", (0, 1)))])


def test_costs_are_added_part_by_part():
    assert add((1, 2, 3), (10, 0, 5)) == (11, 2, 8)


def brute_domain(domains: list[tuple[int, Items]]) -> tuple[int, tuple[str, ...]] | None:
    found = []
    for place, (need, items) in enumerate(domains):
        names = brute_cover(need, items)
        if names is not None:
            found.append((order_of([victim for _, victim in items if victim.id in names]), place, names))
    return min(found)[1:] if found else None


@pytest.mark.parametrize("alike", [False, True])
def test_a_domain_is_the_cheapest_of_all(alike):
    for seed in range(120):
        dice = random.Random(seed)
        domains = [(dice.randint(1, 8), some_items(dice, 5, alike=alike)) for _ in range(dice.randint(0, 6))]
        found = cheapest_domain(domains)
        assert (found and (found.place, ids(found.victims))) == brute_domain(domains), seed


def test_a_victim_in_two_domains_is_dear_in_both():
    wide = Victim("wide", (10,))
    found = cheapest_domain([(2, [(2, wide)]), (2, [(2, wide), (2, Victim("narrow", (6,)))])])
    assert found == DomainChoice(1, (6,), (Victim("narrow", (6,)),))


def test_a_domain_that_needs_nothing_wins_at_no_cost():
    assert cheapest_domain([(1, [low("1", 1, 0)]), (0, [])]) == DomainChoice(1, (0, 0, 0, 0, 0, 0), ())


def test_equal_domains_are_taken_in_their_order():
    items = [(1, Victim("a", (3,)))]
    assert cheapest_domain([(2, items), (1, items), (1, items)]) == DomainChoice(1, (3,), (items[0][1],))


def test_no_domain_is_possible_when_each_frees_too_little():
    assert cheapest_domain([(3, [low("1", 2, 0)]), (1, [])]) is None


@pytest.mark.parametrize("limit", [(0, 9), (1, 0), (1, 2), (1, 3), (1, 99), (9, 0)])
def test_a_limit_is_a_price_that_cheaper_sums_stay_below(limit):
    costs = [(0, 1), (1, 1)]
    prices = Prices(costs)
    sums = [(0, 0), *costs, add(*costs)]
    price = {(0, 0): 0, costs[0]: prices.of(costs[0]), costs[1]: prices.of(costs[1])}
    price[sums[-1]] = sum(price.values())
    assert [price[cost] < prices.limit(limit) for cost in sums] == [cost < limit for cost in sums]
