"""Strategies on task vectors: each model's difference to the base is thinned, then all are added to the base.

``b + λ Σ w_i δ_i`` with ``δ_i = x_i - b``: Ilharco et al., "Editing models with task arithmetic", 2023. With an
election of signs: Yadav et al., "TIES-Merging: resolving interference when merging models", 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workers.engines.combining import Combination, Combine, Values, weighted
from workers.engines.strategies.linear import shares

Thinned = Callable[[torch.Tensor, int], torch.Tensor]
"""From a stretch of one model's task vector and where it begins to what is kept of it; may overwrite it."""


def _one(shape: Sequence[int]) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class TaskVectors:
    """A strategy of this family. ``thinning`` gives for one tensor and model number what is kept of its task vector;
    None keeps all. ``elects``: only what agrees with the elected sign is added. ``row``: what thinning must see at
    once."""

    name: str
    thinning: Callable[[Values, int, Mapping[str, Any]], Thinned] | None = None
    elects: bool = False
    row: Callable[[Sequence[int]], int] = _one
    spare: int = 5

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return True

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        return self.row(shape)

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        models = range(values.inputs.count)
        thinned = [self.thinning(values, i, params) for i in models] if self.thinning else []
        weights: list[float] = params["weights"] if self.elects else shares(params)

        def combine(inputs: Sequence[torch.Tensor], start: int) -> torch.Tensor:
            *models, base = inputs
            vectors = [x.sub_(base) for x in models]
            if thinned:
                vectors = [keep(v, start) for keep, v in zip(thinned, vectors, strict=True)]
            total = _elected(vectors, weights, params["normalize"]) if self.elects else weighted(vectors, weights)
            return total.mul_(params["lambda"]).add_(base)

        return Combine(combine, hides=bool(thinned))


def _elected(vectors: Sequence[torch.Tensor], weights: Sequence[float], normalize: bool) -> torch.Tensor:
    """Each weighted entry that has the sign of their sum (0 counts as +), added; ``normalize``: divided by the sum of
    the absolute weights that took part. A zero entry takes no part."""
    parts = [v.mul_(w) for v, w in zip(vectors, weights, strict=True)]
    mass = parts[0].clone()
    for part in parts[1:]:
        mass.add_(part)
    positive = mass >= 0.0
    total, divisor = torch.zeros_like(mass), torch.zeros_like(mass)
    for part, weight in zip(parts, weights, strict=True):
        agrees = torch.where(positive, part > 0.0, part < 0.0)
        total.add_(torch.where(agrees, part, 0.0))
        if normalize:
            divisor.add_(agrees, alpha=abs(weight))
    return torch.where(divisor > 0.0, total / divisor, 0.0) if normalize else total
