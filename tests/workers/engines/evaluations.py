"""Models, data sets and what is made of them for the tests of kinds evaluate and infer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from tests.workers.engines.builders import model
from workers.engines.evaluating import Evaluation
from workers.engines.given import Numbers, Prompts, read_given
from workers.engines.in_batches import Batched, compute
from workers.engines.inferring import Inference
from workers.engines.models import load
from workers.engines.results import Results
from workers.engines.samples import Rows, Texts, read_samples
from workers.engines.sources import open_model
from workers.infer_params import Generation
from workers.model_families import FAMILIES

MLP = {"model_type": "mlp", "layer_sizes": [5, 7, 3], "activation": "relu"}
DECODER = {"model_type": "decoder", "num_layers": 2, "width": 8, "heads": 2, "context": 6, "characters": "abcd ö"}
CPU = torch.device("cpu")


def random_weights(config: Mapping[str, Any], seed: int = 0, scale: float = 1.0) -> dict[str, torch.Tensor]:
    """Weights of the architecture, drawn from a normal distribution."""
    g = torch.Generator().manual_seed(seed)
    shapes = FAMILIES[config["model_type"]].shapes(config)
    return {name: scale * torch.randn(shape, generator=g) for name, shape in shapes.items()}


def family_model(directory: Path, config: Mapping[str, Any], seed: int = 0, **changed: torch.Tensor | None) -> Path:
    """A model directory of the architecture; ``changed`` tensors take the place of its own, None leaves one out (``__``
    for a dot)."""
    weights: dict[str, torch.Tensor | None] = {**random_weights(config, seed)}
    weights |= {name.removeprefix("_").replace("__", "."): tensor for name, tensor in changed.items()}
    made = model(directory, {name: tensor for name, tensor in weights.items() if tensor is not None})
    (made / "config.json").write_text(json.dumps(config))
    return made


def labelled(count: int, seed: int = 0, features: int = 5, classes: int = 3) -> list[dict[str, Any]]:
    """Samples of a classifier."""
    rng = random.Random(seed)
    return [{"input": [round(rng.gauss(0, 1), 3) for _ in range(features)], "label": rng.randrange(classes)}
            for _ in range(count)]  # fmt: skip


def texts(count: int, seed: int = 0, letters: str = "abcd ö") -> list[dict[str, Any]]:
    """Samples of a language model: some shorter than its context, some several times as long."""
    rng = random.Random(seed)
    return [{"text": "".join(rng.choice(letters) for _ in range(rng.randrange(2, 31)))} for _ in range(count)]


def json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as a file, one object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def samples_of(path: Path, config: Mapping[str, Any], limit: int | None = None) -> Rows | Texts:
    """The samples in the file."""
    return read_samples(path, config, FAMILIES[config["model_type"]].task, limit=limit, label=path.name)


def evaluation(tmp: Path, config: Mapping[str, Any], count: int, *, size: int = 4, devices: int = 1) -> Evaluation:
    """An evaluation of a random model of the architecture by so many random samples, on so many CPU devices."""
    rows = labelled(count) if config["model_type"] == "mlp" else texts(count)
    source = family_model(tmp / "model", config)
    samples = samples_of(json_lines(tmp / "data.jsonl", rows), config)
    return Evaluation(load(open_model(source, "m"), config, [CPU] * devices), samples, size)


def inference(
    tmp: Path, config: Mapping[str, Any], count: int, *, size: int = 4, devices: int = 1, **ask: Any
) -> Inference:
    """A random model of the architecture over so many random rows; ``ask`` changes what a language model is asked."""
    rows = labelled(count) if config["model_type"] == "mlp" else texts(count)
    source = family_model(tmp / "model", config)
    given = given_of(json_lines(tmp / "data.jsonl", rows), config)
    asked = Generation(**{"tokens": 9, "temperature": 5.0, "seed": 3, "logprobs": True, **ask})
    return Inference(load(open_model(source, "m"), config, [CPU] * devices), given, asked, size)


def given_of(path: Path, config: Mapping[str, Any], limit: int | None = None, spared: int = 0) -> Numbers | Prompts:
    """The rows in the file."""
    task = FAMILIES[config["model_type"]].task
    return read_given(path, config, task, limit=limit, spared=spared, label=path.name, field="params.input")


def lines_of(made: Batched, directory: Path, **how: Callable[[], Any]) -> list[bytes]:
    """Every row of the work as it is written, after one run without a stop."""
    results = Results(directory, "plan")
    results.restore()
    assert compute(made, results, **how)
    return list(results.lines())
