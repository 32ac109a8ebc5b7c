"""Weighted mean: ``sum(w_i x_i) / sum(w_i)``; without normalisation the plain weighted sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workers.engines.combining import Combination, Values, weighted_sum
from workers.engines.refusals import Problem
from workers.engines.strategies.contract import config_problem, number


class Linear:
    """Parameters: ``weights`` (one a model, default equal), ``normalize`` (default true)."""

    name = "linear"

    def problems(self, params: Mapping[str, Any], models: int) -> list[Problem]:
        weights, normalize = _weights(params, models), params.get("normalize", True)
        if not isinstance(normalize, bool):
            return [config_problem("normalize", "normalize must be true or false")]
        if not isinstance(weights, (list, tuple)) or any(number(w) is None for w in weights):
            return [config_problem("weights", "weights must be a list of finite numbers")]
        if len(weights) != models:
            return [config_problem("weights", f"weights: {len(weights)}, models: {models}; give one weight a model")]
        total = math.fsum(weights)
        if normalize and (total == 0.0 or not all(math.isfinite(w / total) for w in weights)):
            return [
                config_problem(
                    "weights", f"the weights sum to {total:g}, so they can't be normalised: set normalize to false"
                )
            ]
        return []

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return bool(params.get("normalize", True))

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        weights = [float(w) for w in _weights(params, len(values.inputs.models))]
        if params.get("normalize", True):
            total = math.fsum(weights)
            # Normalised first: the plain sum of large values could overflow where their mean does not.
            weights = [w / total for w in weights]
        return weighted_sum(weights)


def _weights(params: Mapping[str, Any], models: int) -> Any:
    weights = params.get("weights")
    return [1.0] * models if weights is None else weights
