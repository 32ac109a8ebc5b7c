"""A search is played again from its ledger to the same points, learns only the order of scores, and stays in bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from workers.engines.searching import Bounds, Plan, Search, key_of, order_of

LOSS = {"loss": -1}
BOUNDS = Bounds((0.0, -2.0, 5.0), (1.0, 2.0, 5.5))
BEST = (0.3, 2.0, 5.25)


def plan(**changed: Any) -> Plan:
    made = {"bounds": BOUNDS, "models": ("a", "b"), "fixed": (("start", (0.5, 0.0, 5.25)), ("low", BOUNDS.low)),
            "population": 6, "generations": 8, "sigma": 0.2, "seed": 3}  # fmt: skip
    return Plan(**{**made, **changed})


def loss(point) -> float:
    """The distance from ``BEST`` in shares of the bounds."""
    return sum(((p - b) / (h - low)) ** 2 for p, b, low, h in zip(point, BEST, BOUNDS.low, BOUNDS.high, strict=True))


def row(ask, score=loss) -> dict[str, Any]:
    found = 1.0 if ask.point is None else score(ask.point)
    return {"x": None if ask.point is None else list(ask.point), "metrics": {"loss": found}}


def played(search: Search, score=loss, rows=()) -> list[dict[str, Any]]:
    """All rows of the search, of which the first were there before."""
    found = list(rows)
    while asks := search.due():
        found += [row(ask, score) for ask in asks if ask.index >= len(found)]
        search.told(asks, found[asks[0].index : asks[0].index + len(asks)])
    return found


def test_the_models_and_the_fixed_points_come_first_then_whole_generations():
    search, seen = Search(plan(), LOSS), []
    while asks := search.due():
        seen.append([(ask.index, ask.generation, ask.what) for ask in asks])
        search.told(asks, [row(ask) for ask in asks])
    assert seen[0] == [(0, 0, "a"), (1, 0, "b"), (2, 0, "start"), (3, 0, "low")]
    assert seen[1] == [(4 + n, 1, "candidate") for n in range(6)]
    assert (len(seen), search.ended_by, plan().total) == (9, "budget", 52)


@pytest.mark.parametrize("there", [0, 1, 4, 5, 9, 10, 27, 51, 52])
def test_played_again_from_any_evaluation_it_goes_on_to_the_same_points(there):
    whole = played(Search(plan(), LOSS))
    again = Search(plan(), LOSS)
    assert played(again, rows=whole[:there]) == whole
    assert again.is_exact


def test_the_generators_of_numpy_have_no_part_in_it_and_are_left_alone():
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    whole = played(Search(plan(), LOSS))
    assert np.random.get_state()[1].tolist() == before
    assert played(Search(plan(), LOSS), lambda point: loss(point) + 0 * np.random.rand()) == whole


def test_another_seed_is_another_search():
    assert played(Search(plan(), LOSS))[4:] != played(Search(plan(seed=4), LOSS))[4:]


def test_every_point_is_in_bounds_and_the_best_is_near_where_it_should_be():
    search = Search(plan(generations=60), LOSS)
    rows = played(search)
    for point in (each["x"] for each in rows if each["x"]):
        assert all(low <= value <= high for value, low, high in zip(point, BOUNDS.low, BOUNDS.high, strict=True))
    index, point = search.best
    assert loss(point) < 1e-6
    assert rows[index]["x"] == list(point)


def test_it_learns_only_the_order():
    assert [r["x"] for r in played(Search(plan(), LOSS), lambda p: math.exp(9 * loss(p)))] == [
        r["x"] for r in played(Search(plan(), LOSS))
    ]


def test_equal_scores_do_not_end_it():
    search = Search(plan(generations=40), LOSS)
    assert (len(played(search, lambda point: 0.0)), search.ended_by) == (4 + 40 * 6, "budget")


def test_what_converges_ends_before_its_budget_and_says_so():
    search = Search(plan(generations=5000), LOSS)
    assert len(played(search)) < 4 + 5000 * 6
    assert search.ended_by.startswith("converged (")


def test_the_best_of_the_fixed_points_is_where_it_begins_and_the_least_it_comes_to():
    corner = (1.0, 2.0, 5.5)
    search = Search(plan(fixed=(("start", (0.5, 0.0, 5.25)), ("corner", corner)), sigma=1e-6), LOSS)
    rows = played(search, lambda point: 0.0 if point == corner else 1.0)
    assert search.best == (3, corner)
    near = [abs(p - c) / (h - low) for r in rows[4:]
            for p, c, low, h in zip(r["x"], corner, BOUNDS.low, BOUNDS.high, strict=True)]  # fmt: skip
    assert max(near) < 0.05


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_what_is_no_number_is_the_worst_of_its_generation_and_ends_nothing(bad):
    asked = itertools.count()
    search = Search(plan(), LOSS)
    rows = played(search, lambda point: bad if next(asked) % 3 == 1 else loss(point))
    assert (len(rows), search.ended_by) == (52, "budget")
    index, _ = search.best
    assert rows[index]["metrics"]["loss"] == min(r["metrics"]["loss"] for r in rows[2:]
                                                 if r["metrics"]["loss"] not in (None, math.inf)
                                                 and not math.isnan(r["metrics"]["loss"]))  # fmt: skip


def test_without_any_score_it_is_over_after_the_fixed_points():
    search = Search(plan(), LOSS)
    assert (len(played(search, lambda point: math.nan)), search.best) == (4, None)
    assert search.ended_by == "no point has a score"


def test_a_generation_without_any_score_is_drawn_from_again():
    search = Search(plan(generations=3), LOSS)
    rows = played(search, lambda point: loss(point) if point in dict(map(reversed, plan().fixed)) else math.nan)
    assert (len(rows), search.best[0]) == (4 + 18, 2)


def test_points_that_another_machine_drew_are_taken_as_they_are_and_told():
    whole = played(Search(plan(), LOSS))
    moved = [dict(r) for r in whole[:10]]
    for r in moved[4:]:
        r["x"] = [min(value + 1e-9, high) for value, high in zip(r["x"], BOUNDS.high, strict=True)]
        r["metrics"] = {"loss": loss(r["x"])}
    search = Search(plan(), LOSS)
    rows = played(search, rows=moved)
    assert (search.is_exact, rows[:10], len(rows)) == (False, moved, 52)


def test_one_coordinate_can_be_searched():
    line = plan(bounds=Bounds((0.0,), (1.0,)), fixed=(("start", (0.5,)),), generations=20)
    search = Search(line, LOSS)
    played(search, lambda point: abs(point[0] - 0.7))
    assert search.best[1][0] == pytest.approx(0.7, abs=0.01)


def test_the_ends_of_the_cube_are_the_bounds_themselves():
    assert BOUNDS.inside([0.0, 1.0, 0.5]) == (0.0, 2.0, 5.25)
    assert BOUNDS.inside([-1e-18, 1.0 + 1e-12, 1e-300]) == (0.0, 2.0, 5.0)
    assert BOUNDS.unit((0.0, 2.0, 5.25)) == [0.0, 1.0, 0.5]


def test_the_first_metric_counts_first_and_equal_ones_by_the_next_then_in_their_order():
    rows = [
        {"metrics": {"accuracy": a, "loss": n}} for a, n in ((0.5, 1.0), (0.9, 3.0), (0.9, 2.0), (0.5, 1.0), (0.7, 0))
    ]
    rows.append({"metrics": None})
    assert order_of(rows, {"accuracy": 1, "loss": -1}) == [2, 1, 4, 0, 3, 5]
    assert key_of(rows[1], {"accuracy": 1, "loss": -1}) == (-0.9, 3.0)
