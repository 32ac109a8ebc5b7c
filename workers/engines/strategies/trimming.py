"""Thinning by magnitude: TIES keeps the largest changes, breadcrumbs those between the largest and the smallest.

Formulas: Yadav et al., "TIES-Merging", 2023; Davari, Belilovsky, "Model breadcrumbs: scaling multi-task model merging
with sparse masks", 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from workers.engines.combining import Values
from workers.engines.strategies.selecting import largest, share
from workers.engines.strategies.task_vectors import TaskVectors, Thinned


def trimmed(values: Values, model: int, params: Mapping[str, Any]) -> Thinned:
    """The ``floor(density * n)`` largest changes, never fewer than one."""
    kept = largest(values, model, max(1, share(params["density"][model], values.inputs.numel)))
    return lambda vector, start: torch.where(kept.takes(vector, start), vector, 0.0)


def between(values: Values, model: int, params: Mapping[str, Any]) -> Thinned:
    """Without the ``floor(gamma * n)`` largest changes, and without as many of the smallest as leave
    ``floor(density * n)``; where both can't be, fewer of the largest go."""
    total = values.inputs.numel
    keep = share(params["density"][model], total)
    outliers = min(share(params["gamma"][model], total), total - keep)
    most, more = largest(values, model, outliers + keep), largest(values, model, outliers)

    def thinned(vector: torch.Tensor, start: int) -> torch.Tensor:
        return torch.where(most.takes(vector, start) & ~more.takes(vector, start), vector, 0.0)

    return thinned


TIES = TaskVectors("ties", trimmed, elects=True)
BREADCRUMBS = TaskVectors("breadcrumbs", between)
BREADCRUMBS_TIES = TaskVectors("breadcrumbs_ties", between, elects=True)
