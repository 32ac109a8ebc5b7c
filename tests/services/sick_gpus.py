"""Reports of GPUs that are well and of GPUs that are not, as their node sends them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from scheduling.models import Gpu
from tests import builders as b

NUMBERS = count(1)
HOT = {"temperature_c": 105.0, "temperature_limit_c": 95.0}
HUNG = {"error": "the driver gave no answer within 1 s", "fault": "hung"}
ERROR = {"error": "Unknown Error", "fault": "error"}
PASSED = {"canary": {"passed": True, "detail": "matmul right"}}


def report(
    changes: Mapping[int, Mapping[str, Any] | None] | None = None,
    *,
    at: float,
    node: str = "n1",
    gpus: int = 4,
    seq: int | None = None,
    **kw: Any,
) -> Any:
    """A heartbeat with a sample of each GPU, changed by index (None: it is not mentioned); returns the reply."""
    changes = changes or {}
    rows = [
        {"uuid": f"GPU-{node}-{i}", "utilization": 1.0, "temperature_c": 50.0, "temperature_limit_c": 95.0,
         "memory_mib": 76295, "ecc": 0, **(changes.get(i) or {})}
        for i in range(gpus) if changes.get(i, {}) is not None
    ]  # fmt: skip
    return b.beat(node, now=b.later(at), gpus=rows, seq=next(NUMBERS) if seq is None else seq, **kw)


def fails(changes: Mapping[int, Mapping[str, Any] | None], *, start: float = 10, **kw: Any) -> Any:
    """Three reports ten seconds apart with the same trouble; returns the last reply."""
    return [report(changes, at=start + 10 * n, **kw) for n in range(3)][-1]


def state(index: int = 0, node: str = "n1") -> str:
    """The state of one GPU."""
    return Gpu.objects.get(uuid=f"GPU-{node}-{index}").state


def returns(index: int = 0, *, start: float, node: str = "n1") -> str:
    """The GPU is tested and has its clean checks, as far as nothing else is needed; returns its state."""
    report(at=start, node=node)
    report({index: PASSED}, at=start + 10, node=node)
    for n in range(3):
        report(at=start + 20 + 10 * n, node=node)
    return state(index, node)
