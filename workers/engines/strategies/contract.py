"""What a merge strategy must answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from workers.engines.combining import Combination, Values


class Strategy(Protocol):
    """Pure per tensor: no clock, no dice, nothing of other tensors, order, chunks or threads.

    ``params`` are those of ``workers.merge_params``, checked and with their defaults.
    """

    @property
    def name(self) -> str:
        """What a recipe calls it."""

    @property
    def spare(self) -> int:
        """How many numbers of 8 bytes it holds at most for each element of a stretch, beside one for each model."""

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        """Must inputs of equal bits come back bit for bit?"""

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        """How many neighbouring elements must be seen at once: whole rows, or 1."""

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        """How one tensor is combined; reductions over the whole tensor happen here."""


def rows_of(shape: Sequence[int]) -> tuple[int, int]:
    """``(rows, length)`` of a tensor without empty sides: one row an index of the first side; a vector is one row."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    return shape[0], math.prod(shape[1:])
