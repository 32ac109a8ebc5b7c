"""SLERP of two models by their weights: ``t = w_2 / (w_1 + w_2)``, half way if the weights sum to 0.

With a base, the differences to it are interpolated and the base is added back. ``granularity: row`` gives every row
its own angle. Formula and edge values as in ``slerp``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import Combination, Combine, Copy, Values
from workers.engines.strategies.angles import Angles
from workers.engines.strategies.row_weights import ByRow, RowWeights
from workers.engines.strategies.slerp import coefficients
from workers.strategy_params import slerp_t


class Nuslerp(ByRow):
    """Parameters: ``weights`` (two), ``granularity`` (``tensor`` or ``row``)."""

    name = "nuslerp"

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        t = slerp_t(params["weights"])
        if t in (0.0, 1.0):
            return Copy(int(t))
        weights = RowWeights(values, params, lambda batch: _coefficients(batch, t), width=2)

        def combine(inputs: Sequence[torch.Tensor], start: int) -> torch.Tensor:
            here = weights.at(start, inputs[0].numel())
            a, b, *base = inputs
            if base:
                a, b = a.sub_(base[0]), b.sub_(base[0])
            total = a.view(here.shape[0], -1).mul_(here[:, :1])
            total.add_(b.view(here.shape[0], -1).mul_(here[:, 1:]))
            return total.view(-1).add_(base[0]) if base else total.view(-1)

        return Combine(combine)


def _coefficients(batch: Angles, t: float) -> torch.Tensor:
    """The factors of both models in every row."""
    rows = zip(batch.cosines[:, 0, 1].tolist(), *batch.norms.t().tolist(), strict=True)
    return torch.tensor([coefficients(cosine, a, b, t=t) for cosine, a, b in rows], dtype=torch.float64)
