"""What a merge takes of memory is bounded by its chunk, whatever the size of its tensors; measured by the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import candidate, model
from tests.workers.engines.memory_child import candidate as of_strategy
from tests.workers.engines.memory_child import models
from workers.engines.merging import MergeEngine
from workers.engines.tensors import load_tensors
from workers.merge_strategies import STRATEGIES

ROOT = Path(__file__).parents[3]
CHUNK = 1 << 20
# What is freed goes back to the kernel at once: else its counter tells what the allocator keeps for later, by chance.
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": f"{1 << 18}"}


def measured(place: Path, shape: str, chunk: int, *strategies: str) -> list[dict[str, Any]]:
    """What a process says that merges by these strategies."""
    words = [sys.executable, "-m", "tests.workers.engines.memory_child", str(place), shape, str(chunk), *strategies]
    environ = {**os.environ, **GIVES_BACK}
    for _ in range(2):
        done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=150)
        assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


SORTING = ("della", "della_linear")  # slower, and take more: half the size tells as much
MEASURED = [("8192x1024", [name for name in STRATEGIES if name not in SORTING]), ("8192x512", SORTING)]


@pytest.mark.parametrize(("shape", "strategies"), MEASURED, ids=["most", "sorting"])
def test_every_strategy_keeps_its_estimate(shape: str, strategies: list[str], tmp_path: Path) -> None:
    rows = measured(tmp_path, shape, CHUNK, *strategies)
    assert {row["strategy"] for row in rows} == set(strategies)
    assert [row for row in rows if row["growth"] > row["estimate"]] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_that_is_below_what_whole_tensors_would_take_and_does_not_grow_with_them(strategy, tmp_path: Path) -> None:
    """Whole, all models of 8 million numbers, the result and two more tensors would be in memory in float32."""
    estimates = []
    for rows in (1 << 12, 1 << 13):
        models(tmp_path / f"{rows}", rows, 512)
        estimates.append(of_strategy(tmp_path / f"{rows}", strategy, CHUNK).memory_estimate())
    merged = 1 + (STRATEGIES[strategy].max_models > 1)
    assert estimates[0] == estimates[1] <= (merged + 3) * 4 * (8 << 20)


def test_rows_of_a_few_elements_take_no_more_than_long_ones(tmp_path: Path) -> None:
    rows = measured(tmp_path, "800000x2", CHUNK, "nuslerp", "model_stock", "della")
    assert [row for row in rows if row["growth"] > row["estimate"]] == []


def test_the_measurement_sees_a_merge_that_holds_whole_tensors(tmp_path: Path) -> None:
    (row,) = measured(tmp_path, "8192x1024", 8192 * 1024, "linear")
    chunked = MergeEngine(chunk=CHUNK).merge("linear", load_tensors(*[tmp_path / "models" / n for n in "ab"]), {})
    assert row["growth"] > chunked.memory_estimate()


def test_each_worker_takes_its_own_and_a_model_that_can_not_be_mapped_is_counted_once(tmp_path: Path) -> None:
    tensors = {"w": torch.ones(100, 10), "v": torch.ones(7)}
    a = model(tmp_path / "a", tensors)
    for name, zipped in (("mapped", True), ("read", False)):
        torch.save(tensors, tmp_path / f"{name}.pth", _use_new_zipfile_serialization=zipped)
    plain = candidate(a, a, strategy="linear")
    mapped = candidate(a, tmp_path / "mapped.pth", strategy="linear")
    read = candidate(a, tmp_path / "read.pth", strategy="linear")
    assert plain.memory_estimate(3) == mapped.memory_estimate(3) == 3 * plain.memory_estimate()
    assert read.memory_estimate(3) == 3 * plain.memory_estimate() + 1007 * 4


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint16, torch.bool],
    ids=str,
)
def test_a_tensor_in_another_order_is_read_piece_by_piece_as_it_is(dtype: torch.dtype, tmp_path: Path) -> None:
    stored = torch.arange(6).reshape(2, 3).to(dtype).t()
    torch.save({"w": stored}, tmp_path / "m.pth")
    (opened,) = load_tensors(tmp_path / "m.pth").models
    pieces = [opened.reader.read(opened.specs["w"], start, start + 2) for start in (0, 2, 4)]
    assert torch.equal(torch.cat(pieces).view(stored.shape), stored)
