"""The built-in families against arithmetic written anew, without torch's modules."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.workers.engines.builders import bits, refusal
from tests.workers.engines.evaluations import CPU, DECODER, MLP, family_model, random_weights
from workers.engines.models import ACTIVATIONS, BUILDERS, load
from workers.engines.sources import open_model
from workers.model_families import ACTIVATIONS as NAMED
from workers.model_families import FAMILIES

DEMONSTRATION = {"model_type": "decoder", "num_layers": 3, "width": 96, "heads": 4, "context": 64,
                 "characters": "".join(map(chr, range(32, 127))) + "\n"}  # fmt: skip


def loaded(directory: Path, config, **changed):
    return load(open_model(family_model(directory, config, **changed), "m"), config, [CPU])


def relu(x):
    return np.maximum(x, 0)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def mlp_by_hand(weights, config, x, activation):
    last = 2 * (len(config["layer_sizes"]) - 2)
    for place in range(0, last + 1, 2):
        x = weights[f"{place}.weight"] @ x + weights[f"{place}.bias"]
        x = activation(x) if place < last else x
    return x


def normed(x, weight, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def decoder_by_hand(w, config, tokens):
    """Place by place and head by head; each place looks at itself and what stands before it."""
    x = np.stack([w["embed.weight"][t] + w["pos_embed.weight"][i] for i, t in enumerate(tokens)])
    width, heads = config["width"], config["heads"]
    size = width // heads

    def at(n, part):
        return w[f"layers.{n}.{part}.weight"], w[f"layers.{n}.{part}.bias"]

    def apply(x, n, part):
        return x @ at(n, part)[0].T + at(n, part)[1]

    for n in range(config["num_layers"]):
        qkv = apply(normed(x, *at(n, "norm1")), n, "qkv")
        mixed = np.zeros_like(x)
        for h in range(heads):
            q, k, v = (qkv[:, part * width + h * size : part * width + (h + 1) * size] for part in range(3))
            for i in range(len(tokens)):
                score = np.array([q[i] @ k[j] / math.sqrt(size) for j in range(i + 1)])
                share = np.exp(score - score.max())
                mixed[i, h * size : (h + 1) * size] = (share / share.sum()) @ v[: i + 1]
        x = x + apply(mixed, n, "proj")
        x = x + apply(gelu(apply(normed(x, *at(n, "norm2")), n, "up")), n, "down")
    return normed(x, w["norm.weight"], w["norm.bias"]) @ w["head.weight"].T


def wide(weights):
    return {name: tensor.double().numpy() for name, tensor in weights.items()}


@pytest.mark.parametrize(("name", "activation"), [("relu", relu), ("gelu", gelu), ("tanh", np.tanh)])
def test_an_mlp_computes_what_its_formula_says(name, activation, tmp_path: Path) -> None:
    config = {**MLP, "activation": name}
    x = np.random.default_rng(1).standard_normal(5)
    got = loaded(tmp_path / "m", config).modules[0](torch.tensor(x)[None])[0].numpy()
    np.testing.assert_allclose(got, mlp_by_hand(wide(random_weights(config)), config, x, activation), rtol=1e-12)


def test_a_decoder_computes_what_its_formula_says(tmp_path: Path) -> None:
    tokens = [0, 3, 5, 5, 1, 2]
    got = loaded(tmp_path / "m", DECODER).modules[0](torch.tensor([tokens]))[0].numpy()
    np.testing.assert_allclose(got, decoder_by_hand(wide(random_weights(DECODER)), DECODER, tokens), rtol=1e-10)


@pytest.mark.parametrize("config", [MLP, DECODER, DEMONSTRATION, {**DECODER, "characters": None}],
                         ids=["mlp", "decoder", "demonstration", "bytes"])  # fmt: skip
def test_the_shapes_that_are_checked_are_those_of_the_module(config) -> None:
    config = {name: value for name, value in config.items() if value is not None}
    with torch.device("meta"):
        built = BUILDERS[config["model_type"]](config)
    assert {n: tuple(t.shape) for n, t in built.state_dict().items()} == FAMILIES[config["model_type"]].shapes(config)


def test_the_decoder_of_the_demonstration_has_its_41_tensors_and_360288_parameters() -> None:
    shapes = FAMILIES["decoder"].shapes(DEMONSTRATION)
    assert (len(shapes), sum(math.prod(shape) for shape in shapes.values())) == (41, 360_288)


def test_every_family_and_activation_that_is_checked_can_be_built() -> None:
    assert (BUILDERS.keys(), tuple(ACTIVATIONS)) == (FAMILIES.keys(), NAMED)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_of_any_float_are_computed_with_in_float64(dtype, tmp_path: Path) -> None:
    weight = random_weights(MLP)["0.weight"].to(dtype)
    module = loaded(tmp_path / "m", MLP, _0__weight=weight).modules[0]
    assert bits(module.state_dict()["0.weight"]) == bits(weight.double())
    assert {t.dtype for t in module.state_dict().values()} == {torch.float64}


def test_several_devices_share_what_is_on_the_same(tmp_path: Path) -> None:
    made = load(open_model(family_model(tmp_path / "m", MLP), "m"), MLP, [CPU, CPU])
    assert made.modules[0] is made.modules[1]


def test_a_model_with_nan_or_infinity_is_refused_naming_all_its_tensors(tmp_path: Path) -> None:
    weights = random_weights(MLP)
    weights["0.weight"][1, 2] = math.nan
    weights["2.bias"][:2] = math.inf
    bad = family_model(tmp_path / "m", MLP, _0__weight=weights["0.weight"], _2__bias=weights["2.bias"])
    found = refusal(load, open_model(bad, "digits"), MLP, [CPU])
    assert (found.code, found.details["tensors"]) == ("nonfinite_input", {"0.weight": 1, "2.bias": 2})
    assert found.message == (
        "digits holds values that are no finite numbers in '0.weight' (1), '2.bias' (2): give a model without them"
    )
