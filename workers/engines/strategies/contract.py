"""What a merge strategy must answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from workers.engines.combining import Combination, Values
from workers.engines.refusals import Problem


class Strategy(Protocol):
    """Pure per tensor: no clock, no dice, nothing of other tensors, order, chunks or threads."""

    name: str

    def problems(self, params: Mapping[str, Any], models: int) -> list[Problem]:
        """Everything wrong with ``params`` for this number of models, as ``config``."""

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        """Must inputs of equal bits come back bit for bit?"""

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        """How one tensor is combined; reductions over the whole tensor happen here."""


def config_problem(field: str, message: str) -> Problem:
    """A parameter that cannot be used."""
    return Problem("config", message, {"field": f"params.{field}"})


def number(value: Any) -> float | None:
    """``value`` as a float if it is a finite number; a bool is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:  # a whole number beyond any float
        return None
    return found if math.isfinite(found) else None
