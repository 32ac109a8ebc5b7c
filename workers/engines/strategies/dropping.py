"""Thinning at random: each change is kept with some probability, and what is kept makes up for what is lost.

DARE, one probability for all: Yu et al., "Language models are super Mario", 2023. DELLA, a higher one for larger
magnitudes in each row: Deep, Bhardwaj, Poria, "DELLA-Merging: reducing interference in model merging through
magnitude-based sampling", 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import REDUCTION_CHUNK, Values, folded, stretches
from workers.engines.strategies.contract import rows_of
from workers.engines.strategies.drawing import Draw
from workers.engines.strategies.task_vectors import TaskVectors, Thinned

Chance = Callable[[torch.Tensor], torch.Tensor | float]
"""The probability with which each element of a stretch is kept."""


def dare(values: Values, model: int, params: Mapping[str, Any]) -> Thinned:
    """Each change is kept with probability ``density``."""
    density: float = params["density"][model]
    if density == 1.0:
        return lambda vector, start: vector
    return _dropped(values, model, params, chance=lambda vector: density, row=1)


def della(values: Values, model: int, params: Mapping[str, Any]) -> Thinned:
    """Each change is kept with a probability from ``density - epsilon`` (the smallest of its row) to ``density +
    epsilon`` (the largest)."""
    density, epsilon, row = params["density"][model], params["epsilon"][model], row_of(values.shape)
    return _dropped(
        values, model, params, chance=lambda vector: by_rank(vector, row, density=density, epsilon=epsilon), row=row
    )


def row_of(shape: Sequence[int]) -> int:
    """The elements of a row."""
    return rows_of(shape)[1]


def by_rank(vector: torch.Tensor, row: int, *, density: float, epsilon: float) -> torch.Tensor:
    """``density - epsilon + 2 epsilon rank / (row - 1)`` in float64, ranks by ascending magnitude in every row; of
    equal magnitudes the lower index has the lower rank. A row of one element has ``density``."""
    if row == 1:
        return torch.full_like(vector, density, dtype=torch.float64)
    order = vector.abs().view(-1, row).argsort(dim=1, stable=True)
    steps = torch.arange(row, dtype=torch.float64, device=vector.device)
    by_place = (density - epsilon + 2.0 * epsilon * steps / (row - 1)).expand(order.shape)
    return torch.empty(order.shape, dtype=torch.float64, device=vector.device).scatter_(1, order, by_place).view(-1)


def _dropped(values: Values, model: int, params: Mapping[str, Any], *, chance: Chance, row: int) -> Thinned:
    draw, rescale = Draw(params.get("seed", 0), values.inputs.name, model), params["rescale"]

    def kept(vector: torch.Tensor, start: int, probability: torch.Tensor | float) -> torch.Tensor:
        return draw.uniforms(start, start + vector.numel()).to(vector.device) < probability

    def inverse(vector: torch.Tensor, start: int) -> torch.Tensor:
        probability = chance(vector)
        mask = kept(vector, start, probability)
        divisor = probability.to(vector.dtype) if isinstance(probability, torch.Tensor) else probability
        return torch.where(mask, vector.div_(divisor), 0.0)

    def scaled(vector: torch.Tensor, start: int) -> torch.Tensor:
        return torch.where(kept(vector, start, chance(vector)), vector.mul_(factor), 0.0)

    if rescale == "inverse":
        return inverse
    factor = 1.0 if rescale == "none" else _same_l1(values, model, row, lambda v, at: kept(v, at, chance(v)))
    return scaled


def _same_l1(values: Values, model: int, row: int, kept: Callable[[torch.Tensor, int], torch.Tensor]) -> float:
    """What the kept changes are multiplied by, so that their magnitudes sum to what they did before; 1 if none is
    kept."""
    before, after = 0.0, 0.0
    for start, stop in stretches(values.inputs.numel, max(REDUCTION_CHUNK // row, 1) * row):
        vector = values.task_vector(model, start, stop)
        size = vector.abs().double()
        before += float(folded(size.clone()[None]))
        after += float(folded(torch.where(kept(vector, start), size, 0.0)[None]))
    return before / after if after > 0.0 else 1.0


DARE_LINEAR = TaskVectors("dare_linear", dare, spare=9)
DARE_TIES = TaskVectors("dare_ties", dare, elects=True, spare=9)
DELLA = TaskVectors("della", della, elects=True, row=row_of, spare=12)
DELLA_LINEAR = TaskVectors("della_linear", della, row=row_of, spare=12)
