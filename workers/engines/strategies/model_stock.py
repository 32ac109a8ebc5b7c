"""Model Stock: from the base towards the mean of the models, ``t = N c / (1 + (N - 1) c)`` of the way.

``c`` is the mean cosine between the models' differences to the base, at least 0: models that point apart say nothing,
so the base stays. Formula: Jang, Yun, Han, "Model Stock: All we need is just a few fine-tuned models", 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import Combination, Combine, Copy, Values
from workers.engines.strategies.angles import Angles, angles
from workers.engines.strategies.row_weights import ByRow, factors_at


class ModelStock(ByRow):
    """Parameter: ``granularity`` (``tensor`` or ``row``). Needs a base."""

    name = "model_stock"

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        count = values.inputs.count
        rows = self.rows(values, params)
        t = torch.cat([_way(batch) for batch in angles(values, rows)])[:, None]
        if not bool(t.any()):
            return Copy(count)
        factors = torch.cat([*[t / count] * count, 1.0 - t], dim=1).to(values.dtype).to(values.device)
        length = values.inputs.numel // rows

        def combine(inputs: Sequence[torch.Tensor], start: int) -> torch.Tensor:
            here = factors_at(factors, start, inputs[0].numel(), length=length)
            by_row = [x.view(here.shape[0], -1).mul_(here[:, i : i + 1]) for i, x in enumerate(inputs)]
            for x in by_row[1:]:
                by_row[0].add_(x)
            return by_row[0].view(-1)

        return Combine(combine)


def _way(batch: Angles) -> torch.Tensor:
    """``t`` of every row, in float64."""
    count = batch.cosines.shape[1]
    total = torch.zeros(batch.cosines.shape[0], dtype=torch.float64)
    for i in range(count):
        for j in range(i):
            total += batch.cosines[:, i, j]
    mean = (total / (count * (count - 1) / 2)).clamp(0.0, 1.0)
    return count * mean / (1.0 + (count - 1) * mean)
