"""The demonstration runs the real job, and says what of its figures is not as it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.kinds.digits_search import SEARCHES, T_OF_LAYERS, WEIGHTS_OF_LAYERS, Scores, searched, told, unexpected

RIGHT = Scores(
    0, {"best": 0.90, "fixed": 0.89, "start": 0.88, "model-0": 0.5, "model-1": 0.5, "base-model": 0.82},
    {"best": 0.88, "fixed": 0.87, "model-0": 0.5, "model-1": 0.5, "base-model": 0.82},
)  # fmt: skip


def figures(**changed: dict[str, float]) -> dict[str, list[Scores]]:
    """Ten seeds of both searches, with other scores in those of the t of each layer."""
    other = {part: {**getattr(RIGHT, part), **changed.get(part, {})} for part in ("search", "test")}
    return {
        T_OF_LAYERS: [replace(RIGHT, seed=seed, **other) for seed in range(10)],
        WEIGHTS_OF_LAYERS: [replace(RIGHT, seed=seed) for seed in range(10)],
    }  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_a_short_search_is_never_below_the_best_fixed_value_and_tells_its_figures(name: str) -> None:
    found = searched(0, name, 60)
    assert found.search["best"] >= found.search["fixed"] >= found.search["start"]
    assert found.search.keys() - {"start"} == found.test.keys()
    assert max(found.test["model-0"], found.test["model-1"]) < 0.6
    lines = told(name, [found])
    assert lines[0] == f"{name} (1 seed)"
    assert f"  {'the search':24}{found.search['best']:>12.4f}{found.test['best']:>11.4f} ± 0.0000" in lines


def test_right_figures_are_as_expected() -> None:
    assert unexpected(figures()) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"search": {"best": 0.88}}, "below its best fixed value on the search set"),
        ({"search": {"best": 0.89}}, "above the best fixed value in 0 of 10 seeds only"),
        ({"search": {"best": 0.894}}, "0.40 points on the search set, at least 0.5 are expected"),
        ({"test": {"best": 0.87}}, "no gain on the test set"),
        ({"test": {"model-1": 0.61}}, "a model of one half reads 60 % of all digits"),
        ({"search": {"start": 0.84}}, "the merge at t = 0.5 reads 0.8400, at least 0.85 is expected"),
        ({"search": {"start": 0.81}}, "the merge at t = 0.5 is not above the base in 9 of 10 seeds"),
    ],
)
def test_each_figure_that_is_not_as_expected_is_named(changed, words: str) -> None:
    assert any(words in each for each in unexpected(figures(**changed)))
