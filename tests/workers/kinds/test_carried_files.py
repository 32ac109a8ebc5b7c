"""The small files of a merged model: whose they are, and that a merge killed at any step has them all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import model, random_model, sha256
from tests.workers.engines.dying import run_and_die
from tests.workers.engines.recipes import RECIPES
from tests.workers.engines.test_recipes import SLICED
from tests.workers.kinds.builders import BASE, PARENTS, Job, merge_job
from tests.workers.kinds.test_merge_job import asked_after
from tests.workers.kinds.test_recipe_job import meta, recipe_job
from workers.kinds import checkpoint
from workers.kinds.companions import MAX_COMPANION, copy_companions

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "merges.txt")


def with_tokenizers(job: Job, *names: str) -> Job:
    """Each of these inputs has small files and a tokenizer of its own; the second lacks one of its files."""
    for name in names or sorted(path.name for path in (job.directory / "inputs").iterdir()):
        place = job.directory / "inputs" / name
        for file in ("generation_config.json", *TOKENIZER[: 2 if name == "model-1" else 3]):
            (place / file).write_text(f"{file} of {name}")
    return job


def carried(job: Job) -> dict[str, str]:
    """Whose each carried file is."""
    texts = {path.name: path.read_text() for path in job.merged.iterdir() if path.suffix != ".safetensors"}
    return {name: text.split(" of ")[-1] for name, text in texts.items() if " of " in text}


def based(directory: Path, **params: Any) -> Job:
    job = merge_job(directory, {"strategy": "ties", **RECIPES["ties"], "base_model": BASE, **params})
    return with_tokenizers(job)


def test_without_a_word_all_small_files_are_those_of_the_base(tmp_path: Path, capsys) -> None:
    job = based(tmp_path)
    assert job.run() == 0
    assert carried(job) == dict.fromkeys(("generation_config.json", *TOKENIZER), "base-model")
    assert "store: small files of base-model\n" in capsys.readouterr().out
    assert (meta(job)["small_files_of"], meta(job)["tokenizer_of"]) == (BASE, BASE)


def test_a_named_tokenizer_comes_whole_and_nothing_of_another_beside_it(tmp_path: Path, capsys) -> None:
    job = based(tmp_path, tokenizer_source=PARENTS[1])
    assert job.run() == 0
    assert carried(job) == {"generation_config.json": "base-model", "tokenizer.json": "model-1",
                            "tokenizer_config.json": "model-1"}  # fmt: skip
    assert "store: small files of base-model, tokenizer of model-1" in capsys.readouterr().out
    assert (meta(job)["tokenizer_of"], meta(job)["recipe"]["tokenizer_source"]) == (PARENTS[1], PARENTS[1])


def test_a_recipe_names_it_too_and_the_artifact_says_whose_it_is(tmp_path: Path) -> None:
    job = with_tokenizers(recipe_job(tmp_path, {**SLICED, "tokenizer_source": "b"}))
    assert job.run() == 0
    assert carried(job)["tokenizer.json"] == "model-1"
    assert meta(job)["recipe"]["recipe"]["tokenizer_source"] == PARENTS[1]


def test_a_model_that_is_named_for_its_tokenizer_and_has_none_is_refused_before_data_is_read(tmp_path: Path) -> None:
    job = merge_job(tmp_path, {"tokenizer_source": PARENTS[1]})
    (tmp_path / "inputs" / "model-1" / "tokenizer_config.json").write_text("{}")
    assert job.run() == 2
    error = job.events[-1]
    assert (error["code"], error["details"]) == ("no_tokenizer", {"model": "model-1"})
    assert "tokenizer.json" in error["message"]
    assert not (job.checkpoint / "framework").exists()


def test_it_is_refused_together_with_everything_else(tmp_path: Path) -> None:
    job = merge_job(tmp_path, {"tokenizer_source": PARENTS[1]})
    (tmp_path / "inputs" / "model-0" / "model.safetensors").write_bytes(b"")
    job.run()
    assert [p["code"] for p in job.events[-1]["details"]["problems"]] == ["corrupt_input", "no_tokenizer"]


def test_a_tokenizer_is_carried_however_large_it_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "tokenizer.json").open("wb") as file:
        file.truncate(MAX_COMPANION + 1)
    assert copy_companions(tmp_path / "in", tmp_path / "out").copied == ("tokenizer.json",)
    assert (tmp_path / "out" / "tokenizer.json").stat().st_size == MAX_COMPANION + 1


def config_of(job: Job, config: dict[str, Any]) -> dict[str, Any]:
    """The result's configuration where the first model's is this one."""
    (job.directory / "inputs" / "model-0" / "config.json").write_text(json.dumps(config))
    assert job.run() == 0
    return json.loads((job.merged / "config.json").read_text())


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_the_config_names_the_type_that_is_stored(key: str, tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path, {"out_dtype": "bfloat16"})
    assert config_of(job, {key: "float32", "x": 1}) == {key: "bfloat16", "x": 1}
    assert f"store: config.json says {key} bfloat16" in capsys.readouterr().out


@pytest.mark.parametrize("config", [{"torch_dtype": "float32"}, {"torch_dtype": "auto"}, {"dtype": None}, {"x": 1}])
def test_a_config_that_names_the_stored_type_or_none_stays_byte_for_byte(config, tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    assert config_of(job, config) == config
    assert (job.merged / "config.json").read_bytes() == json.dumps(config).encode()


def test_where_floats_of_several_types_are_stored_the_config_stays(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    for i in range(2):
        tensors = {"a": torch.ones(3), "b": torch.ones(3, dtype=torch.float16)}
        model(tmp_path / "inputs" / f"model-{i}", tensors)
    assert config_of(job, {"torch_dtype": "bfloat16"}) == {"torch_dtype": "bfloat16"}


def files(job: Job) -> dict[str, str]:
    return {p.relative_to(job.merged).as_posix(): sha256(p) for p in job.merged.rglob("*") if p.is_file()}


def with_everything(directory: Path) -> Job:
    """A merge that carries a tokenizer, rewrites its configuration and writes shards."""
    directory.mkdir()
    how = {"tokenizer_source": PARENTS[1], "out_dtype": "bfloat16", "max_shard_size": 1_000_000}
    job = with_tokenizers(merge_job(directory, how))
    for i in range(2):
        random_model(directory / "inputs" / f"model-{i}", i, scale=400)
        (directory / "inputs" / f"model-{i}" / "config.json").write_text('{"torch_dtype": "float32"}')
    return job


def test_killed_at_any_step_and_run_again_the_whole_result_is_the_same(tmp_path: Path) -> None:
    undisturbed = with_everything(tmp_path / "undisturbed")
    assert undisturbed.run() == 0
    expected, step, died = files(undisturbed), 0, True
    while died:
        step += 1
        job = with_everything(tmp_path / f"{step}")
        died = run_and_die(job.run, step)
        if died:
            job = job.next_attempt()
            assert job.run() == 0
        assert files(job) == expected
    assert step > 15
    assert set(expected) > {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors.index.json"}


def test_preempted_after_every_tensor_the_whole_result_is_the_same(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        checkpoint, "worth_shipping", lambda finished, spent: finished > 0
    )  # however fast this machine is
    undisturbed = with_everything(tmp_path / "undisturbed")
    undisturbed.run()
    job = with_everything(tmp_path / "other")
    codes = [job.run(asked_after(1))]
    while codes[-1] == 85:
        job = job.next_attempt()
        codes.append(job.run(asked_after(1)))
    assert (codes, files(job)) == ([85] * 5 + [0], files(undisturbed))
