"""Which elements of a task vector have the largest magnitudes: found exactly, without sorting or holding it.

The bits of a non-negative float are ordered as the number is. So the k-th largest is found 16 bits at a time, by
counting; it takes two readings of the tensor for float32, four for float64. Of equal magnitudes the lower flat index
counts as the larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from workers.engines.combining import REDUCTION_CHUNK, Values, stretches
from workers.merge_values import exactly

_DIGIT = 16


@dataclass(frozen=True, slots=True)
class Cut:
    """The largest elements: magnitudes whose bits are above ``bits``, and those equal to it at a flat index below
    ``index``."""

    bits: int
    index: int

    def takes(self, vector: torch.Tensor, start: int) -> torch.Tensor:
        """Which elements of the stretch that begins at ``start`` are among them."""
        bits = magnitude_bits(vector)
        equal = bits == self.bits
        equal[max(0, min(self.index - start, equal.numel())) :] = False
        return (bits > self.bits).logical_or_(equal)


def magnitude_bits(vector: torch.Tensor) -> torch.Tensor:
    """The magnitudes as whole numbers of the same order."""
    return vector.abs().view(torch.int64 if vector.dtype == torch.float64 else torch.int32)


def share(part: float, count: int) -> int:
    """``floor(part * count)`` of the decimal number that was written: 0.29 of 100 is 29."""
    return math.floor(exactly(part) * count)


def largest(values: Values, model: int, count: int) -> Cut:
    """The ``count`` largest magnitudes of this model's task vector."""
    wide = 64 if values.dtype == torch.float64 else 32
    if count <= 0:
        return Cut((1 << (wide - 1)) - 1, 0)
    if count >= values.inputs.numel:
        return Cut(-1, 0)
    found, missing, equal = 0, count, 0
    for shift in range(wide - _DIGIT, -1, -_DIGIT):
        counts = _counted(values, model, shift, above=found if shift < wide - _DIGIT else None)
        at_least = counts.flip(0).cumsum(0)
        place = int(torch.searchsorted(at_least, missing))
        digit = (1 << _DIGIT) - 1 - place
        equal = int(counts[digit])
        missing -= int(at_least[place]) - equal
        found = found << _DIGIT | digit
    return Cut(found, values.inputs.numel if missing == equal else _after(values, model, found, missing))


def _counted(values: Values, model: int, shift: int, *, above: int | None) -> torch.Tensor:
    """How often each 16 bits from ``shift`` on occur among the magnitudes whose higher bits are ``above``."""
    counts = torch.zeros(1 << _DIGIT, dtype=torch.int64)
    for start, stop in stretches(values.inputs.numel, REDUCTION_CHUNK):
        bits = magnitude_bits(values.task_vector(model, start, stop))
        if above is not None:
            bits = bits[bits >> (shift + _DIGIT) == above]
        digits = (bits >> shift).bitwise_and_((1 << _DIGIT) - 1)
        counts += torch.bincount(digits, minlength=1 << _DIGIT).cpu()
    return counts


def _after(values: Values, model: int, bits: int, count: int) -> int:
    """The flat index behind the ``count``-th magnitude with these bits."""
    for start, stop in stretches(values.inputs.numel, REDUCTION_CHUNK):
        places = (magnitude_bits(values.task_vector(model, start, stop)) == bits).nonzero().flatten()
        if count <= places.numel():
            return start + int(places[count - 1]) + 1
        count -= places.numel()
    raise AssertionError("the tensor changed while it was read")
