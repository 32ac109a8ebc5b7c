"""A merge job of models that number their layers in a way of their own, from its document to its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import bits, candidate, model
from tests.workers.kinds.builders import PARENTS, Job, merge_job
from tests.workers.kinds.disturbed import codes_of_merge_stopped_after_each_tensor_and_killed_at_each_step
from tests.workers.kinds.test_recipe_job import meta

SLICES = {
    "merge_method": "slerp", "parameters": {"t": [0.25, 0.75]},
    "slices": [{"sources": [{"model": "a", "layer_range": [1, 3]}, {"model": "b", "layer_range": [0, 2]}]},
               {"sources": [{"model": "b", "layer_range": [2, 3]}, {"model": "a", "layer_range": [0, 1]}]}],
}  # fmt: skip


def job_of(directory: Path, params: dict[str, Any]) -> Job:
    """Two models of three blocks each, whose numbers stand inside of words."""
    directory.mkdir(exist_ok=True)
    job = merge_job(directory)
    for i in range(2):
        g = torch.Generator().manual_seed(i)
        names = [f"net.block{n:02d}_conv.weight" for n in range(3)] + ["stem.emb.weight", "head.0.weight"]
        model(directory / "inputs" / f"model-{i}", {name: torch.randn(6, 5, generator=g) for name in names})
    asked = json.loads((directory / "job.json").read_text())
    asked["params"] = {"layer_pattern": "block{layer}_", **params}
    for each, name in zip(asked["inputs"], "ab", strict=True):
        each["name"] = name
    (directory / "job.json").write_text(json.dumps(asked))
    return job


def by_recipe(directory: Path) -> Job:
    return job_of(directory, {"recipe": SLICES})


def test_each_block_has_its_value(tmp_path: Path, capsys) -> None:
    job = job_of(tmp_path, {"strategy": "slerp", "models": PARENTS, "t": [0.2, 0.8]})
    assert job.run() == 0
    got = load_file(job.merged / "model.safetensors")
    places = [tmp_path / "inputs" / f"model-{i}" for i in range(2)]
    for layer, t in ((0, 0.2), (1, 0.5), (2, 0.8)):
        name = f"net.block{layer:02d}_conv.weight"
        assert bits(got[name]) == bits(candidate(*places, t=t).tensor(name))
    assert bits(got["head.0.weight"]) == bits(candidate(*places, t=0.2).tensor("head.0.weight"))
    told = capsys.readouterr().out
    assert "plan: layer_pattern 'block{layer}_' finds 3 layers, 0 to 2, in 3 of 5 tensors" in told
    assert meta(job)["recipe"]["layer_pattern"] == "block{layer}_"


def test_slices_are_written_with_the_names_of_the_models(tmp_path: Path) -> None:
    job = by_recipe(tmp_path)
    assert job.run() == 0
    assert sorted(load_file(job.merged / "model.safetensors")) == [
        "head.0.weight", "net.block00_conv.weight", "net.block01_conv.weight", "net.block02_conv.weight",
        "stem.emb.weight",
    ]  # fmt: skip


def test_a_pattern_that_fits_nothing_is_refused_before_data_is_read(tmp_path: Path) -> None:
    job = job_of(tmp_path, {"strategy": "slerp", "models": PARENTS, "layer_pattern": "blk{layer}_"})
    assert job.run() == 2
    (first, second) = job.events[-1]["details"]["problems"]
    assert (first["code"], first["field"], "'b'" in second["message"]) == ("config", "params.layer_pattern", True)
    assert not (job.checkpoint / "framework").exists()


def test_it_is_refused_together_with_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    params = {"strategy": "slerp", "models": PARENTS, "layer_pattern": "blk{layer}_", "tokenizer_source": PARENTS[0]}
    job = job_of(tmp_path, params)
    job.run()
    assert [p["code"] for p in job.events[-1]["details"]["problems"]] == ["config", "config", "no_tokenizer"]


def test_preempted_or_killed_after_any_tensor_it_writes_the_same_bytes(tmp_path: Path) -> None:
    codes = codes_of_merge_stopped_after_each_tensor_and_killed_at_each_step(by_recipe, tmp_path)
    assert codes == [85] * 4 + [0]
