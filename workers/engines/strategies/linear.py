"""Weighted mean: ``sum(w_i x_i) / sum(w_i)``; without normalisation the plain weighted sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workers.engines.combining import Combination, Values, weighted_sum


class Linear:
    """Parameters: ``weights`` (one a model), ``normalize``."""

    name = "linear"
    spare = 3

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return bool(params["normalize"])

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        return 1

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        return weighted_sum(shares(params))


def shares(params: Mapping[str, Any]) -> list[float]:
    """The weights, divided by their sum if they are to be normalised."""
    weights: list[float] = params["weights"]
    if not params["normalize"]:
        return weights
    total = math.fsum(weights)
    # Normalised first: the plain sum of large values could overflow where their mean does not.
    return [w / total for w in weights]
