"""From the stretches of all inputs to the stretch of the output, and the arithmetic every strategy shares.

Element-wise work is separate multiplications and additions in float32 (float64 if an input is float64): each is
rounded on its own, so the bits depend neither on the chunk, the threads nor the device. Reductions run in float64
over fixed chunks of ``REDUCTION_CHUNK`` elements, summed in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.tensors import TensorInputs

REDUCTION_CHUNK = 1 << 20
_BLOCK = 1 << 15
_GLANCE = 1 << 10


@dataclass(frozen=True, slots=True)
class Copy:
    """The output is input number ``index``, bit for bit (converted only if the output has another type)."""

    index: int


@dataclass(frozen=True, slots=True)
class Combine:
    """The output is a function of each stretch on its own and of where it begins; it may overwrite its arguments.

    ``hides``: an element of an input may leave no trace in the output, so NaN must be looked for in the inputs.
    """

    function: Callable[[Sequence[torch.Tensor], int], torch.Tensor]
    hides: bool = False


Combination = Copy | Combine


def weighted_sum(weights: Sequence[float]) -> Combine:
    """``sum(w_i * x_i)``, added in the order of the models."""

    return Combine(lambda inputs, start: weighted(inputs, weights))


def weighted(inputs: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """``sum(w_i * x_i)``, added in the order of the models; the inputs are overwritten."""
    total = inputs[0].mul_(weights[0])
    for x, weight in zip(inputs[1:], weights[1:], strict=True):
        total.add_(x.mul_(weight))
    return total


def stretches(numel: int, size: int) -> Iterator[tuple[int, int]]:
    """``(start, stop)`` of every stretch of at most ``size`` elements, in order."""
    for start in range(0, numel, size):
        yield start, min(start + size, numel)


@dataclass(frozen=True, slots=True)
class Values:
    """One tensor of all models as numbers to compute with, on ``device``."""

    inputs: TensorInputs
    dtype: torch.dtype
    device: torch.device

    def read(self, start: int, stop: int) -> list[torch.Tensor]:
        """The stretch of every model in the arithmetic type, free to be overwritten."""
        models = range(len(self.inputs.models))
        return [self.inputs.stored(i, start, stop).to(self.device).to(self.dtype) for i in models]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the tensor has in every model."""
        return self.inputs.specs[0].shape

    def task_vector(self, model: int, start: int, stop: int) -> torch.Tensor:
        """The stretch of this model's difference to the base, in the arithmetic type."""
        x, base = (
            self.inputs.stored(i, start, stop).to(self.device).to(self.dtype)
            for i in (model, len(self.inputs.models) - 1)
        )
        return x.sub_(base)

    def gram(self, scales: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float, float]:
        """``a·b``, ``a·a`` and ``b·b`` of the first two models, each input times its scale, in float64."""
        totals = [0.0, 0.0, 0.0]
        for start, stop in stretches(self.inputs.numel, REDUCTION_CHUNK):
            a, b = (self.inputs.stored(i, start, stop).to(self.device) for i in (0, 1))
            dots = [
                _dots(x.double(), y.double(), scales) for x, y in zip(a.split(_BLOCK), b.split(_BLOCK), strict=True)
            ]
            for k, sums in enumerate(torch.stack(dots).t().tolist()):
                totals[k] += math.fsum(sums) if all(map(math.isfinite, sums)) else sum(sums)
        return totals[0], totals[1], totals[2]


def _dots(x: torch.Tensor, y: torch.Tensor, scales: tuple[float, float]) -> torch.Tensor:
    """The three dot products of one block, which is too small to be split over threads: their number must not
    change the bits. It also stays in the cache."""
    if scales != (1.0, 1.0):
        x, y = x * scales[0], y * scales[1]
    return torch.stack([torch.dot(x, y), torch.dot(x, x), torch.dot(y, y)])


def folded(rows: torch.Tensor) -> torch.Tensor:
    """The sum of every row: the second half is added to the first, element by element, until one column is left, so
    neither threads nor the device change the bits. Overwrites ``rows``."""
    while rows.shape[1] > 1:
        half = (rows.shape[1] + 1) // 2
        rows[:, : rows.shape[1] - half] += rows[:, half:]
        rows = rows[:, :half]
    return rows[:, 0]


def finite(x: torch.Tensor, as_dtype: torch.dtype | None = None) -> bool:
    """Are all elements finite (once converted to ``as_dtype``)? Conversion is monotone: the ends decide."""
    if x.numel() == 0:
        return True
    ends = torch.stack(torch.aminmax(x))
    return bool(torch.isfinite(ends.to(as_dtype or x.dtype)).all())


def bit_equal(inputs: TensorInputs) -> bool:
    """Do all models store the same bits? Stops at the first stretch that differs, and looks at a short one first."""
    if len(inputs.models) == 1:
        return True
    if len({spec.dtype for spec in inputs.specs}) > 1:
        return False
    for start, stop in ((0, min(_GLANCE, inputs.numel)), *stretches(inputs.numel, REDUCTION_CHUNK)):
        first = inputs.stored(0, start, stop).view(torch.uint8)
        if any(
            not torch.equal(first, inputs.stored(i, start, stop).view(torch.uint8))
            for i in range(1, len(inputs.models))
        ):
            return False
    return True


def nonfinite_input(inputs: TensorInputs) -> EngineRefusal | None:
    """The refusal that names each model with NaN or infinity in this tensor and counts the elements."""
    problems = []
    for i, model in enumerate(inputs.models):
        count = sum(
            int((~torch.isfinite(inputs.stored(i, start, stop))).sum())
            for start, stop in stretches(inputs.numel, REDUCTION_CHUNK)
        )
        if count:
            problems.append(
                Problem(
                    "nonfinite_input",
                    f"tensor {inputs.names[i]!r} of {model.label} has {count} of {inputs.numel} elements that are NaN"
                    " or infinite",
                    {"tensor": inputs.names[i], "model": model.label, "count": count},
                )
            )
    return EngineRefusal.of(problems) if problems else None
