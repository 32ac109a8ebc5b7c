"""Weights that differ from row to row: what each row of a stretch is multiplied by.

They are found when the stretch is merged, so that no tensor has more rows than there is memory for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from workers.engines.combining import Values
from workers.engines.strategies.angles import Angles, angles
from workers.engines.strategies.contract import rows_of

OfAngles = Callable[[Angles], torch.Tensor]
"""From the angles of some rows to their weights [row, model], in float64 on the CPU."""


class ByRow:
    """What strategies have in common whose parameter ``granularity`` (``tensor`` or ``row``) says what has an angle."""

    spare = 6

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        """Inputs of equal bits come back bit for bit."""
        return True

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        """A row must be seen at once if each has its own angle."""
        return rows_of(shape)[1] if params["granularity"] == "row" else 1


class RowWeights:
    """The weights of a tensor, ``width`` of them a row, or once for all of it where it has one angle."""

    def __init__(self, values: Values, params: Mapping[str, Any], of: OfAngles, width: int) -> None:
        self._values, self._of, self._width = values, of, width
        rows = rows_of(values.shape)[0] if params["granularity"] == "row" else 1
        self._length = values.inputs.numel // rows
        self.single = self._found(0, 1) if rows == 1 else None

    def at(self, start: int, count: int) -> torch.Tensor:
        """[row, model] for the ``count`` elements from ``start`` on, in whole rows; one row where there is one angle.
        Refuses NaN and infinity."""
        if self.single is not None:
            return self.single
        return self._found(start // self._length, (start + count) // self._length)

    def _found(self, first: int, last: int) -> torch.Tensor:
        weights = torch.empty(last - first, self._width, dtype=self._values.dtype)
        for batch in angles(self._values, self._length, first, last):
            at = batch.first - first
            weights[at : at + len(batch.norms)] = self._of(batch)
        return weights.to(self._values.device)
