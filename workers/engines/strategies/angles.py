"""Angles between models, row by row: dot products in float64, added in an order that nothing can change.

A block's products are folded in halves, element by element, so the bits depend on neither threads nor chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from workers.engines.combining import Values, folded, nonfinite_input, stretches

BLOCK = 1 << 16  # stays in the cache
_DOWN = 2.0**-600


@dataclass(frozen=True, slots=True)
class Angles:
    """Rows from ``first`` on: ``cosines`` [row, model, model], 0 beside a row of zeros, and ``norms`` [row, model]."""

    first: int
    cosines: torch.Tensor
    norms: torch.Tensor


def angles(values: Values, length: int, begin: int, end: int) -> Iterator[Angles]:
    """The angles between the models, or between their differences to the base, in the rows from ``begin`` to ``end``
    of ``length`` elements each.

    Refuses NaN and infinity. Whatever float64 holds gives the right angle, also where squares would overflow.
    """
    count = values.inputs.count
    step = max(1, BLOCK // max(length, count * count))
    for first, last in ((begin + at, begin + stop) for at, stop in stretches(end - begin, step)):
        gram = _gram(values, first * length, last * length, torch.ones(last - first, count, dtype=torch.float64))
        scales = torch.ones(last - first, count, dtype=torch.float64)
        if not bool(torch.isfinite(gram).all()):
            refusal = nonfinite_input(values.inputs)
            if refusal:
                raise refusal
            # A power of two changes no digit of the cosine.
            scales[~torch.isfinite(gram.diagonal(dim1=1, dim2=2))] = _DOWN
            gram = _gram(values, first * length, last * length, scales)
        norms = gram.diagonal(dim1=1, dim2=2).sqrt()
        cosines = gram / norms[:, :, None] / norms[:, None, :]
        cosines[(norms == 0.0)[:, :, None] | (norms == 0.0)[:, None, :]] = 0.0
        yield Angles(first, cosines, norms / scales)


def _gram(values: Values, begin: int, end: int, scales: torch.Tensor) -> torch.Tensor:
    """[row, model, model] of the dot products in whole rows; a row beyond ``BLOCK`` is added in pieces."""
    rows, count = scales.shape
    gram = torch.zeros(rows, count, count, dtype=torch.float64)
    for start, stop in stretches(end - begin, BLOCK):
        vectors = _vectors(values, begin + start, begin + stop, scales)
        for i in range(count):
            for j in range(i + 1):
                sums = folded(vectors[i] * vectors[j]).cpu()
                gram[:, i, j] += sums
                if i != j:
                    gram[:, j, i] += sums
    return gram


def _vectors(values: Values, start: int, stop: int, scales: torch.Tensor) -> list[torch.Tensor]:
    inputs, rows = values.inputs, scales.shape[0]
    wide = [
        inputs.stored(i, start, stop).to(values.device).double().reshape(rows, -1) for i in range(len(inputs.models))
    ]
    factors = scales.to(values.device)
    vectors = [x * factors[:, i : i + 1] for i, x in enumerate(wide[: inputs.count])]
    if inputs.based:
        vectors = [x - wide[-1] * factors[:, i : i + 1] for i, x in enumerate(vectors)]
    return vectors
