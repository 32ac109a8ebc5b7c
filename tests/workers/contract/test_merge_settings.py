"""A parameter that differs from tensor to tensor: the values of another implementation, and every refusal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from workers.merge_layout import Table, lay_out
from workers.merge_params import check_merge
from workers.merge_recipe import recipe_of
from workers.merge_settings import value_at

OURS = Path(__file__).parents[2] / "data" / "golden" / "merge_cases.json"
GOLDEN = json.loads(Path(os.environ.get("EMEP_GOLDEN_CASES") or OURS).read_text("utf-8"))
MLP = "model.layers.{}.mlp.weight"


def table(label: str, layers: int = 3, **others: tuple[int, ...]) -> Table:
    """A model of so many layers, with an embedding before them and a norm behind."""
    names = [name.format(i) for i in range(layers) for name in (MLP, "model.layers.{}.attn.weight")]
    shapes = {**dict.fromkeys(names, (4, 4)), "model.embed.weight": (9, 4), "model.norm.weight": (4,), **others}
    return Table(label, {name: ("F32", shape) for name, shape in shapes.items()})


def values(params: dict[str, Any]) -> dict[str, Any]:
    """The values of each tensor of a merge of two models of three layers."""
    clean, errors = check_merge(params)
    assert errors == []
    tables = {name: table(name) for name in ("model-0", "model-1", "base-model")}
    parts, errors = lay_out(recipe_of(clean), tables)
    assert errors == []
    return {part.name: part.values for part in parts}


def told(**params: Any) -> list[tuple[str, str]]:
    _, errors = check_merge({"models": ["a", "b"], **params})
    return [(error.field, error.message) for error in errors]


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN["parameter_cases"], ids=lambda c: c["id"])
def test_a_golden_setting_gives_its_tensor_the_value_that_was_written(case: dict[str, Any]) -> None:
    position = case["layer"] / (case["layers"] - 1) if case["layers"] > 1 else 0.0
    got = value_at(case["value"], case["tensor"], position)
    assert got == (None if case["expected"] is None else pytest.approx(case["expected"], rel=1e-12))


@pytest.mark.golden
@pytest.mark.parametrize(
    "case", [c for c in GOLDEN["parameter_cases"] if c["expected"] is not None], ids=lambda c: c["id"]
)
def test_a_golden_setting_reaches_the_tensor_of_a_whole_model(case: dict[str, Any]) -> None:
    stack = case["tensor"].replace(f".{case['layer']}.", ".{}.", 1)
    names = {stack.format(i) for i in range(case["layers"])} | {case["tensor"]}
    tables = {name: Table(name, dict.fromkeys(names, ("F32", (1,)))) for name in ("model-0", "model-1")}
    clean, _ = check_merge({"models": ["a", "b"], "t": case["value"]})
    parts, _ = lay_out(recipe_of(clean), tables)
    (got,) = [part.values["t"] for part in parts if part.name == case["tensor"]]
    assert got == pytest.approx(case["expected"], rel=1e-12)


def test_equal_points_give_exactly_themselves_everywhere() -> None:
    assert {value_at([0.1, 0.1, 0.1], "x", i / 7) for i in range(8)} == {0.1}


def test_a_gradient_never_leaves_its_points() -> None:
    assert all(0.1 <= value_at([0.1, 0.7, 0.3], "x", i / 999) <= 0.7 for i in range(1000))


def test_a_star_fits_every_name() -> None:
    assert value_at([{"filter": "*", "value": 3}, {"value": 4}], "anything", 0.5) == 3


def test_one_parameter_differs_and_the_rest_stays() -> None:
    got = values({"strategy": "slerp", "models": ["a", "b"], "t": [0, 1]})
    assert {name: each["t"] for name, each in got.items() if "attn" not in name} == {
        "model.embed.weight": 0.0, "model.layers.0.mlp.weight": 0.0, "model.layers.1.mlp.weight": 0.5,
        "model.layers.2.mlp.weight": 1.0, "model.norm.weight": 0.0,
    }  # fmt: skip


def test_each_model_has_a_gradient_of_its_own_and_a_list_of_numbers_is_one_a_model() -> None:
    base = {"strategy": "ties", "models": ["a", "b"], "base_model": "c"}
    got = values({**base, "density": [[0.2, 0.4], 0.5], "weights": [1, [{"filter": "mlp", "value": 2}]]})
    assert (got[MLP.format(1)]["density"], got[MLP.format(1)]["weights"]) == ([pytest.approx(0.3), 0.5], [1.0, 2.0])
    assert got["model.norm.weight"]["weights"] == [1.0, 1.0]  # by default, as no filter fits
    assert values({**base, "density": [0.2, 0.4]})[MLP.format(1)]["density"] == [0.2, 0.4]


def test_a_list_of_filters_is_for_all_models() -> None:
    filters = [{"filter": "mlp", "value": 0.2}, {"value": 0.9}]
    got = values({"strategy": "ties", "models": ["a", "b"], "base_model": "c", "density": filters})
    assert (got[MLP.format(0)]["density"], got["model.norm.weight"]["density"]) == ([0.2, 0.2], [0.9, 0.9])


def test_a_switch_and_a_word_differ_by_filter() -> None:
    got = values({"strategy": "linear", "models": ["a", "b"], "normalize": [{"filter": "mlp", "value": False}]})
    assert (got[MLP.format(0)]["normalize"], got["model.norm.weight"]["normalize"]) == (False, True)


@pytest.mark.parametrize(
    ("given", "where", "what"),
    [
        ([], "t", "as a gradient is a list of 1 to 1000 numbers, not of 0"),
        ([0.1] * 1001, "t", "not of 1001"),
        ([0.1, 2], "t[1]", "t must be a number from 0"),
        ([0.1, [0.2]], "t[1]", "t must be a number from 0"),
        ([0.1, True], "t[1]", "t must be a number from 0"),
        ([{"filter": "mlp"}], "t[0]", "needs a value in every entry"),
        ([{"value": 0.5, "when": 1}], "t[0]", "has entries of filter and value only, not 'when'"),
        ([{"filter": "", "value": 0.5}], "t[0].filter", "1 to 200 characters, not ''"),
        ([{"filter": 3, "value": 0.5}], "t[0].filter", "not 3"),
        ([{"filter": "x" * 201, "value": 0.5}], "t[0].filter", "1 to 200 characters"),
        ([{"filter": "mlp", "value": [0.1, -1]}], "t[0].value[1]", "not -1"),
        ([{"value": [{"value": 1}]}], "t[0].value", "has no filters inside of filters"),
        ([{"value": 0.5}, 0.5], "t[1]", "is none of its entries"),
        ([{"value": 0.5}] * 201, "t", "at most 200 entries"),
        ([{"value": None}], "t[0].value", "not null"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_with_its_place(given: Any, where: str, what: str) -> None:
    ((field, message),) = told(t=given)
    assert (field, message.startswith(f"{where}: "), what in message) == ("params.t", True, True), message


def test_words_and_switches_have_nothing_between_them() -> None:
    assert told(strategy="linear", normalize=[True, False]) == [
        ("params.normalize", "normalize: normalize has no values between two others: give one for all, or a list of "
         "{filter, value}")
    ]  # fmt: skip


def test_a_needed_parameter_that_no_filter_gives_is_refused_with_the_tensors() -> None:
    filters = [{"filter": "mlp", "value": 0.5}]
    clean, errors = check_merge({"strategy": "ties", "models": ["a"], "base_model": "c", "density": filters})
    assert errors == []
    _, errors = lay_out(recipe_of(clean), {"model-0": table("a"), "base-model": table("c")})
    assert [(e.field, e.message) for e in errors] == [
        ("params.density", "density has no value here: add an entry without a filter for all other tensors "
         "(tensor 'model.embed.weight' and 4 more)")
    ]  # fmt: skip


def test_values_that_only_together_are_wrong_are_refused_with_the_first_tensor() -> None:
    clean, errors = check_merge({"strategy": "linear", "models": ["a", "b"], "weights": [1, [1, -1]]})
    assert errors == []
    _, (error,) = lay_out(recipe_of(clean), {"model-0": table("a"), "model-1": table("b")})
    assert (error.field, error.code) == ("params.weights", "zero_sum")
    assert error.message.endswith("(tensor 'model.layers.2.attn.weight' and 1 more)")


def test_layers_with_steps_between_their_numbers_lie_evenly() -> None:
    tensors = {f"{2 * i}.weight": ("F32", (1,)) for i in range(4)}
    clean, _ = check_merge({"models": ["a", "b"], "t": [0, 0.9]})
    parts, _ = lay_out(recipe_of(clean), {name: Table(name, tensors) for name in ("model-0", "model-1")})
    assert [part.values["t"] for part in parts] == pytest.approx([0.0, 0.3, 0.6, 0.9])
