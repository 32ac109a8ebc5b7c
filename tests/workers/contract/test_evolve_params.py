"""Everything that is wrong with the parameters of a search is told at once, each by its name and its limit."""

from __future__ import annotations

from typing import Any

import pytest

from workers.catalog import KINDS, check_params
from workers.evaluate_params import chosen_metrics
from workers.evolve_params import (
    candidate_params,
    evaluation_params,
    evolve_references,
    plan_of,
    usual_population,
)
from workers.evolve_space import MAX_COORDINATES

NAMES = ["embed.weight", "layers.0.attn.weight", "layers.0.mlp.weight", "layers.1.attn.weight", "layers.1.mlp.weight",
         "layers.2.attn.weight", "layers.2.mlp.weight", "norm.weight"]  # fmt: skip
TIES = {"strategy": "ties", "models": ["a", "b"], "base_model": "c"}


def entry(name: str = "t", low: Any = 0, high: Any = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "low": low, "high": high, **more}


def asked(**changed: Any) -> dict[str, Any]:
    """A search over one t; ``changed`` takes the place of its parameters, None leaves one out."""
    params = {"merge": {"strategy": "slerp", "models": ["a", "b"]}, "space": [entry()], "objective": {"dataset": "d"},
              "budget": 200, **changed}  # fmt: skip
    return {name: value for name, value in params.items() if value is not None}


def told(**changed: Any) -> list[tuple[str, str]]:
    """(field, code) of everything that is wrong."""
    return [(error.field, error.code) for error in check_params("evolve", asked(**changed))[1]]


def clean(**changed: Any) -> dict[str, Any]:
    found, errors = check_params("evolve", asked(**changed))
    assert errors == []
    return found


def plan(names=NAMES, **changed: Any):
    return plan_of(clean(**changed), names)


