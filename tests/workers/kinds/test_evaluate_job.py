"""One attempt of an evaluation, from its document to its events, inside this process."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import header_bytes
from tests.workers.engines.evaluations import DECODER, MLP, family_model, json_lines, labelled, random_weights
from tests.workers.kinds.builders import PARENTS, Job, evaluate_job
from tests.workers.kinds.disturbed import several_devices_leave_the_same, stopped_after_every_batch_leaves_the_same
from tests.workers.kinds.test_merge_job import asked_after
from workers.engines.evaluating import Evaluation
from workers.kinds import by_batches, context
from workers.kinds.digits import accuracy, split, train_models, write_models, write_samples
from workers.protocol import MAX_EVENT_LINE

BOTH = pytest.mark.parametrize("config", [MLP, DECODER], ids=["mlp", "decoder"])
CPU = torch.device("cpu")


def measured(job: Job) -> dict[str, Any]:
    return json.loads((job.evaluated / "metrics.json").read_text())


def rows(job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.evaluated / "results.jsonl").read_text().splitlines()]


def refused(job: Job, capsys) -> tuple[int, dict[str, Any], str]:
    code = job.run()
    return code, job.events[-1], capsys.readouterr().err


def test_a_classifier_leaves_its_metrics_and_a_row_a_sample(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path)
    assert job.run() == 0
    found, each = measured(job), rows(job)
    assert sorted(job.made) == ["evaluation/metrics.json", "evaluation/results.jsonl"]
    assert [row["index"] for row in each] == list(range(10))
    assert found == {
        "architecture": "mlp", "batch_size": 4, "engine_version": "2",
        "counts": {"samples": 10, "not_finite": 0, "correct": sum(row["correct"] for row in each)},
        "metrics": {"accuracy": sum(row["correct"] for row in each) / 10,
                    "loss": math.fsum(row["nll"] for row in each) / 10},
    }  # fmt: skip


def test_a_language_model_leaves_perplexity_bits_per_byte_and_loss_weighted_by_tokens(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path, config=DECODER)
    assert job.run() == 0
    found, each = measured(job), rows(job)
    nll, tokens, size = (math.fsum(row[name] for row in each) for name in ("nll", "tokens", "bytes"))
    assert found["metrics"] == {
        "perplexity": pytest.approx(math.exp(nll / tokens), rel=1e-14),
        "bits_per_byte": pytest.approx(nll / math.log(2) / size, rel=1e-14),
        "loss": nll / tokens,
    }  # fmt: skip
    assert found["counts"] == {"samples": 10, "not_finite": 0, "tokens": tokens, "bytes": size}


def test_the_digits_of_the_demo_are_read_as_well_as_its_own_measure_says(tmp_path: Path) -> None:
    job, test = evaluate_job(tmp_path), split(0)["test"]
    models = train_models(0)
    write_models(tmp_path / "made", models)
    shutil.rmtree(tmp_path / "inputs" / "model")
    (tmp_path / "made" / "digits-base").rename(tmp_path / "inputs" / "model")
    write_samples(tmp_path / "inputs" / "dataset", test)
    assert job.run() == 0
    assert measured(job)["metrics"]["accuracy"] == accuracy(models["digits-base"], test)


def test_weights_of_zero_find_all_characters_equally_likely(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path, config=DECODER)
    zero = {name.replace(".", "__"): torch.zeros_like(t) for name, t in random_weights(DECODER).items()}
    family_model(tmp_path / "inputs" / "model", DECODER, **zero)
    json_lines(tmp_path / "inputs" / "dataset" / "test.jsonl", [{"text": "abcd abcd"}, {"text": "ab"}])
    assert job.run() == 0
    assert measured(job)["metrics"] == {
        "perplexity": pytest.approx(6.0, rel=1e-7), "bits_per_byte": pytest.approx(math.log2(6), rel=1e-7),
        "loss": pytest.approx(math.log(6), rel=1e-7),
    }  # fmt: skip


def test_the_events_end_with_progress_metrics_artifact_and_done(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path)
    job.run()
    told = measured(job)["metrics"]
    assert [e["type"] for e in job.events][-5:] == ["progress", "metric", "metric", "artifact", "done"]
    assert [(e["name"], e["step"], e["value"]) for e in job.events if e["type"] == "metric"] == [
        ("accuracy", 10, told["accuracy"]), ("loss", 10, told["loss"]),
    ]  # fmt: skip
    progress = job.events[-5]
    assert (progress["step"], progress["total"], progress["unit"]) == (10, 10, "sample")


def test_the_artifact_event_carries_recipe_version_device_parents_and_metrics(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path, {"metrics": ["loss"], "limit": 8})
    job.run()
    artifact = next(e for e in job.events if e["type"] == "artifact")
    meta = artifact.pop("meta")
    assert artifact == {"type": "artifact", "name": "evaluation", "path": "evaluation", "kind": "eval"}
    assert (len(meta.pop("derivation_key")), len(meta["recipe"].pop("architecture"))) == (64, 64)
    assert meta == {
        "recipe": {"model": PARENTS[0], "dataset": PARENTS[1], "metrics": ["loss"], "batch_size": 4, "limit": 8},
        "parents": PARENTS, "engine_version": "2", "device_class": "cpu",
        "metrics": measured(job)["metrics"], "counts": measured(job)["counts"],
    }  # fmt: skip
    assert list(measured(job)["metrics"]) == ["loss"]


def test_an_architecture_of_many_characters_and_a_long_name_leave_an_event_that_can_be_read(tmp_path: Path) -> None:
    many = {**DECODER, "characters": "abcd ö" + "".join(map(chr, range(0x4E00, 0x6E00)))}
    long = "é" * 62 + "\U0001f600" * 31 + ".jsonl"
    job = evaluate_job(tmp_path, {"architecture": many, "file": long}, config=many)
    (tmp_path / "inputs" / "dataset" / "test.jsonl").rename(tmp_path / "inputs" / "dataset" / long)
    assert job.run() == 0
    assert max(map(len, (tmp_path / "events").read_bytes().splitlines())) < MAX_EVENT_LINE


def test_a_recipe_too_long_for_an_event_is_told_by_its_sha256(tmp_path: Path, monkeypatch) -> None:
    plain = evaluate_job(tmp_path)
    assert plain.run() == 0
    meta = plain.events[-2]["meta"]
    monkeypatch.setattr(context, "MAX_EVENT_LINE", 500)
    again = plain.next_attempt()
    assert again.run() == 0
    text = json.dumps(meta["recipe"], sort_keys=True, separators=(",", ":")).encode()
    told = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    assert again.events[-2]["meta"] == {**meta, "recipe": told}


def test_the_log_tells_what_is_done_in_its_order(tmp_path: Path, capsys) -> None:
    evaluate_job(tmp_path).run()
    out = capsys.readouterr().out.splitlines()
    words = [line.split()[0].rstrip(":") for line in out]
    assert [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]] == [
        "torch", "load", "plan", "evaluate", "metrics", "store",
    ]  # fmt: skip
    assert "plan: 10 samples, 4 at a time, architecture mlp, metrics accuracy, loss" in out


@BOTH
def test_stopped_after_every_batch_it_leaves_the_bytes_of_an_undisturbed_run(config, tmp_path, monkeypatch) -> None:
    stopped_after_every_batch_leaves_the_same(
        lambda at: evaluate_job(at, config=config, count=43), tmp_path, monkeypatch
    )


@BOTH
@pytest.mark.parametrize("devices", [2, 4])
def test_on_several_devices_it_leaves_the_bytes_of_one(config, devices, tmp_path, monkeypatch) -> None:
    made = partial(evaluate_job, config=config, count=43)
    several_devices_leave_the_same(made, tmp_path, devices, monkeypatch)


def test_another_batch_size_changes_no_row_and_no_metric(tmp_path: Path) -> None:
    found = []
    for size in (1, 3, 64):
        (tmp_path / str(size)).mkdir()
        job = evaluate_job(tmp_path / str(size), {"batch_size": size}, config=DECODER, count=30)
        job.run()
        found.append((job.made["evaluation/results.jsonl"], measured(job)["metrics"]))
    assert found[0] == found[1] == found[2]


def test_it_saves_as_it_goes_and_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(by_batches, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(by_batches, "SAVE_SHARE", 0.0)
    job = evaluate_job(tmp_path)
    assert job.run() == 0
    saved = [(e["step"], e["path"]) for e in job.events if e["type"] == "checkpoint"]
    assert saved == [(4, "step-4"), (8, "step-8")]
    assert [p.name for p in job.checkpoint.iterdir()] == ["step-8"]


def test_what_was_saved_on_the_way_is_gone_on_from_after_a_kill(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(by_batches, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(by_batches, "SAVE_SHARE", 0.0)
    job = evaluate_job(tmp_path)
    assert job.run() == 0
    capsys.readouterr()
    again = job.next_attempt()
    assert (again.run(), again.made) == (0, job.made)
    out = capsys.readouterr().out
    assert "resume: 8 of 10 samples verified and kept" in out
    assert "evaluate 10/10" in out


def broken_at(monkeypatch, number: int, error: BaseException) -> None:
    """The batch of that number raises this."""
    plain = Evaluation.rows

    def rows(self, first, last, module, must_stop):
        if first == number * self.batch_size:
            raise error
        return plain(self, first, last, module, must_stop)

    monkeypatch.setattr(Evaluation, "rows", rows)


def test_an_exception_in_a_batch_ends_the_job_and_a_retry_goes_on_before_it(tmp_path: Path, capsys) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed = evaluate_job(tmp_path / "b")
    undisturbed.run()
    job = evaluate_job(tmp_path / "a")
    with pytest.MonkeyPatch.context() as patch:
        broken_at(patch, 2, RuntimeError("device-side assert"))
        with pytest.raises(RuntimeError, match="device-side assert"):
            job.run()
    assert [(e["type"], e["step"]) for e in job.events][-1] == ("checkpoint", 8)
    again = job.next_attempt()
    capsys.readouterr()
    assert (again.run(), again.made) == (0, undisturbed.made)
    assert "resume: 8 of 10 samples" in capsys.readouterr().out


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("no room")])
def test_a_batch_that_does_not_fit_into_memory_says_what_to_lower(error, tmp_path: Path, monkeypatch, capsys) -> None:
    job = evaluate_job(tmp_path)
    broken_at(monkeypatch, 1, error)
    code, event, _ = refused(job, capsys)
    assert (code, event["type"], event["code"]) == (2, "error", "out_of_memory")
    assert event["message"] == (
        f"4 samples at a time don't fit into memory ({error}): lower batch_size, or ask for GPUs with more memory"
    )
    assert event["details"] == {"field": "params.batch_size", "limit": 4}
    assert [e["step"] for e in job.events if e["type"] == "checkpoint"] == [4]


@pytest.mark.parametrize("changed", [{"batch_size": 5}, {"limit": 9}, {"metrics": ["loss"]}])
def test_the_checkpoint_of_another_recipe_is_not_gone_on_from(changed, tmp_path: Path, capsys) -> None:
    job = evaluate_job(tmp_path)
    assert job.run(asked_after(1)) == 85
    document = json.loads((tmp_path / "job.json").read_text())
    document["params"] |= changed
    (tmp_path / "job.json").write_text(json.dumps(document))
    assert job.next_attempt().run() == 0
    assert "resume: 0 of " in capsys.readouterr().out


def test_a_loss_that_is_no_number_is_a_result_and_told(tmp_path: Path, capsys) -> None:
    job = evaluate_job(tmp_path)
    family_model(tmp_path / "inputs" / "model", MLP, _0__weight=torch.full((7, 5), 1e308, dtype=torch.float64))
    data = [*labelled(3), {"input": [1e9] * 5, "label": 0}]
    json_lines(tmp_path / "inputs" / "dataset" / "test.jsonl", data)
    assert job.run() == 0
    odd = sum(row["nll"] is None for row in rows(job))
    found = measured(job)
    assert (odd >= 1, found["counts"]["not_finite"], found["metrics"]["loss"]) == (True, odd, None)
    told = {e["name"]: e["value"] for e in job.events if e["type"] == "metric"}
    assert told == {"accuracy": found["metrics"]["accuracy"], "not_finite": odd}
    out = capsys.readouterr().out
    assert "loss is no finite number" in out
    assert f"metrics: the loss of {odd} of 4 samples is no finite number" in out


def test_the_architecture_of_the_parameters_counts_for_a_model_without_a_config(tmp_path: Path) -> None:
    job = evaluate_job(tmp_path, {"architecture": MLP})
    (tmp_path / "inputs" / "model" / "config.json").unlink()
    assert job.run() == 0


def test_a_pytorch_checkpoint_is_read_by_the_weights_only_loader(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    safe, job = evaluate_job(tmp_path / "a"), evaluate_job(tmp_path / "b")
    safe.run()
    place = tmp_path / "b" / "inputs" / "model"
    (place / "model.safetensors").unlink()
    torch.save({"state_dict": random_weights(MLP)}, place / "net.pth")
    assert (job.run(), job.made) == (0, safe.made)


@pytest.mark.parametrize(
    ("spoil", "codes", "words"),
    [
        (lambda at: (at / "model" / "config.json").unlink(), ["required"], "'model' has no config.json"),
        (lambda at: (at / "model" / "config.json").write_text("{"), ["required"], "'model' has no config.json"),
        (lambda at: (at / "model" / "config.json").write_text('{"model_type": "llama"}'), ["unknown_architecture"],
         "config.json of 'model': model_type is one of mlp, decoder, not 'llama'"),
        (lambda at: family_model(at / "model", {**MLP, "layer_sizes": [5, 7, 7, 3]}, _4__bias=None),
         ["missing_tensor"], "'model' lacks 4.bias"),
        (lambda at: family_model(at / "model", MLP, _0__weight=torch.full((7, 5), math.nan)), ["nonfinite_input"],
         "model holds values that are no finite numbers in '0.weight' (35)"),
        (lambda at: (at / "model" / "model.safetensors").write_bytes(header_bytes(b"{")), ["corrupt_input"],
         "model: model.safetensors is not a valid safetensors file"),
        (lambda at: (at / "model" / "model.safetensors").rename(at / "model" / "net.onnx"), ["unsupported_format"],
         "net.onnx can't be"),
        (lambda at: (at / "dataset" / "test.jsonl").rename(at / "dataset" / "test.txt"), ["unsupported_format"],
         "'dataset' has no file that ends in .jsonl, .csv, .safetensors: its files are test.txt"),
        (lambda at: (at / "dataset" / "more.csv").touch(), ["required"], "say with file which is read"),
        (lambda at: (at / "dataset" / "test.jsonl").write_text('\n{"x": 1}\n'), ["empty_line", "missing_column"],
         "2 problems: dataset: test.jsonl, line 1: it is empty: remove it, each line is one sample; dataset:"),
    ],
)  # fmt: skip
def test_what_can_be_known_is_refused_before_the_first_sample(spoil, codes, words, tmp_path: Path, capsys) -> None:
    job = evaluate_job(tmp_path)
    spoil(tmp_path / "inputs")
    code, event, line = refused(job, capsys)
    problems = event["details"].get("problems", [event])
    assert (code, event["type"], [p["code"] for p in problems]) == (2, "error", codes)
    assert words in event["message"]
    assert line.startswith(f"refused ({codes[0]}): {event['message'][:100]}")
    assert [e["type"] for e in job.events] == ["error"]
    assert job.made == {}


def test_what_is_wrong_with_parameters_model_and_data_set_is_refused_together(tmp_path: Path, capsys) -> None:
    job = evaluate_job(tmp_path, {"batch_size": 0})
    family_model(tmp_path / "inputs" / "model", MLP, extra=torch.zeros(1))
    json_lines(tmp_path / "inputs" / "dataset" / "test.jsonl", [{"input": [0] * 5, "label": 9}])
    _, event, _ = refused(job, capsys)
    assert [(p["code"], p["field"]) for p in event["details"]["problems"]] == [
        ("config", "params.batch_size"), ("unknown_tensor", "params.model"), ("label_out_of_range", "params.dataset"),
    ]  # fmt: skip


def test_metrics_of_another_task_are_refused_by_the_model_that_has_them_not(tmp_path: Path, capsys) -> None:
    job = evaluate_job(tmp_path, {"metrics": ["perplexity"]})
    _, event, _ = refused(job, capsys)
    assert (event["code"], event["details"]) == ("mismatch", {"field": "params.metrics"})
    assert "perplexity can't be told of the architecture mlp" in event["message"]
