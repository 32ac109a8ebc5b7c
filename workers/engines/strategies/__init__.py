"""The merge strategies. A new one is its file and one line here and in ``workers/merge_strategies.py``."""

from __future__ import annotations

from workers.engines.strategies.contract import Strategy
from workers.engines.strategies.dropping import DARE_LINEAR, DARE_TIES, DELLA, DELLA_LINEAR
from workers.engines.strategies.linear import Linear
from workers.engines.strategies.model_stock import ModelStock
from workers.engines.strategies.nuslerp import Nuslerp
from workers.engines.strategies.passthrough import Passthrough
from workers.engines.strategies.slerp import Slerp
from workers.engines.strategies.task_vectors import TaskVectors
from workers.engines.strategies.trimming import BREADCRUMBS, BREADCRUMBS_TIES, TIES

_ALL: tuple[Strategy, ...] = (
    Slerp(), Linear(), Nuslerp(), TaskVectors("task_arithmetic"), TIES, DARE_LINEAR, DARE_TIES, DELLA, DELLA_LINEAR,
    BREADCRUMBS, BREADCRUMBS_TIES, ModelStock(), Passthrough(),
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in _ALL}
