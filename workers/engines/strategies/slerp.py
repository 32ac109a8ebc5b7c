"""Spherical interpolation of two models: ``a sin((1-t)θ)/sin θ + b sin(tθ)/sin θ`` on the raw, flattened tensors.

θ is the angle between the whole tensors. Formula: Shoemake, "Animating rotation with quaternion curves", 1985.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workers.engines.combining import Combination, Copy, Values, nonfinite_input, weighted_sum
from workers.engines.refusals import Problem
from workers.engines.strategies.contract import config_problem, number
from workers.said_back import shown

COLINEAR = 0.9995
ZERO_NORM = 1e-8
_DOWN = 2.0**-600


class Slerp:
    """Parameter: ``t`` from 0 (the first model) to 1 (the second), default 0.5."""

    name = "slerp"

    def problems(self, params: Mapping[str, Any], models: int) -> list[Problem]:
        found = []
        if models != 2:
            found.append(config_problem("models", f"slerp merges exactly 2 models, not {models}"))
        t = number(params.get("t", 0.5))
        if t is None or not 0.0 <= t <= 1.0:
            found.append(config_problem("t", f"t must be a number from 0 to 1, not {shown(params.get('t'))}"))
        return found

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return True

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        t = float(params.get("t", 0.5))
        if t in (0.0, 1.0):
            return Copy(int(t))
        return weighted_sum(coefficients(*_cosine_and_norms(values), t=t))


def coefficients(cosine: float, norm_a: float, norm_b: float, *, t: float) -> tuple[float, float]:
    """The factors of a and b. Linear where the angle says nothing: (anti)parallel, or a norm at most 1e-8."""
    if min(norm_a, norm_b) <= ZERO_NORM or abs(cosine) > COLINEAR:
        return 1.0 - t, t
    theta = math.acos(max(-1.0, min(1.0, cosine)))
    return math.sin((1.0 - t) * theta) / math.sin(theta), math.sin(t * theta) / math.sin(theta)


def _cosine_and_norms(values: Values) -> tuple[float, float, float]:
    scales = (1.0, 1.0)
    dot, aa, bb = values.gram()
    if not (math.isfinite(aa) and math.isfinite(bb)):
        refusal = nonfinite_input(values.inputs)
        if refusal:
            raise refusal
        # Squares of float64 inputs beyond 1e154 overflow; a power of two changes no digit of the cosine.
        scales = (1.0 if math.isfinite(aa) else _DOWN, 1.0 if math.isfinite(bb) else _DOWN)
        dot, aa, bb = values.gram(scales)
    norm_a, norm_b = math.sqrt(aa), math.sqrt(bb)
    if min(norm_a, norm_b) == 0.0:
        return 0.0, norm_a / scales[0], norm_b / scales[1]
    return dot / norm_a / norm_b, norm_a / scales[0], norm_b / scales[1]
