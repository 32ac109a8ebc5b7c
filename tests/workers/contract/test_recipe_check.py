"""A recipe in mergekit's format: what is read of it, and every refusal by its path in the document."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from workers.merge_params import check_merge, merge_references
from workers.merge_recipe import recipe_of
from workers.recipe_check import ELSEWHERE

WHOLE: dict[str, Any] = {
    "merge_method": "ties",
    "base_model": "base",
    "models": [{"model": "base"}, {"model": "a", "parameters": {"weight": 2, "density": 0.4}}, {"model": "b"}],
    "parameters": {"density": [0.2, 0.8], "normalize": False},
    "dtype": "float32",
    "out_dtype": "bfloat16",
}
SLICED: dict[str, Any] = {
    "merge_method": "slerp",
    "base_model": "b",
    "slices": [
        {"sources": [{"model": "a", "layer_range": [0, 2]}, {"model": "b", "layer_range": [1, 3]}],
         "parameters": {"t": [0, 1]}},
        {"sources": [{"model": "b", "layer_range": [0, 1]}, {"model": "a", "layer_range": [2, 3]}]},
    ],
    "parameters": {"t": 0.3},
}  # fmt: skip


def changed(document: dict[str, Any], **places: Any) -> dict[str, Any]:
    """The document with what stands at each path (``slices__0__sources``) changed; None takes it out."""
    made = copy.deepcopy(document)
    for path, value in places.items():
        *way, last = [int(word) if word.isdigit() else word for word in path.split("__")]
        owner: Any = made
        for word in way:
            owner = owner[word]
        if value is None:
            del owner[last]
        else:
            owner[last] = value
    return made


def told(document: Any, **beside: Any) -> list[tuple[str, str]]:
    """The path and the code of each error."""
    errors = check_merge({"recipe": document, **beside})[1]
    return [(error.field.removeprefix("params.").removeprefix("recipe."), error.code) for error in errors]


@pytest.mark.parametrize("document", [WHOLE, SLICED], ids=["models", "slices"])
def test_a_right_recipe_is_taken_and_comes_out_as_it_was(document: dict[str, Any]) -> None:
    clean, errors = check_merge({"recipe": document, "seed": 5, "max_shard_size": 2_000_000})
    assert (clean, errors) == ({"recipe": document, "seed": 5, "max_shard_size": 2_000_000}, [])
    assert check_merge(clean) == (clean, [])


def test_every_model_is_an_input_once_and_the_base_is_the_last() -> None:
    assert merge_references({"recipe": WHOLE}) == [
        ("params.recipe.models[1].model", "a", "model-0"),
        ("params.recipe.models[2].model", "b", "model-1"),
        ("params.recipe.models[0].model", "base", "base-model"),
    ]
    assert merge_references({"recipe": SLICED}) == [
        ("params.recipe.slices[0].sources[0].model", "a", "model-0"),
        ("params.recipe.slices[0].sources[1].model", "b", "model-1"),
    ]


def test_the_most_specific_setting_counts() -> None:
    (each,) = recipe_of({"recipe": WHOLE}).slices
    assert each.values_at("x", 0.5) == {"weights": [2, 1.0], "density": [0.4, 0.5], "normalize": False}
    first, second = recipe_of({"recipe": SLICED}).slices
    assert (first.values_at("x", 0.5), second.values_at("x", 0.5)) == ({"t": 0.5}, {"t": 0.3})


def test_a_filter_that_does_not_fit_leaves_it_to_the_level_above() -> None:
    document = changed(WHOLE, models__1__parameters={"density": [{"filter": "mlp", "value": 0.1}]})
    (each,) = recipe_of({"recipe": document}).slices
    assert each.values_at("x.mlp", 0)["density"] == [0.1, 0.2]
    assert each.values_at("x.attn", 0)["density"] == [0.2, 0.2]


def test_slerp_begins_at_its_base_in_every_slice_and_carries_its_files() -> None:
    recipe = recipe_of({"recipe": SLICED})
    assert [[(s.input, s.first) for s in each.sources] for each in recipe.slices] == [
        [("model-1", 1), ("model-0", 0)], [("model-1", 0), ("model-0", 2)],
    ]  # fmt: skip
    assert recipe.carries == "model-1"


def test_a_base_that_is_not_listed_has_the_layers_of_the_others() -> None:
    document = {
        "merge_method": "task_arithmetic", "base_model": "c",
        "slices": [{"sources": [{"model": "a", "layer_range": [2, 4]}]}],
    }  # fmt: skip
    (each,) = recipe_of({"recipe": document}).slices
    assert each.base is not None
    assert (each.base.input, each.base.first) == ("base-model", 2)


def test_a_listed_base_has_its_own_layers() -> None:
    sources = [{"model": "a", "layer_range": [2, 4]}, {"model": "c", "layer_range": [0, 2]}]
    document = {"merge_method": "task_arithmetic", "base_model": "c", "slices": [{"sources": sources}]}
    (each,) = recipe_of({"recipe": document}).slices
    assert each.base is not None
    assert (each.base.first, len(each.sources)) == (0, 1)


def test_whether_to_rescale_may_be_a_switch() -> None:
    def rescale(value: Any) -> Any:
        document = changed(WHOLE, merge_method="dare_ties", parameters={"density": 0.5, "rescale": value})
        assert told(document) == []
        return recipe_of({"recipe": document}).slices[0].values_at("x", 0)["rescale"]

    assert [rescale(value) for value in (True, False, "l1")] == ["inverse", "none", "l1"]


def test_the_scale_of_a_copied_model_stands_with_it_or_above() -> None:
    source = {"model": "a", "layer_range": [0, 1], "parameters": {"scale": 3}}
    document = {"merge_method": "passthrough", "slices": [{"sources": [source]}], "parameters": {"scale": 2}}
    assert told(document) == []
    assert recipe_of({"recipe": document}).slices[0].values_at("x", 0) == {"scale": 3}


@pytest.mark.parametrize(
    ("document", "path", "code"),
    [
        (changed(WHOLE, merge_method="tise"), "merge_method", "unknown_strategy"),
        (changed(WHOLE, merge_method=["ties"]), "merge_method", "unknown_strategy"),
        (changed(WHOLE, merge_method=None), "merge_method", "required"),
        (changed(WHOLE, base_model=None, models__0=None), "base_model", "required"),
        (changed(WHOLE, base_model={"model": "x"}), "base_model", "not_a_name"),
        (changed(WHOLE, dtype="float8"), "dtype", "unknown_dtype"),
        (changed(WHOLE, out_dtype=["float32"]), "out_dtype", "unknown_dtype"),
        (changed(WHOLE, models=None), "recipe", "required"),
        (changed(WHOLE, slices=[]), "recipe", "required"),
        (changed(WHOLE, models=[]), "models", "wrong_count"),
        (changed(WHOLE, models={"model": "a"}), "models", "wrong_count"),
        (changed(WHOLE, models=[{"model": f"m{i}"} for i in range(34)]), "models", "wrong_count"),
        (changed(WHOLE, models__1="a"), "models[1]", "not_an_object"),
        (changed(WHOLE, models__1__model=None), "models[1].model", "not_a_name"),
        (changed(WHOLE, models__1__model=" "), "models[1].model", "not_a_name"),
        (changed(WHOLE, models__1__model={"path": "a"}), "models[1].model", "not_a_name"),
        (changed(WHOLE, models__1__layer_range=[0, 1]), "models[1].layer_range", "unknown_field"),
        (changed(WHOLE, models__1__weight=1), "models[1].weight", "unknown_field"),
        (changed(WHOLE, models__2__model="a"), "models[2].model", "counted_twice"),
        (changed(WHOLE, models__0__parameters={"weight": 1}), "models[0].parameters", "unknown_field"),
        (changed(WHOLE, models__1__parameters=3), "models[1].parameters", "not_an_object"),
        (changed(WHOLE, models__1__parameters__weights=1), "models[1].parameters.weights", "unknown_field"),
        (changed(WHOLE, models__1__parameters__normalize=True), "models[1].parameters.normalize", "unknown_field"),
        (changed(WHOLE, models__1__parameters__weight="1"), "models[1].parameters.weight", "not_a_number"),
        (changed(WHOLE, parameters__density=[0.2, 0]), "parameters.density[1]", "out_of_range"),
        (changed(WHOLE, parameters__density=None), "models[2].parameters.density", "required"),
        (changed(WHOLE, parameters__t=0.5), "parameters.t", "unknown_field"),
        (changed(WHOLE, parameters__int8_mask=True), "parameters.int8_mask", "unknown_field"),
        (changed(WHOLE, models=[{"model": "base"}]), "models", "wrong_count"),
        (changed(SLICED, slices=[{"sources": []}]), "slices[0].sources", "wrong_count"),
        (changed(SLICED, slices=[]), "slices", "wrong_count"),
        (changed(SLICED, slices=[{}] * 257), "slices", "wrong_count"),
        (changed(SLICED, slices__0=5), "slices[0]", "not_an_object"),
        (changed(SLICED, slices__0__base_model="b"), "slices[0].base_model", "unknown_field"),
        (changed(SLICED, slices__0__residual_weight=0.1), "slices[0].residual_weight", "unknown_field"),
        (changed(SLICED, slices__0__sources__0__layer_range=None), "slices[0].sources[0].layer_range", "not_a_range"),
        (changed(SLICED, slices__0__sources__0__layer_range=[2, 2]), "slices[0].sources[0].layer_range", "not_a_range"),
        (changed(SLICED, slices__0__sources__0__layer_range=[-1, 2]), "slices[0].sources[0].layer_range",
         "not_a_range"),
        (changed(SLICED, slices__0__sources__0__layer_range=[0, True]), "slices[0].sources[0].layer_range",
         "not_a_range"),
        (changed(SLICED, slices__0__sources__0__layer_range=[0, 1, 2]), "slices[0].sources[0].layer_range",
         "not_a_range"),
        (changed(SLICED, slices__0__sources__1__layer_range=[0, 3]), "slices[0].sources[1].layer_range",
         "unequal_ranges"),
        (changed(SLICED, slices__1__sources__1=None), "slices[1].sources", "wrong_count"),
        (changed(SLICED, slices__1__sources__1__model="b"), "slices[1].sources[1].model", "counted_twice"),
        (changed(SLICED, slices__1__sources__0__model="c"), "slices[1].sources", "base_not_among_models"),
        (changed(SLICED, merge_method="linear", base_model="c", parameters={}, slices__0__parameters={}),
         "base_model", "base_not_among_models"),
        (changed(SLICED, merge_method="nuslerp", base_model="c", parameters={}, slices__0__parameters={}),
         "slices[0].sources", "base_not_among_models"),
        ("slerp", "recipe", "not_an_object"),
        ([SLICED], "recipe", "not_an_object"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_by_its_path(document: Any, path: str, code: str) -> None:
    assert (path, code) in told(document)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_mergekit_has_and_we_have_not_is_refused_with_what_to_do(name: str) -> None:
    (error,) = check_merge({"recipe": {**WHOLE, name: "x"}})[1]
    assert (error.field, error.message) == (f"params.recipe.{name}", f"{name}: {ELSEWHERE[name]}")


def test_everything_is_told_at_once_and_each_with_its_path() -> None:
    document = changed(
        SLICED, merge_method="slurp", dtype="float8", tokenizer_source="union",
        slices__0__sources__0__layer_range=[3, 1], slices__1__sources__1__model="", slices__0__parameters__t=[0, 7],
    )  # fmt: skip
    errors = check_merge({"recipe": document, "strategy": "slerp", "seed": -1})[1]
    assert [e.field.removeprefix("params.") for e in errors] == [
        "recipe.merge_method", "recipe.dtype", "recipe.tokenizer_source", "recipe.slices[0].parameters.t[1]",
        "recipe.slices[0].sources[0].layer_range", "recipe.slices[1].sources[1].model", "strategy", "seed",
    ]  # fmt: skip
    assert all(e.message.startswith(e.field.removeprefix("params.recipe.")) for e in errors[:6])


def test_a_recipe_and_what_it_says_itself_exclude_each_other() -> None:
    beside = {"strategy": "ties", "models": ["a"], "base_model": "c", "t": 0.5, "dtype": "float32", "scale": 2}
    assert told(WHOLE, **beside) == [(name, "beside_recipe") for name in beside]
    assert told(WHOLE, strategy=None, colour=1) == [("colour", "unknown_field")]


def test_a_hundred_errors_are_told_short() -> None:
    found = told({**WHOLE, **{f"x{i}": 1 for i in range(100)}})
    assert (len(found), found[-1]) == (51, ("recipe", "more_errors"))


def test_values_that_hold_for_all_tensors_are_checked_without_any() -> None:
    document = {"merge_method": "linear", "models": [{"model": "a"}, {"model": "b", "parameters": {"weight": -1}}]}
    (error,) = check_merge({"recipe": document})[1]
    assert (error.field, error.code) == ("params.recipe", "zero_sum")


def test_names_are_trimmed_everywhere() -> None:
    document = {"merge_method": "slerp", "base_model": " b", "models": [{"model": "a "}, {"model": "b "}]}
    clean, errors = check_merge({"recipe": document})
    assert errors == []
    assert clean["recipe"] == {"merge_method": "slerp", "base_model": "b", "models": [{"model": "a"}, {"model": "b"}]}
