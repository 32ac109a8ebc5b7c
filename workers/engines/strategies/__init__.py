"""The merge strategies, one file each. A new one is its file and one line here."""

from __future__ import annotations

from workers.engines.strategies.contract import Strategy
from workers.engines.strategies.linear import Linear
from workers.engines.strategies.slerp import Slerp

STRATEGIES: dict[str, Strategy] = {s.name: s for s in (Slerp(), Linear())}
