"""What is merged twice, by EMEP and by mergekit: the golden cases, and recipes for whole models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.workers.engines.builders import model

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden" / "merge_cases.json").read_text("utf-8"))
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
IN_RECIPE = {"weights": "weight"}
PER_MODEL = ("weights", "density", "gamma", "epsilon")
LAYERS = 3
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": 8,
    "intermediate_size": 12, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 20,
    "torch_dtype": "float32", "tie_word_embeddings": False,
}  # fmt: skip
# Of tensors behind the layers mergekit takes a gradient's last value and EMEP its first: a filter says it for both.
BEHIND = [{"filter": "lm_head", "value": 0.5}, {"filter": "model.norm", "value": 0.5}]
RECIPES: dict[str, dict[str, Any]] = {
    "slerp by layer and by name": {
        "merge_method": "slerp", "base_model": "a",
        "slices": [{"sources": [{"model": name, "layer_range": [0, LAYERS]} for name in "ab"]}],
        "parameters": {"t": [{"filter": "self_attn", "value": [0.2, 0.8]}, {"filter": "mlp", "value": [0.7, 0.4, 0.1]},
                             {"value": 0.5}]},
    },
    "linear of three": {
        "merge_method": "linear",
        "models": [{"model": name, "parameters": {"weight": w}} for name, w in (("a", 0.5), ("b", 0.2), ("c", 1.3))],
    },
    "linear with a gradient": {
        "merge_method": "linear",
        "models": [{"model": "a", "parameters": {"weight": [*BEHIND, {"value": [1.0, 0.25, 0.5]}]}},
                   {"model": "b", "parameters": {"weight": 0.75}}],
    },
    "nuslerp on a base": {
        "merge_method": "nuslerp", "base_model": "base",
        "models": [{"model": "a", "parameters": {"weight": 0.3}}, {"model": "b", "parameters": {"weight": 0.6}}],
    },
    "task arithmetic": {
        "merge_method": "task_arithmetic", "base_model": "base",
        "models": [{"model": "a", "parameters": {"weight": 0.7}}, {"model": "b", "parameters": {"weight": 0.4}}],
        "parameters": {"lambda": 0.8},
    },
    "ties": {
        "merge_method": "ties", "base_model": "base",
        "models": [{"model": name, "parameters": {"weight": w, "density": d}}
                   for name, w, d in (("a", 0.7, 0.6), ("b", 0.4, 0.35), ("c", 1.0, 0.8))],
    },
    "breadcrumbs": {
        "merge_method": "breadcrumbs", "base_model": "base",
        "models": [{"model": name, "parameters": {"weight": 0.5, "density": 0.7, "gamma": 0.05}} for name in "ab"],
    },
    "breadcrumbs with signs": {
        "merge_method": "breadcrumbs_ties", "base_model": "base",
        "models": [{"model": name, "parameters": {"weight": 0.5, "density": 0.7, "gamma": 0.05}} for name in "abc"],
    },
    "dare that keeps all": {
        "merge_method": "dare_ties", "base_model": "base",
        "models": [{"model": name, "parameters": {"weight": 0.5, "density": 1.0}} for name in "ab"],
    },
    "model stock": {"merge_method": "model_stock", "base_model": "base", "models": [{"model": name} for name in "abc"]},
    "layers stacked": {
        "merge_method": "passthrough",
        "slices": [{"sources": [{"model": "a", "layer_range": [0, 2]}]},
                   {"sources": [{"model": "b", "layer_range": [1, 3]}]}],
    },
    "layers scaled": {
        "merge_method": "passthrough",
        "slices": [{"sources": [{"model": "a", "layer_range": [0, LAYERS], "parameters": {
            "scale": [{"filter": "down_proj", "value": 0.5}, {"value": 1.0}]}}]}],
    },
    "in half precision": {
        "merge_method": "linear", "out_dtype": "bfloat16",
        "models": [{"model": "a", "parameters": {"weight": 1.0}}, {"model": "b", "parameters": {"weight": 3.0}}],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One merge: ``models`` and ``base`` where they lie, and what mergekit is asked in its own words. ``known``: what
    became of it there before (``agrees``, ``differs``, ``raises``), ``expected`` EMEP's value, flat, None where EMEP
    refuses it or where it is to be computed."""

    id: str
    config: dict[str, Any]
    raw: bool
    known: str
    recipe: Mapping[str, Any] | None = None
    masks: Sequence[Any] | None = None
    expected: Sequence[float] | None = None
    tolerance: float = 1e-6
    before: Any = None