def test_what_is_left_out_has_its_default():
    assert clean() == {
        "merge": {"strategy": "slerp", "models": ["a", "b"], "t": 0.5, "seed": 0},
        "space": [{"name": "t", "low": 0.0, "high": 1.0, "per": "all"}],
        "objective": {"dataset": "d", "batch_size": 32}, "budget": 200, "grid": 11, "sigma": 0.2, "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize("metrics", [["loss", "accuracy"], ["accuracy", "loss"]])
def test_the_metrics_that_judge_keep_their_order(metrics):
    found = clean(objective={"dataset": "d", "metrics": metrics})
    assert found["objective"]["metrics"] == metrics
    assert chosen_metrics(found["objective"], "classify") == metrics


def test_cleaned_once_more_it_stays_the_same():
    for params in (clean(), clean(merge=TIES, space=[entry("density", 0.1, 1), entry("weights", -1, 2)])):
        assert check_params("evolve", params) == (params, [])


def test_it_waits_in_the_merge_queue():
    assert KINDS["evolve"].queue == "merge"


def test_the_artifacts_are_the_models_of_the_merge_and_the_two_data_sets():
    params = clean(merge=TIES | {"density": 0.5}, space=[entry("lambda")], test={"dataset": "e"})
    assert evolve_references(params) == [
        ("params.merge.models.0", "a", "model-0"), ("params.merge.models.1", "b", "model-1"),
        ("params.merge.base_model", "c", "base-model"), ("params.objective.dataset", "d", "dataset"),
        ("params.test.dataset", "e", "test-dataset"),
    ]  # fmt: skip
    kinds = [KINDS["evolve"].kinds_of(name) for _, _, name in evolve_references(params)]
    assert kinds == [("model",)] * 3 + [("dataset",)] * 2


@pytest.mark.parametrize(
    "odd", [{}, {"merge": 3}, {"merge": {"models": "a"}, "objective": []}, {"test": {"dataset": 4}}]
)
def test_of_wrong_parameters_the_artifacts_are_told_that_can_be_read(odd):
    assert evolve_references(odd) == []


def test_the_test_is_judged_as_the_search_is_but_on_its_own_data():
    params = clean(objective={"dataset": "d", "file": "a.csv", "limit": 9, "metrics": ["loss"], "batch_size": 7},
                   test={"dataset": "e"})  # fmt: skip
    assert evaluation_params(params, test=True) == {
        "model": "candidate", "dataset": "e", "metrics": ["loss"], "batch_size": 7,
    }  # fmt: skip
    assert evaluation_params(params)["limit"] == 9


def test_everything_is_told_at_once():
    params = {"merge": {"strategy": "slerp", "models": ["a"]}, "space": [entry("tt", 3, 2, per="layr", ancors=2)],
              "objective": {"metrics": ["speed"], "model": "m"}, "test": {"dataset": "e", "metrics": ["loss"]},
              "population": 1, "budget": 0, "grid": 1, "sigma": 0, "seed": -1, "budgets": 4}  # fmt: skip
    found = check_params("evolve", params)[1]
    assert [(e.field, e.code) for e in found] == [
        ("params.budgets", "unknown_field"),
        ("params.space.0.ancors", "unknown_field"), ("params.space.0.name", "unknown_parameter"),
        ("params.space.0.high", "out_of_range"), ("params.space.0.per", "unknown_word"),
        ("params.merge.models", "wrong_count"),
        ("params.objective.model", "unknown_field"), ("params.objective.dataset", "required"),
        ("params.objective.metrics.0", "unknown_metric"),
        ("params.test.metrics", "unknown_field"),
        ("params.population", "out_of_range"), ("params.budget", "out_of_range"), ("params.grid", "out_of_range"),
        ("params.seed", "out_of_range"), ("params.sigma", "out_of_range"),
    ]  # fmt: skip
    words = {e.field: e.message for e in found}
    assert "did you mean 'budget'?" in words["params.budgets"]
    assert "did you mean 'anchors'?" in words["params.space.0.ancors"]
    assert "slerp has no number 'tt' (did you mean 't'?); one of t" in words["params.space.0.name"]
    assert "did you mean 'layer'?" in words["params.space.0.per"]


@pytest.mark.parametrize(
    ("changed", "field", "code"),
    [
        ({"merge": None}, "params.merge", "required"),
        ({"merge": "slerp"}, "params.merge", "not_an_object"),
        ({"merge": {"recipe": "merge_method: slerp"}}, "params.merge.recipe", "not_searched"),
        ({"space": None}, "params.space", "required"),
        ({"space": []}, "params.space", "wrong_count"),
        ({"space": [entry()] * 9}, "params.space", "wrong_count"),
        ({"space": [7]}, "params.space.0", "not_an_object"),
        ({"space": [entry(), entry(low=0.5)]}, "params.space.1.name", "twice"),
        ({"space": [{"low": 0, "high": 1}]}, "params.space.0.name", "required"),
        ({"space": [{"name": "t", "high": 1}]}, "params.space.0.low", "required"),
        ({"space": [entry(low="0")]}, "params.space.0.low", "not_a_number"),
        ({"space": [entry(high=float("nan"))]}, "params.space.0.high", "not_a_number"),
        ({"space": [entry(high=True)]}, "params.space.0.high", "not_a_number"),
        ({"space": [entry(high=1.5)]}, "params.space.0.high", "out_of_range"),
        ({"space": [entry(low=-0.1)]}, "params.space.0.low", "out_of_range"),
        ({"space": [entry(low=0.5, high=0.5)]}, "params.space.0.high", "out_of_range"),
        ({"space": [entry(anchors=3)]}, "params.space.0.anchors", "unknown_field"),
        ({"space": [entry(per="layer", anchors=1)]}, "params.space.0.anchors", "out_of_range"),
        ({"space": [entry(per="layer", anchors=201)]}, "params.space.0.anchors", "out_of_range"),
        ({"space": [entry(per="group")]}, "params.space.0.groups", "required"),
        ({"space": [entry(groups=["attn"])]}, "params.space.0.groups", "unknown_field"),
        ({"space": [entry(per="group", groups=[])]}, "params.space.0.groups", "wrong_count"),
        ({"space": [entry(per="group", groups=["attn", ""])]}, "params.space.0.groups.1", "not_a_group"),
        ({"space": [entry(per="group", groups=["attn", "attn"])]}, "params.space.0.groups.1", "twice"),
        ({"space": [entry("normalize")], "merge": TIES | {"density": 0.5}}, "params.space.0.name", "unknown_parameter"),
        ({"space": [entry("weights", -1e308, 1e308)], "merge": {"strategy": "linear", "models": ["a", "b"]}},
         "params.space.0.high", "out_of_range"),
        ({"merge": {"strategy": "model_stock", "models": ["a", "b"], "base_model": "c"}}, "params.space.0.name",
         "unknown_parameter"),
        ({"merge": {"strategy": "slerp", "models": ["a", "b"], "t": [0.2, 0.8]}}, "params.merge.t", "out_of_range"),
        ({"merge": {"strategy": "slerp", "models": ["a", "b"], "t": 0.9}, "space": [entry(high=0.8)]}, "params.merge.t",
         "out_of_range"),
        ({"merge": TIES, "space": [entry("lambda")]}, "params.merge.density", "required"),
        ({"merge": {**TIES, "density": 0.5, "weights": [1, 2, 3]}, "space": [entry("weights", 0, 9)]},
         "params.merge.weights", "out_of_range"),
        ({"objective": None}, "params.objective", "required"),
        ({"objective": "d"}, "params.objective", "not_an_object"),
        ({"objective": {"dataset": "d", "batch_size": 0}}, "params.objective.batch_size", "out_of_range"),
        ({"test": "e"}, "params.test", "not_an_object"),
        ({"test": {}}, "params.test.dataset", "required"),
        ({"budget": None}, "params.budget", "required"),
        ({"budget": 100_001}, "params.budget", "out_of_range"),
        ({"population": 1001}, "params.population", "out_of_range"),
        ({"population": 4.0}, "params.population", "out_of_range"),
        ({"grid": 102}, "params.grid", "out_of_range"),
        ({"sigma": 1.5}, "params.sigma", "out_of_range"), ({"sigma": True}, "params.sigma", "out_of_range"),
        ({"seed": 2**32}, "params.seed", "out_of_range"),
        # 2 models, 11 of the grid with the start among them, 4 of a generation
        ({"budget": 16}, "params.budget", "out_of_range"),
    ],
)  # fmt: skip
def test_one_thing_wrong_is_one_refusal(changed, field, code):
    assert told(**changed) == [(field, code)]


def test_the_least_budget_is_the_models_the_start_the_grid_and_one_generation():
    found, errors = plan(budget=17)
    assert (errors, found.generations, len(found.fixed), found.population) == ([], 1, 11, 4)
    found, errors = plan(budget=17, grid=10)  # none of its values is where it begins
    assert (errors, found.generations, len(found.fixed)) == ([], 1, 11)
    assert plan(budget=200)[0].generations == (200 - 13) // 4


def test_a_budget_that_the_models_make_too_small_names_what_it_must_be():
    _, (error,) = plan(space=[entry(per="layer")], budget=18)
    assert (error.field, error.code, error.limit) == ("params.budget", "out_of_range", 20)


def test_a_coordinate_for_all_a_layer_or_a_group_and_each_model():
    space = plan(merge={**TIES, "density": 0.5, "weights": [1.0, 2.0]}, space=[
        entry("lambda", 0.5, 1.5), entry("weights", 0, 3, per="group", groups=["attn", "mlp"]),
    ])[0].space  # fmt: skip
    assert [c.about for c in space.coordinates] == [
        "lambda", "weights, model 1, attn", "weights, model 1, mlp", "weights, model 1, the rest",
        "weights, model 2, attn", "weights, model 2, mlp", "weights, model 2, the rest",
    ]  # fmt: skip
    assert space.starts == (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
    assert space.settings(range(7)) == {"lambda": 0, "weights": [
        [{"filter": "attn", "value": 1}, {"filter": "mlp", "value": 2}, {"value": 3}],
        [{"filter": "attn", "value": 4}, {"filter": "mlp", "value": 5}, {"value": 6}],
    ]}  # fmt: skip


def test_without_a_tensor_outside_of_the_groups_there_is_no_rest():
    space = plan(NAMES[1:7], space=[entry(per="group", groups=["attn", "mlp"])])[0].space
    assert space.settings((0.1, 0.2)) == {"t": [{"filter": "attn", "value": 0.1}, {"filter": "mlp", "value": 0.2}]}


def test_the_points_over_the_layers_are_a_gradient_one_a_layer_or_as_many_as_are_asked_for():
    by_layer = plan(space=[entry(per="layer")])[0].space
    assert ([c.about for c in by_layer.coordinates], by_layer.settings((0.1, 0.2, 0.3))) == (
        ["t, layer 1 of 3", "t, layer 2 of 3", "t, layer 3 of 3"], {"t": [0.1, 0.2, 0.3]},
    )  # fmt: skip
    fewer = plan(space=[entry(per="layer", anchors=2)])[0].space
    assert [c.about for c in fewer.coordinates] == ["t, point 1 of 2", "t, point 2 of 2"]


def test_every_point_makes_right_parameters_of_a_merge():
    for space in ([entry("density", 0.1, 1, per="layer")], [entry("weights", 0.5, 1, per="group", groups=["attn"])],
                  [entry("lambda"), entry("density", 0.2, 0.9)]):  # fmt: skip
        params = clean(merge={**TIES, "density": 0.5}, space=space)
        found = plan_of(params, NAMES)[0].space
        for _, point in (("", found.starts), *found.grid(3)):
            assert check_params("merge", candidate_params(params, found.settings(point)))[1] == []


def test_the_grid_is_entry_by_entry_with_the_ends_and_the_others_where_they_begin():
    found = plan(merge={**TIES, "density": 0.5}, grid=3, space=[entry("density", 0.25, 1), entry("lambda", 0, 2)])[0]
    assert found.fixed == (
        ("start", (0.5, 0.5, 1.0)), ("density = 0.25", (0.25, 0.25, 1.0)), ("density = 0.625", (0.625, 0.625, 1.0)),
        ("density = 1", (1.0, 1.0, 1.0)), ("lambda = 0", (0.5, 0.5, 0.0)), ("lambda = 2", (0.5, 0.5, 2.0)),
    )  # fmt: skip


def test_where_nothing_is_said_it_begins_at_the_default_or_else_in_the_middle():
    params = {"merge": TIES, "grid": 0, "space": [entry("density", 0.2, 0.6), entry("lambda", 2, 4)]}
    assert plan(**params)[0].space.starts == (pytest.approx(0.4), pytest.approx(0.4), 3.0)
    assert plan(merge=TIES | {"density": 0.5}, grid=0, space=[entry("lambda", 0, 4)])[0].space.starts == (1.0,)


@pytest.mark.parametrize(
    ("groups", "place", "words"),
    [
        (["atn"], 0, "group 'atn': it fits no tensor (did you mean 'attn'?); there are 'embed.weight', "),
        (["layers", "attn"], 1, "group 'attn': all tensors that it fits are in 'layers' before it"),
    ],
)
def test_a_group_that_no_tensor_is_in_is_refused_by_name(groups, place, words):
    _, (error,) = plan(space=[entry(per="group", groups=groups)])
    assert (error.field, error.code) == (f"params.space.0.groups.{place}", "fits_no_tensor")
    assert error.message.startswith(words)


def test_models_without_layers_and_with_too_many_are_refused_by_layer():
    _, (error,) = plan(["a", "b"], space=[entry(per="layer")])
    assert (error.field, error.code) == ("params.space.0.per", "no_layers")
    _, (error,) = plan([f"h.{n}.w" for n in range(201)], space=[entry(per="layer")])
    assert (error.field, error.code, error.limit) == ("params.space.0.anchors", "too_many", 200)


def test_a_layer_pattern_finds_the_layers():
    merge = {"strategy": "slerp", "models": ["a", "b"], "layer_pattern": "block{layer}_"}
    names = [f"block{n}_conv.w" for n in range(4)]
    assert len(plan(names, merge=merge, space=[entry(per="layer")])[0].space.coordinates) == 4


def test_too_many_coordinates_are_refused_with_the_limit():
    models = [str(n) for n in range(5)]
    _, (error,) = plan(merge={"strategy": "linear", "models": models}, budget=10_000,
                       space=[entry("weights", 0, 2, per="layer", anchors=100)])  # fmt: skip
    assert (error.field, error.code, error.limit) == ("params.space", "too_many", MAX_COORDINATES)


def test_the_usual_population_grows_with_the_logarithm():
    assert [usual_population(n) for n in (1, 2, 4, 8, 100)] == [4, 6, 8, 10, 17]
