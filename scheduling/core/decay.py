"""Consumption that fades: the closed form of exponential decay (D5). Pure, so reading it never changes it."""

from __future__ import annotations

import math

_LN_2 = math.log(2.0)


def decay(gpu_ms: float, elapsed_ms: int, half_life_ms: int) -> float:
    """``gpu_ms`` after ``elapsed_ms``: halved every ``half_life_ms``; a half-life of 0 never decays."""
    if half_life_ms <= 0 or elapsed_ms <= 0:
        return gpu_ms
    return gpu_ms * float(2.0 ** (-elapsed_ms / half_life_ms))


def interval(weight: float, start_ms: int, end_ms: int, at_ms: int, *, half_life_ms: int) -> float:
    """GPU-ms that one GPU held from ``start_ms`` to ``end_ms`` still counts at ``at_ms`` (>= ``end_ms``).

    The integral of ``weight * 2^-((at - s) / H)`` over the interval; ``weight`` is the
    GPU model's billing weight.
    """
    if end_ms <= start_ms:
        return 0.0
    if half_life_ms <= 0:
        return weight * (end_ms - start_ms)
    scale = half_life_ms / _LN_2
    return (
        weight * scale * float(2.0 ** (-(at_ms - end_ms) / half_life_ms) - 2.0 ** (-(at_ms - start_ms) / half_life_ms))
    )