def golden(directory: Path) -> Iterator[Case]:
    """The golden cases that mergekit has words for, their models written under ``directory``."""
    for case in GOLDEN["cases"]:
        known = case["mergekit_0_1_5"]
        if known["result"] == "n/a":
            continue
        place = directory / case["id"]
        models = [_one(place / f"model-{i}", case, flat) for i, flat in enumerate(case["models"])]
        base = _one(place / "base", case, case["base"]) if "base" in case else None
        yield Case(
            case["id"], _raw(case, models, base), True, known["result"], masks=case["params"].get("masks"),
            expected=None if "error" in case else [float(x) for x in case["expected"]],
            tolerance=case.get("tol", 1e-6), before=known.get("value"),
        )  # fmt: skip


def whole(directory: Path) -> Iterator[Case]:
    """Every recipe for small models of an architecture that mergekit knows, written under ``directory``."""
    places = {name: str(_llama(directory / name, seed)) for seed, name in enumerate(("base", "a", "b", "c"))}
    for name, recipe in RECIPES.items():
        config = {"dtype": "float32", **_placed(recipe, places)}
        yield Case(name, config, False, "agrees", recipe=recipe)


def _one(place: Path, case: Mapping[str, Any], flat: Sequence[Any]) -> str:
    values = torch.tensor([float(x) for x in flat], dtype=torch.float64).to(DTYPES[case["dtype"]])
    return str(model(place, {"w": values.reshape(case.get("shape", [-1]))}) / "model.safetensors")


def _raw(case: Mapping[str, Any], models: Sequence[str], base: str | None) -> dict[str, Any]:
    params = dict(case["params"])
    each = [
        {"model": place, "parameters": {IN_RECIPE.get(k, k): params[k][i] for k in PER_MODEL if k in params}}
        for i, place in enumerate(models)
    ]
    of_all = {k: v for k, v in params.items() if k in ("t", "normalize", "lambda", "scale")}
    if "rescale" in params:
        of_all["rescale"] = params["rescale"] == "l1"
    if case["strategy"] == "nuslerp":
        of_all["nuslerp_flatten"] = params.get("granularity") != "row"  # its row-wise is by columns
    if params.get("granularity") == "row" and case["strategy"] == "model_stock":
        of_all["filter_wise"] = True
    config = {"merge_method": case["strategy"], "models": each, "parameters": of_all}
    if case["strategy"] == "slerp":
        base = models[0]
    return config if base is None else {**config, "base_model": base}


def _llama(place: Path, seed: int) -> Path:
    """A random model of the base's neighbourhood, so that changes are small beside the numbers."""
    g, common = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(99)
    shapes = {"model.embed_tokens.weight": (20, 8), "model.norm.weight": (8,), "lm_head.weight": (20, 8)}
    for i in range(LAYERS):
        of = f"model.layers.{i}."
        shapes |= {f"{of}self_attn.{p}_proj.weight": (8, 8) for p in "qkvo"}
        shapes |= {f"{of}mlp.gate_proj.weight": (12, 8), f"{of}mlp.up_proj.weight": (12, 8)}
        shapes |= {f"{of}mlp.down_proj.weight": (8, 12), f"{of}input_layernorm.weight": (8,)}
        shapes |= {f"{of}post_attention_layernorm.weight": (8,)}
    tensors = {n: torch.randn(s, generator=common) + 0.3 * torch.randn(s, generator=g) for n, s in shapes.items()}
    return model(place, tensors, config_json=json.dumps(LLAMA))


def _placed(recipe: Any, places: Mapping[str, str]) -> Any:
    """The document with the models called by where they lie."""
    if isinstance(recipe, list):
        return [_placed(each, places) for each in recipe]
    if not isinstance(recipe, dict):
        return recipe
    return {
        key: places[value] if key in ("model", "base_model") else _placed(value, places)
        for key, value in recipe.items()
    }
