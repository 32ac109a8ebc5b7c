"""Weights that differ from row to row: which rows a stretch covers, and what each of them is multiplied by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import Values
from workers.engines.strategies.contract import rows_of


class ByRow:
    """What strategies have in common whose parameter ``granularity`` (``tensor`` or ``row``) says what has an angle."""

    spare = 6

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        """Inputs of equal bits come back bit for bit."""
        return True

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        """A row must be seen at once if each has its own angle."""
        return row_length(shape, params)

    def rows(self, values: Values, params: Mapping[str, Any]) -> int:
        """How many parts of the tensor have an angle of their own."""
        return rows_of(values.shape)[0] if params["granularity"] == "row" else 1


def row_length(shape: Sequence[int], params: Mapping[str, Any]) -> int:
    """How many elements must be seen at once: a row if the strategy works by rows, else 1."""
    return rows_of(shape)[1] if params["granularity"] == "row" else 1


def factors_at(factors: torch.Tensor, start: int, count: int, *, length: int) -> torch.Tensor:
    """The rows of ``factors`` [row, model] for the ``count`` elements from ``start`` on, in whole rows of ``length``;
    a single row of factors holds for every stretch."""
    if factors.shape[0] == 1:
        return factors
    return factors[start // length : (start + count) // length]
