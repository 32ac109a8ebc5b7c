"""A merge job of models that have some tensors otherwise than each other, from its document to its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import bits, candidate, model
from tests.workers.kinds.builders import BASE, PARENTS, Job, merge_job
from tests.workers.kinds.disturbed import codes_of_merge_stopped_after_each_tensor_and_killed_at_each_step
from tests.workers.kinds.test_recipe_job import meta

EMBED, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "norm.weight"


def tensors(seed: int, rows: int, head: int | None = None, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    made = {EMBED: torch.randn(rows, 5, generator=g), NORM: torch.randn(5, generator=g)}
    return made | ({HEAD: torch.randn(head, 5, generator=g)} if head else {}) | more


def job_of(directory: Path, params: Mapping[str, Any], *models: tuple[dict[str, torch.Tensor], dict[str, Any]]) -> Job:
    """Merge these models of ``(tensors, config)``; the last is the base where there is one."""
    directory.mkdir(exist_ok=True)
    job = merge_job(directory, dict(params))
    names = ["model-0", "model-1", "base-model"]
    for name, (given, config) in zip(names, models, strict=False):
        model(directory / "inputs" / name, given, config_json=json.dumps(config))
    return job


def linear(rule: Any, **more: Any) -> dict[str, Any]:
    return {"strategy": "linear", "models": PARENTS, "on_mismatch": rule, **more}


def config_of(job: Job) -> dict[str, Any]:
    return json.loads((job.merged / "config.json").read_text())


def of_rows(directory: Path) -> Job:
    """The first model has two tokens more than the second, and the embeddings are cut."""
    config = {"vocab_size": 9}
    return job_of(directory, linear([{"filter": "embed", "value": "min"}]), (tensors(0, 9), config),
                  (tensors(1, 7), {"vocab_size": 7}))  # fmt: skip


def test_common_rows_are_merged_and_the_configuration_says_how_many(tmp_path: Path, capsys) -> None:
    job = of_rows(tmp_path)
    assert job.run() == 0
    got = load_file(job.merged / "model.safetensors")
    for i in range(2):
        (tmp_path / f"cut-{i}").mkdir()
    cut = [model(tmp_path / f"cut-{i}", {**tensors(i, 9 - 2 * i), EMBED: tensors(i, 9 - 2 * i)[EMBED][:7].clone()})
           for i in range(2)]  # fmt: skip
    expected = candidate(*cut, strategy="linear")
    assert {name: bits(value) for name, value in got.items()} == {
        name: bits(expected.tensor(name)) for name in (EMBED, NORM)
    }
    assert config_of(job) == {"vocab_size": 7}
    told = capsys.readouterr().out
    assert "plan: the first 7 rows: 1 tensor, model.embed_tokens.weight" in told
    assert "plan: alike in all models: 1 tensor, norm.weight" in told
    assert "config.json says vocab_size 7" in told
    assert meta(job)["recipe"]["on_mismatch"] == [{"filter": "embed", "value": "min"}]


@pytest.mark.parametrize("strategy", ["linear", "slerp", "nuslerp", "model_stock", "ties", "dare_ties", "della"])
def test_rows_are_cut_for_every_way_of_reading(tmp_path: Path, strategy: str) -> None:
    """Element by element, in two passes, by rows, by the largest of all: each as if the models had been cut before."""
    own = {"ties": {"density": 0.5}, "dare_ties": {"density": 0.5}, "della": {"density": 0.5, "epsilon": 0.1}}
    based = strategy in own or strategy == "model_stock"
    params = {"strategy": strategy, "models": PARENTS, "on_mismatch": "min", **own.get(strategy, {})}
    given = [tensors(0, 9), tensors(1, 7), tensors(2, 8)][: 3 if based else 2]
    job = job_of(tmp_path, params | ({"base_model": BASE} if based else {}), *((each, {}) for each in given))
    assert job.run() == 0
    cut = [model(tmp_path / f"cut-{i}", {**each, EMBED: each[EMBED][:7].clone()}) for i, each in enumerate(given)]
    base = {"base": cut.pop()} if based else {}
    expected = candidate(*cut, strategy=strategy, seed=7, **base, **own.get(strategy, {}))
    got = load_file(job.merged / "model.safetensors")[EMBED]
    assert bits(got) == bits(expected.tensor(EMBED))


def test_what_only_one_fits_is_copied_bit_for_bit(tmp_path: Path) -> None:
    ids, others = torch.arange(4), torch.arange(5)
    job = job_of(tmp_path, linear("first"), (tensors(0, 9, ids=ids), {}), (tensors(1, 7, ids=others), {}))
    assert job.run() == 0
    got = load_file(job.merged / "model.safetensors")
    assert (bits(got[EMBED]), bits(got["ids"])) == (bits(tensors(0, 9)[EMBED]), bits(ids))


def test_nan_in_what_is_copied_is_refused(tmp_path: Path) -> None:
    broken = tensors(0, 9)
    broken[EMBED][3, 2] = float("nan")
    job = job_of(tmp_path, linear("first"), (broken, {}), (tensors(1, 7), {}))
    assert (job.run(), job.events[-1]["code"]) == (2, "nonfinite_input")


def test_integers_of_equal_shape_and_other_values_are_those_of_the_one_that_counts(tmp_path: Path) -> None:
    ids, others = torch.arange(4), torch.arange(1, 5)
    refused = job_of(tmp_path / "refused", {"strategy": "linear", "models": PARENTS}, (tensors(0, 9, ids=ids), {}),
                     (tensors(1, 9, ids=others), {}))  # fmt: skip
    assert (refused.run(), refused.events[-1]["code"]) == (2, "integer_mismatch")
    job = job_of(tmp_path / "told", linear("base", strategy="task_arithmetic", base_model=BASE),
                 *((tensors(i, 9, ids=each), {}) for i, each in enumerate((ids, ids, others))))  # fmt: skip
    assert job.run() == 0
    assert load_file(job.merged / "model.safetensors")["ids"].tolist() == [1, 2, 3, 4]


def test_without_a_rule_all_differences_are_told_before_data_is_read(tmp_path: Path) -> None:
    job = job_of(tmp_path, {"strategy": "linear", "models": PARENTS}, (tensors(0, 9, head=9), {}), (tensors(1, 7), {}))
    assert job.run() == 2
    codes = [problem["code"] for problem in job.events[-1]["details"]["problems"]]
    assert codes == ["missing_tensor", "shape_mismatch"]
    assert not (job.checkpoint / "framework").exists()


def test_a_tied_head_beside_one_of_its_own_is_merged_and_the_result_is_not_tied(tmp_path: Path) -> None:
    tied, own = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
    job = job_of(tmp_path, {"strategy": "linear", "models": PARENTS}, (tensors(0, 9), tied), (tensors(1, 9, 9), own))
    assert job.run() == 0
    head = load_file(job.merged / "model.safetensors")[HEAD]
    both = [
        model(tmp_path / name, {"x": x}) for name, x in (("a", tensors(0, 9)[EMBED]), ("b", tensors(1, 9, 9)[HEAD]))
    ]
    assert bits(head) == bits(candidate(*both, strategy="linear").tensor("x"))
    assert config_of(job) == {"tie_word_embeddings": False}


def test_tied_heads_stay_tied(tmp_path: Path) -> None:
    tied = {"tie_word_embeddings": True}
    job = job_of(tmp_path, {"strategy": "linear", "models": PARENTS}, (tensors(0, 9), tied), (tensors(1, 9), tied))
    assert job.run() == 0
    assert HEAD not in load_file(job.merged / "model.safetensors")
    assert config_of(job) == tied


def test_preempted_or_killed_after_any_tensor_it_writes_the_same_bytes(tmp_path: Path) -> None:
    codes = codes_of_merge_stopped_after_each_tensor_and_killed_at_each_step(of_rows, tmp_path)
    assert (codes[0], codes[-1]) == (85, 0)


def test_the_log_tells_what_is_left_out_and_which_layers_as_a_whole(tmp_path: Path, capsys) -> None:
    layers = {f"h.{n}.w": torch.ones(2) for n in range(3)}
    short, deep = {"h.0.w": torch.ones(2), NORM: torch.ones(5)}, {**layers, NORM: torch.ones(5), "h.0.b": torch.ones(1)}
    job = job_of(tmp_path, linear("first"), (short, {}), (deep, {}))
    assert job.run() == 0
    out = capsys.readouterr().out
    assert "plan: left out, of model-1: 3 tensors, h.0.b, h.1.w, h.2.w" in out
    assert "plan: left out as a whole: layers 1, 2; config.json is carried as it is" in out


def test_where_nothing_is_left_out_nothing_is_said_of_it(tmp_path: Path, capsys) -> None:
    of_rows(tmp_path).run()
    assert "left out" not in capsys.readouterr().out
