"""Whom it is cheapest to evict for a gang: example 16, and brute force over all sets of victims."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache

import pytest

from scheduling.core import gang_victims
from scheduling.core.gang_victims import GangChoice, Node, cheapest_nodes
from scheduling.core.victims import Victim, total_cost

SEEDS = 400
RADIX = 10**9  # more than any part of a cost here sums up to


@dataclass(frozen=True)
class World:
    count: int
    nodes: list[Node]
    victims: dict[str, Victim]
    rest: bool

    def choose(self, **more) -> GangChoice | None:
        return cheapest_nodes(self.count, self.nodes, self.victims, rest=self.rest, **more)


def some_world(seed: int) -> World:
    """3 to 7 nodes of 4 or 8 GPUs, most of them held by up to 14 jobs, about half of the jobs on several nodes."""
    dice = random.Random(seed)
    size = dice.choice([4, 8])
    free = [size] * dice.randint(3, 7)
    held: list[list[tuple[int, str]]] = [[] for _ in free]
    victims: dict[str, Victim] = {}
    for number in range(dice.randint(3, 40)):
        gpus, span = dice.choice([1, 2, 2, 4, size]), dice.choice([1, 1, 1, 2, 2, 3, 4])
        open_nodes = [place for place, left in enumerate(free) if left >= gpus]
        if len(open_nodes) < span or len(victims) == 14:
            continue
        name = f"job-{number:02d}"
        for place in dice.sample(open_nodes, span):
            free[place] -= gpus
            held[place].append((gpus, name))
        lost = gpus * span * (dice.randint(0, 60) + 12)
        cost = (dice.random() < 0.1, dice.random() < 0.3, dice.random() < 0.4, lost, 1, dice.randint(1, 100))
        victims[name] = Victim(name, (*map(int, cost), 1 << number))
    count, share = dice.randint(2, min(4, len(free) - 1)), dice.choice([1, 2, size // 2, size, size])
    rest = share > 1 and dice.random() < 0.3
    some = dice.randint(1, share - 1) if rest else 0
    nodes = [Node(share - left, tuple(items), some - left) for left, items in zip(free, held, strict=True)]
    return World(count, nodes, victims, rest)


def enough(world: World, freed: list[int]) -> bool:
    whole = sum(gpus >= node.need for gpus, node in zip(freed, world.nodes, strict=True))
    some = sum(gpus >= node.need_rest for gpus, node in zip(freed, world.nodes, strict=True))
    return whole >= world.count and (not world.rest or some > world.count)


def freed_by(world: World, names: set[str]) -> list[int]:
    return [sum(weight for weight, name in node.items if name in names) for node in world.nodes]


def as_number(cost: tuple[int, ...]) -> int:
    total = 0
    for part in cost:
        total = total * RADIX + part
    return total


@cache
def brute(seed: int) -> int | None:
    """The cost of the cheapest of all sets of victims, as a number; a node's freed GPUs are a byte of one number."""
    world = some_world(seed)
    costs, freed = [0], [0]
    for name, victim in world.victims.items():
        own = as_number(victim.cost)
        weights = [sum(weight for weight, other in node.items if other == name) for node in world.nodes]
        bytes_of = int.from_bytes(bytes(weights), "little")
        costs += [cost + own for cost in costs]
        freed += [gpus + bytes_of for gpus in freed]
    best: int | None = None
    for cost, gpus in zip(costs, freed, strict=True):
        if (best is None or cost < best) and enough(world, list(gpus.to_bytes(len(world.nodes), "little"))):
            best = cost
    return best


def test_a_gang_in_a_small_pool_evicts_the_cheapest_of_all_sets():
    for seed in range(SEEDS):
        found = some_world(seed).choose()
        assert (None if found is None else as_number(found.cost)) == brute(seed), seed


def test_a_search_cut_short_is_cheapest_99_times_of_100_and_never_a_tenth_dearer(monkeypatch):
    monkeypatch.setattr(gang_victims, "STEPS", 10)
    optimal = possible = 0
    for seed in range(SEEDS):
        best, found = brute(seed), some_world(seed).choose()
        if best is not None and found is not None:
            cost = as_number(found.cost)
            assert cost * 10 <= best * 11, seed
            possible += 1
            optimal += cost == best
    assert optimal >= 0.99 * possible > 0.5 * SEEDS


def test_a_choice_makes_its_nodes_ready_and_costs_what_its_victims_cost():
    for seed in range(SEEDS):
        world = some_world(seed)
        found = world.choose()
        if found is None:
            continue
        freed = freed_by(world, {victim.id for victim in found.victims})
        assert len(set(found.nodes) - {found.rest}) == world.count, seed
        assert all(freed[place] >= world.nodes[place].need for place in found.nodes), seed
        assert (found.rest is not None) == world.rest, seed
        assert found.rest is None or freed[found.rest] >= world.nodes[found.rest].need_rest, seed
        assert found.cost == (total_cost(found.victims) or (0,) * 7), seed


