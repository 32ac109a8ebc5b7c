"""One recipe of each strategy, with every parameter that does something in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tests.workers.engines.builders import candidate, model, random_model
from workers.engines.merging import Candidate
from workers.merge_strategies import STRATEGIES

_TWO = {"weights": [0.7, 1.9]}
_DROPS = {**_TWO, "density": [0.6, 0.3], "seed": 5}
RECIPES: dict[str, dict[str, Any]] = {
    "slerp": {"t": 0.3},
    "linear": _TWO,
    "nuslerp": {**_TWO, "granularity": "row"},
    "task_arithmetic": {**_TWO, "lambda": 0.7},
    "ties": {**_TWO, "density": [0.29, 0.6], "lambda": 0.7},
    "dare_linear": {**_DROPS, "rescale": "l1"},
    "dare_ties": _DROPS,
    "della": {**_DROPS, "epsilon": 0.2},
    "della_linear": {**_DROPS, "epsilon": [0.2, 0.1], "rescale": "l1"},
    "breadcrumbs": {**_TWO, "density": 0.5, "gamma": 0.1},
    "breadcrumbs_ties": {**_TWO, "density": [0.5, 0.9], "gamma": 0.1},
    "model_stock": {"granularity": "row"},
    "passthrough": {"scale": 0.7},
}
ON_A_BASE = [name for name, strategy in STRATEGIES.items() if strategy.base != "none"]


def recipe_of(directory: Path, strategy: str, chunk: int = 1 << 20, **changes: Any) -> Candidate:
    """Two random models, on a random base where the strategy takes one, by its recipe; made once a directory."""
    made = [directory / name for name in ("a", "b", "base")]
    for seed, place in enumerate(made):
        if not place.exists():
            random_model(place, seed + 1)
    params = {**RECIPES[strategy], **changes}
    base = made[2] if strategy in ON_A_BASE else None
    return candidate(*made[:2], strategy=strategy, chunk=chunk, base=base, **params)


def on_base(
    directory: Path, strategy: str, base: Mapping[str, Any], *models: Mapping[str, Any], **params: Any
) -> dict[str, torch.Tensor]:
    """The output of merging models of these tensors on a base of those, with density 0.5 and epsilon 0.2 where
    needed."""
    own = STRATEGIES[strategy].own
    needed = {name: value for name, value in (("density", 0.5), ("epsilon", 0.2)) if name in own}
    places = [model(directory / f"m{i}", tensors) for i, tensors in enumerate(models)]
    made = candidate(*places, strategy=strategy, base=model(directory / "base", base), **{**needed, **params})
    return {spec.name: made.tensor(spec.name) for spec in made.outputs}
