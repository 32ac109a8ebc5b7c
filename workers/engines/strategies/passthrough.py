"""A copy of one model, each tensor times ``scale``; with a scale of 1 bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.engines.combining import Combination, Copy, Values, weighted_sum


class Passthrough:
    """Parameter: ``scale``."""

    name = "passthrough"
    spare = 3

    def keeps_equal(self, params: Mapping[str, Any]) -> bool:
        return bool(params["scale"] == 1.0)

    def together(self, shape: Sequence[int], params: Mapping[str, Any]) -> int:
        return 1

    def prepare(self, values: Values, params: Mapping[str, Any]) -> Combination:
        return Copy(0) if params["scale"] == 1.0 else weighted_sum([params["scale"]])
