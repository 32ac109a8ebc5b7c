"""The layout of the output: known before any data, and the same bytes as the safetensors library writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.workers.engines.builders import PT, candidate, merged, model, plan_of, random_model, sha256, written

ALL_KINDS = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.float16, torch.bfloat16, torch.int32,
    torch.uint32, torch.float32, torch.float64, torch.int64, torch.uint64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_file_equals_what_the_safetensors_library_writes(dtype: torch.dtype, tmp_path: Path) -> None:
    made = candidate(random_model(tmp_path / "a", 1, dtype), random_model(tmp_path / "b", 2, dtype), t=0.3)
    save_file(merged(made), tmp_path / "theirs.safetensors", metadata=PT)
    assert sha256(written(made, tmp_path)[0]) == sha256(tmp_path / "theirs.safetensors")


def test_tensors_of_every_type_lie_in_the_order_of_the_safetensors_library(tmp_path: Path) -> None:
    tensors = {f"t{99 - i}": torch.ones(3).to(dtype) for i, dtype in enumerate(ALL_KINDS)}
    tensors |= {'quote"\\\n\x01': torch.ones(2), "é": torch.ones(1), "": torch.ones(1), "empty": torch.ones(0, 3)}
    a = model(tmp_path / "a", tensors)
    assert sha256(written(candidate(a, a), tmp_path)[0]) == sha256(a / "model.safetensors")


def test_without_a_format_in_the_first_model_the_output_has_none(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        save_file({"w": torch.ones(2)}, tmp_path / name / "model.safetensors")
    made = candidate(tmp_path / "a", tmp_path / "b")
    assert sha256(written(made, tmp_path / "o")[0]) == sha256(tmp_path / "a" / "model.safetensors")


def test_shards_follow_the_order_of_the_output_and_stay_below_the_limit(tmp_path: Path) -> None:
    made = candidate(random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2))
    plan = plan_of(made, max_shard_size=1000)
    sizes = [sum(t.spec.nbytes for t in plan.tensors if t.file == i) for i in range(len(plan.files))]
    assert ([t.spec.name for t in plan.tensors], sizes) == (
        ["position_ids", "a.bias", "a.weight", "b.weight", "z", "ü.w"],
        [72 + 160, 5280, 420 + 4, 1028],
    )


def test_a_sharded_output_loads_through_its_index(tmp_path: Path) -> None:
    made = candidate(random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2))
    paths = written(made, tmp_path, max_shard_size=1000)
    index = json.loads(paths[-1].read_text("utf-8"))
    got = {}
    for name, shard in index["weight_map"].items():
        with safe_open(tmp_path / "out" / shard, "pt") as file:
            got[name] = file.get_tensor(name)
    expected = merged(made)
    assert all(torch.equal(got[n], expected[n]) for n in expected)
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size() for t in expected.values())


def test_an_output_sharded_or_not_has_the_same_tensors(tmp_path: Path) -> None:
    made = candidate(random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2))
    whole = load_file(written(made, tmp_path / "1")[0])
    parts = {}
    for path in written(made, tmp_path / "2", max_shard_size=1000)[:-1]:
        parts |= load_file(path)
    assert {n: t.tolist() for n, t in whole.items()} == {n: t.tolist() for n, t in parts.items()}


def test_the_plan_digest_changes_with_what_the_bytes_depend_on_and_only_then(tmp_path: Path) -> None:
    a, b = random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2)
    same = {plan_of(candidate(a, b)).digest, plan_of(candidate(a, b, t=0.5)).digest}
    others = {
        plan_of(candidate(a, b), identity="other inputs").digest,
        plan_of(candidate(a, b, out_dtype="float16")).digest,
        plan_of(candidate(a, b), max_shard_size=1000).digest,
    }
    assert (len(same), len(others - same)) == (1, 3)
