"""What each merge strategy takes is told by its name, its limit and what to do, in the same words everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from workers.merge_params import check_merge, merge_references
from workers.merge_recipe import BASE_INPUT
from workers.merge_strategies import STRATEGIES

NEEDED = {"base_model": "c", "density": 0.5, "epsilon": 0.2}


def asked(strategy: str, **changes: Any) -> dict[str, Any]:
    """A right recipe of this strategy, changed; None takes a parameter out."""
    rule = STRATEGIES[strategy]
    needed = {name: value for name, value in NEEDED.items() if name in rule.own}
    given = {"strategy": strategy, "models": ["a", "b"][: rule.max_models], **needed, **changes}
    return {name: value for name, value in given.items() if value is not None}


def told(strategy: str, **changes: Any) -> list[tuple[str, str]]:
    return [(e.field.removeprefix("params."), e.code) for e in check_merge(asked(strategy, **changes))[1]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_right_recipe_is_taken(strategy: str) -> None:
    assert told(strategy) == []


@pytest.mark.parametrize("strategy", [name for name, rule in STRATEGIES.items() if rule.base == "required"])
def test_without_its_base_it_says_what_a_base_is(strategy: str) -> None:
    _, (error,) = check_merge(asked(strategy, base_model=None))
    assert (error.field, error.message) == (
        "params.base_model",
        f"{strategy} needs base_model: the id or name of the model that the others were tuned from",
    )


def test_nuslerp_may_have_a_base_or_none_and_linear_none() -> None:
    assert (told("nuslerp"), told("nuslerp", base_model=None)) == ([], [])
    assert told("linear", base_model="c") == [("base_model", "unknown_field")]


@pytest.mark.parametrize("base", [7, ["c"], {"id": "c"}, " ", False])
def test_a_base_that_names_no_artifact_is_refused(base: Any) -> None:
    assert told("ties", base_model=base) == [("base_model", "not_a_name")]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("beyond", [-1, 1])
def test_too_few_and_too_many_models_are_refused_with_both_limits(strategy: str, beyond: int) -> None:
    rule = STRATEGIES[strategy]
    count = rule.min_models - 1 if beyond < 0 else rule.max_models + 1
    errors = check_merge(asked(strategy, models=["m"] * count))[1]
    assert [(e.field, e.limit) for e in errors] == [("params.models", [rule.min_models, rule.max_models])]


@pytest.mark.parametrize(
    ("strategy", "changes", "field", "code"),
    [
        ("ties", {"density": None}, "density", "required"),
        ("ties", {"density": 0}, "density", "out_of_range"),
        ("ties", {"density": 1.01}, "density", "out_of_range"),
        ("ties", {"density": [0.5, -0.1]}, "density", "out_of_range"),
        ("ties", {"density": True}, "density", "out_of_range"),
        ("ties", {"density": "half"}, "density", "out_of_range"),
        ("ties", {"density": [0.5]}, "density", "wrong_count"),
        ("ties", {"density": float("nan")}, "density", "out_of_range"),
        ("della", {"epsilon": None}, "epsilon", "required"),
        ("della", {"epsilon": 0.5}, "epsilon", "out_of_range"),
        ("della", {"density": 0.9, "epsilon": 0.1}, "epsilon", "out_of_range"),
        ("della", {"density": [0.5, 0.1]}, "epsilon", "out_of_range"),
        ("breadcrumbs", {"gamma": 2}, "gamma", "out_of_range"),
        ("breadcrumbs", {"gamma": [0.1, 0.1, 0.1]}, "gamma", "wrong_count"),
        ("breadcrumbs", {"gamma": "x"}, "gamma", "out_of_range"),
        ("dare_linear", {"rescale": "l2"}, "rescale", "unknown_word"),
        ("dare_linear", {"rescale": ["l1"]}, "rescale", "unknown_word"),
        ("model_stock", {"granularity": "column"}, "granularity", "unknown_word"),
        ("task_arithmetic", {"lambda": "1"}, "lambda", "not_a_number"),
        ("task_arithmetic", {"lambda": float("inf")}, "lambda", "not_a_number"),
        ("task_arithmetic", {"normalize": 1}, "normalize", "not_a_boolean"),
        ("task_arithmetic", {"weights": [1, -1], "normalize": True}, "weights", "zero_sum"),
        ("task_arithmetic", {"weights": [1]}, "weights", "wrong_count"),
        ("task_arithmetic", {"weights": "heavy"}, "weights", "not_a_number"),
        ("nuslerp", {"weights": [2, -1]}, "weights", "out_of_range"),
        ("ties", {"t": 0.5}, "t", "unknown_field"),
        ("model_stock", {"weights": [1, 1]}, "weights", "unknown_field"),
        ("ties", {"gamma": 0.1}, "gamma", "unknown_field"),
    ],
)
def test_a_parameter_that_can_not_be_is_refused_by_its_field(strategy, changes, field, code) -> None:
    assert told(strategy, **changes) == [(field, code)]


def test_the_refusal_of_a_density_names_the_limit_and_what_was_sent() -> None:
    _, (error,) = check_merge(asked("ties", density=[0.5, 3]))
    assert (error.limit, error.message) == (
        [0, 1],
        "density is the share of each model's changes that is kept, above 0 and at most 1: one number, or a list of"
        " one a model; 3 is not",
    )


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = told("della", models=["a"], base_model=None, density=2, epsilon=-1, weights=[1, 2], rescale="x", seed=-1)
    assert {name for name, _ in found} == {"base_model", "density", "epsilon", "weights", "rescale", "seed"}


def test_a_wrong_parameter_hides_nothing_of_the_others() -> None:
    assert told("task_arithmetic", weights=[1, -1], normalize=True, **{"lambda": "x"}) == [
        ("lambda", "not_a_number"),
        ("weights", "zero_sum"),
    ]


def test_what_is_given_once_is_given_to_each_model_and_defaults_are_written_out() -> None:
    clean, _ = check_merge(asked("breadcrumbs_ties", density=0.9))
    assert clean == {
        "strategy": "breadcrumbs_ties", "models": ["a", "b"], "base_model": "c", "weights": [1.0, 1.0],
        "normalize": False, "lambda": 1.0, "density": [0.9, 0.9], "gamma": [0.01, 0.01], "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_are_normalised_by_default_where_the_table_says_so(strategy: str) -> None:
    clean, _ = check_merge(asked(strategy))
    assert clean.get("normalize", False) is (strategy in ("linear", "ties", "della"))


def test_the_base_is_the_last_of_what_a_merge_reads() -> None:
    assert merge_references(asked("ties")) == [
        ("params.models.0", "a", "model-0"),
        ("params.models.1", "b", "model-1"),
        ("params.base_model", "c", BASE_INPUT),
    ]