@pytest.mark.parametrize("steps", [1, gang_victims.STEPS])
def test_no_victim_of_a_choice_can_be_spared(steps, monkeypatch):
    monkeypatch.setattr(gang_victims, "STEPS", steps)
    for seed in range(SEEDS // 2):
        world = some_world(seed)
        found = world.choose()
        names = set() if found is None else {victim.id for victim in found.victims}
        assert not any(enough(world, freed_by(world, names - {spared})) for spared in names), seed


def test_a_search_cut_at_once_still_finds_a_choice(monkeypatch):
    monkeypatch.setattr(gang_victims, "STEPS", 1)
    for seed in range(SEEDS // 4):
        world = some_world(seed)
        assert (world.choose() is None) == (not enough(world, freed_by(world, set(world.victims)))), seed


def test_the_order_of_items_and_victims_changes_nothing():
    for seed in range(SEEDS // 4):
        world, dice = some_world(seed), random.Random(seed)
        # Without the ids in the costs, many sets cost the same.
        alike = {name: Victim(name, victim.cost[:2]) for name, victim in world.victims.items()}
        nodes = [replace(node, items=tuple(dice.sample(node.items, len(node.items)))) for node in world.nodes]
        mixed = dict(dice.sample(sorted(alike.items()), len(alike)))
        given = replace(world, victims=alike).choose()
        assert replace(world, victims=mixed, nodes=nodes).choose() == given, seed


def test_a_limit_admits_only_what_is_cheaper():
    for seed in range(SEEDS // 4):
        world = some_world(seed)
        found = world.choose()
        if found is not None:
            dearer = (*found.cost[:-1], found.cost[-1] + 1)
            assert (world.choose(below=found.cost), world.choose(below=dearer)) == (None, found), seed


def idle(name: str, gpus: int, seconds: int) -> Victim:
    """A Low job of ``gpus`` that ran for ``seconds`` without a checkpoint."""
    return Victim(name, (0, 0, 0, gpus * (seconds + 120) * 1000, 1, seconds * 1000))


def test_example_16_a_victim_on_two_nodes_counts_once():
    victims = {"1": idle("1", 8, 900), "2": idle("2", 4, 300)}
    nodes = [Node(4, ((4, "1"),)), Node(4, ((4, "1"),)), Node(4, ((4, "2"),))]
    assert cheapest_nodes(2, nodes, victims) == GangChoice(
        (0, 0, 0, 8_160_000, 1, 900_000), (victims["1"],), (0, 1), None
    )


def test_a_victim_shared_by_the_nodes_beats_cheaper_ones_of_each():
    victims = {"wide": Victim("wide", (10,)), "a": Victim("a", (6,)), "b": Victim("b", (6,)), "c": Victim("c", (1,))}
    nodes = [Node(2, ((2, "wide"), (2, "a"))), Node(2, ((2, "wide"), (2, "b"))), Node(2, ((1, "c"),))]
    found = cheapest_nodes(2, nodes, victims)
    assert found is not None
    assert (found.cost, found.nodes) == ((10,), (0, 1))


def test_ready_nodes_cost_nothing_and_the_first_are_taken():
    victims = {"a": Victim("a", (5, 1))}
    nodes = [Node(1, ((1, "a"),)), Node(0, ()), Node(-2, ()), Node(0, ((1, "a"),))]
    assert cheapest_nodes(2, nodes, victims) == GangChoice((0, 0), (), (1, 2), None)


def test_the_remainder_takes_a_node_that_has_room_for_it_only():
    victims = {"a": Victim("a", (5,)), "b": Victim("b", (7,))}
    nodes = [Node(2, ((4, "a"),), -1), Node(2, ((4, "b"),), -1), Node(0, (), -3)]
    assert cheapest_nodes(1, nodes, victims, rest=True) == GangChoice((0,), (), (2,), 0)
    assert cheapest_nodes(2, nodes, victims, rest=True) == GangChoice((5,), (victims["a"],), (0, 2), 1)


def test_a_remainder_needs_a_node_of_its_own():
    victims = {"a": Victim("a", (5,))}
    assert cheapest_nodes(1, [Node(4, ((8, "a"),), 1)], victims, rest=True) is None


def test_too_few_nodes_that_could_be_ready_are_no_choice():
    victims = {"a": Victim("a", (1,))}
    assert cheapest_nodes(2, [Node(2, ((2, "a"),)), Node(2, ((1, "a"),)), Node(1, ())], victims) is None


def test_without_running_jobs_a_limit_above_zero_is_met():
    assert cheapest_nodes(1, [Node(0, ())], {}, below=(0, 1)) == GangChoice((), (), (0,), None)
    assert cheapest_nodes(1, [Node(0, ())], {}, below=(0, 0)) is None


def test_a_gang_of_no_nodes_is_refused_by_name():
    with pytest.raises(ValueError, match="count: a gang needs at least 1 node"):
        cheapest_nodes(0, [], {})
