"""``python -m tests.workers.engines.memory_child DIR ROWSxCOLUMNS CHUNK STRATEGY...``: what merges really take.

Merges models of one bfloat16 tensor by each strategy, those of the lowest estimate first, and prints for each
``{"strategy", "growth", "estimate"}``: by how much the process has been larger at most than before all of them (the
kernel's own counter of its peak), and what was estimated, in bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from tests.workers.engines.builders import model, plan_of
from tests.workers.engines.recipes import ON_A_BASE, RECIPES
from workers.engines.merging import Candidate, MergeEngine
from workers.engines.producing import produce
from workers.engines.tensors import load_tensors
from workers.engines.writing import PlannedWriter
from workers.merge_strategies import STRATEGIES

NAMES = ("a", "b", "base")


def status(field: str) -> int:
    """A number of this process by the kernel, in bytes: ``VmRSS`` is its size now, ``VmHWM`` the largest it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def models(place: Path, rows: int, columns: int) -> None:
    for seed, name in enumerate(NAMES):
        g = torch.Generator().manual_seed(seed)
        parts = [
            torch.randn(min(1 << 18, rows - at), columns, generator=g).bfloat16() for at in range(0, rows, 1 << 18)
        ]
        model(place / name, {"w": torch.cat(parts)})


def candidate(place: Path, strategy: str, chunk: int) -> Candidate:
    chosen = NAMES[: STRATEGIES[strategy].max_models][:2]
    base = strategy in ON_A_BASE
    tensors = load_tensors(*(place / name for name in (*chosen, *(["base"] if base else []))), based=base)
    return MergeEngine(chunk=chunk).merge(strategy, tensors, RECIPES[strategy])


def merge(made: Candidate, work: Path) -> None:
    writer = PlannedWriter(plan_of(made), work / "work")
    writer.open()
    produce(made, writer)
    writer.publish(work / "out")[0].unlink()


def main() -> None:
    place, (rows, columns) = Path(sys.argv[1]), map(int, sys.argv[2].split("x"))
    chunk, strategies = int(sys.argv[3]), sys.argv[4:]
    torch.set_num_threads(1)
    if not (place / "models").exists():  # made by a process of its own: what it leaves in the allocator hides growth
        models(place / "models", rows, columns)
        return
    models(place / "small", 64, 8)
    for strategy in strategies:  # whatever is loaded at the first use of something
        merge(candidate(place / "small", strategy, chunk), place)
    made = {strategy: candidate(place / "models", strategy, chunk) for strategy in strategies}
    before = status("VmRSS")
    for strategy in sorted(made, key=lambda name: made[name].memory_estimate()):
        merge(made[strategy], place)
        told = {"strategy": strategy, "growth": status("VmHWM") - before, "estimate": made[strategy].memory_estimate()}
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
