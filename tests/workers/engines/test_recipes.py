"""A merge by a recipe: what each slice, gradient and filter says is what comes out, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import (
    bits,
    by_recipe,
    candidate,
    layered_model,
    merged,
    model,
    plan_of,
    refusal,
    sha256,
    written,
)
from tests.workers.engines.dying import run_and_die
from workers.engines.producing import produce
from workers.engines.writing import PlannedWriter


def sources(*ranges: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    return {"sources": [{"model": name, "layer_range": [first, end]} for name, first, end in ranges], **more}


FRANKEN = {"merge_method": "passthrough", "slices": [sources(("a", 0, 2)), sources(("b", 1, 3)), sources(("a", 1, 2))],
           "parameters": {"scale": [{"filter": "attn", "value": [1, 0.5]}, {"value": 1}]}}  # fmt: skip
SLICED = {
    "merge_method": "slerp", "base_model": "a",
    "slices": [sources(("a", 0, 2), ("b", 1, 3), parameters={"t": [0.1, 0.9]}), sources(("b", 0, 1), ("a", 0, 1))],
    "parameters": {"t": [{"filter": "mlp", "value": 0.25}, {"value": 0.5}]},
    "out_dtype": "bfloat16",
}  # fmt: skip
DRAWN = {
    "merge_method": "dare_ties", "base_model": "base", "slices": [sources(("a", 0, 2), ("b", 1, 3), ("base", 0, 2)),
                                                                  sources(("a", 0, 1), ("b", 0, 1))],
    "parameters": {"density": [0.2, 0.8], "weight": [{"filter": "mlp", "value": [2, 1]}]},
}  # fmt: skip
GRADED = {
    "merge_method": "della", "base_model": "base",
    "models": [{"model": "base"}, {"model": "a", "parameters": {"density": [0.3, 0.7]}}, {"model": "b"}],
    "parameters": {"density": 0.5, "epsilon": [{"filter": "attn", "value": [0.1, 0.2]}, {"value": 0.15}]},
}  # fmt: skip
ALL = {"frankenmerge": FRANKEN, "slices": SLICED, "slices that draw": DRAWN, "gradients": GRADED}


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    return {name: layered_model(tmp_path / name, seed) for seed, name in enumerate(("a", "b", "base"))}


def all_bits(made: Any) -> dict[str, bytes]:
    return {name: bits(tensor) for name, tensor in merged(made).items()}


def test_a_frankenmerge_has_the_bytes_of_its_layers(models: dict[str, Path]) -> None:
    document = {**FRANKEN, "parameters": {}}
    got, a, b = (merged(by_recipe(document, models)), *(load_file(models[n] / "model.safetensors") for n in "ab"))
    taken = [(a, 0), (a, 1), (b, 1), (b, 2), (a, 1)]
    expected = {
        f"model.layers.{at}.{part}.weight": of[f"model.layers.{layer}.{part}.weight"]
        for at, (of, layer) in enumerate(taken)
        for part in ("attn", "mlp")
    }
    expected |= {name: a[name] for name in ("model.embed.weight", "model.embed.ids", "model.norm.weight")}
    assert {name: bits(t) for name, t in got.items()} == {name: bits(t) for name, t in expected.items()}


def test_the_scale_of_a_gradient_is_that_of_the_layer_in_its_slice(models: dict[str, Path]) -> None:
    got, b = merged(by_recipe(FRANKEN, models)), load_file(models["b"] / "model.safetensors")
    second = torch.equal(got["model.layers.3.attn.weight"], b["model.layers.2.attn.weight"] * 0.5)
    assert (second, torch.equal(got["model.layers.3.mlp.weight"], b["model.layers.2.mlp.weight"])) == (True, True)


def test_slices_merge_each_pair_of_layers_with_its_own_t(models: dict[str, Path], tmp_path: Path) -> None:
    got = by_recipe(SLICED, models)
    a, b = (load_file(models[name] / "model.safetensors") for name in "ab")

    def slerp(name_a: str, name_b: str, t: float) -> torch.Tensor:
        one, other = model(tmp_path / "x", {"w": a[name_a]}), model(tmp_path / "y", {"w": b[name_b]})
        return candidate(one, other, t=t, out_dtype="bfloat16").tensor("w")

    for name, expected in (
        ("model.layers.0.mlp.weight", slerp("model.layers.0.mlp.weight", "model.layers.1.mlp.weight", 0.1)),
        ("model.layers.1.attn.weight", slerp("model.layers.1.attn.weight", "model.layers.2.attn.weight", 0.9)),
        ("model.layers.2.mlp.weight", slerp("model.layers.0.mlp.weight", "model.layers.0.mlp.weight", 0.25)),
        ("model.embed.weight", slerp("model.embed.weight", "model.embed.weight", 0.1)),
        ("model.norm.weight", slerp("model.norm.weight", "model.norm.weight", 0.5)),
    ):
        assert bits(got.tensor(name)) == bits(expected), name


def test_plain_models_in_a_recipe_are_what_plain_parameters_are(models: dict[str, Path]) -> None:
    document = {
        "merge_method": "ties", "base_model": "base", "dtype": "float32",
        "models": [{"model": "a", "parameters": {"weight": 2, "density": 0.4}}, {"model": "base"}, {"model": "b"}],
        "parameters": {"density": 0.6, "lambda": 0.7},
    }  # fmt: skip
    plain = candidate(
        models["a"], models["b"], strategy="ties", base=models["base"], weights=[2, 1], density=[0.4, 0.6],
        **{"lambda": 0.7},
    )  # fmt: skip
    assert all_bits(by_recipe(document, models)) == all_bits(plain)


def test_a_slice_of_all_layers_is_the_whole_model(models: dict[str, Path]) -> None:
    whole = {"merge_method": "dare_linear", "base_model": "base", "parameters": {"density": 0.5},
             "models": [{"model": "a"}, {"model": "b"}]}  # fmt: skip
    sliced = {**whole, "slices": [sources(("a", 0, 3), ("b", 0, 3))]}
    del sliced["models"]
    assert all_bits(by_recipe(whole, models, seed=4)) == all_bits(by_recipe(sliced, models, seed=4))


def test_a_gradient_in_plain_parameters_gives_each_layer_its_t(models: dict[str, Path]) -> None:
    graded = candidate(models["a"], models["b"], t=[0.0, 1.0])
    for layer, t in ((0, 0.0), (1, 0.5), (2, 1.0)):
        name = f"model.layers.{layer}.mlp.weight"
        assert bits(graded.tensor(name)) == bits(candidate(models["a"], models["b"], t=t).tensor(name))


def test_a_repeated_layer_draws_masks_of_its_own(models: dict[str, Path]) -> None:
    document = {"merge_method": "dare_linear", "base_model": "base", "parameters": {"density": 0.5},
                "slices": [sources(("a", 0, 1)), sources(("a", 0, 1))]}  # fmt: skip
    got = merged(by_recipe(document, models))
    assert not torch.equal(got["model.layers.0.mlp.weight"], got["model.layers.1.mlp.weight"])


@pytest.mark.parametrize("document", ALL.values(), ids=ALL)
def test_the_bits_of_a_recipe_depend_on_neither_chunk_nor_order(document: Any, models: dict[str, Path]) -> None:
    made, small = by_recipe(document, models, seed=3), by_recipe(document, models, chunk=7, seed=3)
    backwards = {spec.name: bits(small.tensor(spec.name)) for spec in reversed(small.outputs)}
    assert all_bits(made) == backwards


@pytest.mark.parametrize("document", ALL.values(), ids=ALL)
@pytest.mark.parametrize("shard", [None, 300], ids=["one file", "shards"])
def test_a_recipe_killed_at_any_step_and_run_again_gives_the_same_bytes(
    document: Any, shard: int | None, models: dict[str, Path], tmp_path: Path
) -> None:
    made = by_recipe(document, models)
    expected = [sha256(p) for p in sorted(written(made, tmp_path / "undisturbed", max_shard_size=shard))]
    step, died = 0, True
    while died:
        step += 1
        place = tmp_path / f"{step}"

        def merge(place: Path = place) -> None:
            writer = PlannedWriter(plan_of(made, max_shard_size=shard), place / "work", flush_bytes=1)
            writer.open()
            produce(made, writer)
            writer.publish(place / "out")

        died = run_and_die(merge, step)
        if died:
            merge()
        assert [sha256(p) for p in sorted((place / "out").iterdir())] == expected
    assert step > len(made.outputs)


def test_the_planned_memory_counts_the_models_of_a_tensor_not_all(tmp_path: Path) -> None:
    places = {f"m{i}": layered_model(tmp_path / f"m{i}", i) for i in range(3)}
    document = {"merge_method": "passthrough", "slices": [sources((name, 0, 3)) for name in places]}
    assert by_recipe(document, places).memory_estimate() == (1 + 3 + 1) * 8 * 9 * 5


def test_a_missing_layer_is_refused_before_anything_is_read(models: dict[str, Path]) -> None:
    document = {"merge_method": "passthrough", "slices": [sources(("a", 0, 2)), sources(("b", 1, 9))]}
    refused = refusal(by_recipe, document, models)
    assert (refused.code, refused.details["field"]) == (
        "missing_layer", "params.recipe.slices[1].sources[0].layer_range"
    )  # fmt: skip
    assert "'b' has 3 layers and no layer 3 to 8: end at 3" in refused.message


def test_nan_in_a_layer_that_is_taken_is_named_as_it_is_called_in_its_model(tmp_path: Path) -> None:
    tensors = {f"h.{i}.w": [1.0, float("nan") if i == 1 else 2.0] for i in range(3)}
    places = {"a": model(tmp_path / "a", tensors)}
    document = {"merge_method": "passthrough", "slices": [sources(("a", 2, 3)), sources(("a", 1, 2))]}
    made = by_recipe(document, places)
    assert made.tensor("h.0.w").tolist() == [1.0, 2.0]
    refused = refusal(made.tensor, "h.1.w")
    assert (refused.code, dict(refused.details)) == ("nonfinite_input", {"tensor": "h.1.w", "model": "a", "count": 1})
    document["slices"].reverse()
    refused = refusal(by_recipe(document, places).tensor, "h.0.w")
    assert refused.details["tensor"] == "h.1.w"


def test_integers_are_copied_and_those_that_differ_refused(tmp_path: Path, models: dict[str, Path]) -> None:
    tensors = load_file(models["b"] / "model.safetensors") | {"model.embed.ids": torch.zeros(9, dtype=torch.int64)}
    models["b"] = model(tmp_path / "other", tensors)
    assert by_recipe(FRANKEN, models).tensor("model.embed.ids").tolist() == list(range(9))
    assert refusal(by_recipe(SLICED, models).tensor, "model.embed.ids").code == "integer_mismatch"


def test_the_arithmetic_and_the_stored_type_are_those_of_the_recipe(models: dict[str, Path]) -> None:
    document = {**GRADED, "dtype": "float64", "out_dtype": "float16"}
    made = by_recipe(document, models)
    assert {made.tensor(s.name).dtype for s in made.outputs} == {torch.float16, torch.int64}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_copy_is_bit_for_bit_in_every_type(dtype: torch.dtype, tmp_path: Path) -> None:
    place = layered_model(tmp_path / "a", 1, dtype=dtype)
    assert all_bits(candidate(place, strategy="passthrough")) == {
        name: bits(tensor) for name, tensor in load_file(place / "model.safetensors").items()
    }
