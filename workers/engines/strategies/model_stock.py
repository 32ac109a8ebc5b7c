"""Model Stock: from the base towards the mean of the models, ``t = N c / (1 + (N - 1) c)`` of the way.

``c`` is the mean cosine between the models' differences to the base, at least 0: models that point apart say nothing,
so the base stays. Formula: Jang, Yun, Han, "Model Stock: All we need is just a few fine-tuned models", 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import Combination, Combine, Copy, Values
from workers.engines.strategies.angles import Angles
from workers.engines.strategies.row_weights import ByRow, RowWeights


class ModelStock(ByRow):
    """Parameter: ``granularity`` (``tensor`` or ``row``). Needs a base."""

    name = "model_stock"

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        count = values.inputs.count
        weights = RowWeights(values, params, _weights, width=count + 1)
        if weights.single is not None and not bool(weights.single[:, 0].any()):
            return Copy(count)

        def combine(inputs: Sequence[torch.Tensor], start: int) -> torch.Tensor:
            here = weights.at(start, inputs[0].numel())
            by_row = [x.view(here.shape[0], -1) for x in inputs]
            stays = here[:, :1] == 0.0
            total = by_row[0].mul_(here[:, :1])
            for i, x in enumerate(by_row[1:-1], start=1):
                total.add_(x.mul_(here[:, i : i + 1]))
            total.add_(by_row[-1] * here[:, -1:])
            return torch.where(stays, by_row[-1], total).view(-1)

        return Combine(combine)


def _weights(batch: Angles) -> torch.Tensor:
    """The weight of each model and of the base in every row; a row in which the models weigh 0 is the base's."""
    count = batch.cosines.shape[1]
    t = _way(batch)[:, None]
    return torch.cat([*[t / count] * count, 1.0 - t], dim=1)


def _way(batch: Angles) -> torch.Tensor:
    """``t`` of every row, in float64."""
    count = batch.cosines.shape[1]
    total = torch.zeros(batch.cosines.shape[0], dtype=torch.float64)
    for i in range(count):
        for j in range(i):
            total += batch.cosines[:, i, j]
    mean = (total / (count * (count - 1) / 2)).clamp(0.0, 1.0)
    return count * mean / (1.0 + (count - 1) * mean)
