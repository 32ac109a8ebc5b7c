"""Spherical interpolation of two models: ``a sin((1-t)θ)/sin θ + b sin(tθ)/sin θ`` on the raw, flattened tensors.

θ is the angle between the whole tensors. Formula: Shoemake, "Animating rotation with quaternion curves", 1985.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workers.engines.combining import Combination, Copy, Values, nonfinite_input, weighted_sum

COLINEAR = 0.9995
ZERO_NORM = 1e-8
_DOWN = 2.0**-600


class Slerp:
    """Parameter: ``t`` from 0 (the first model) to 1 (the second)."""

    name = "slerp"
    spare = 3

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return True

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        return 1

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        t: float = params["t"]
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
