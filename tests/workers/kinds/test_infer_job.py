"""One attempt of a batch inference, from its document to its events, inside this process."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.engines.builders import sha256
from tests.workers.engines.evaluations import DECODER, MLP, family_model, json_lines, labelled
from tests.workers.kinds.builders import PARENTS, Job, infer_job
from tests.workers.kinds.disturbed import several_devices_leave_the_same, stopped_after_every_batch_leaves_the_same
from tests.workers.kinds.test_evaluate_job import refused
from tests.workers.kinds.test_merge_job import asked_after
from workers.engines.inferring import Inference
from workers.kinds import by_batches, context, infer
from workers.protocol import MAX_EVENT_LINE

BOTH = pytest.mark.parametrize("config", [MLP, DECODER], ids=["mlp", "decoder"])


def manifest(job: Job) -> dict[str, Any]:
    return json.loads((job.inferred / "manifest.json").read_text())


def rows(job: Job) -> list[dict[str, Any]]:
    """All rows, part by part as the manifest lists them."""
    text = "".join((job.inferred / part["file"]).read_text() for part in manifest(job)["parts"])
    return [json.loads(line) for line in text.splitlines()]


def changed(tmp_path: Path, **params: Any) -> None:
    """The job's document asks for something else from now on."""
    document = json.loads((tmp_path / "job.json").read_text())
    document["params"] |= params
    (tmp_path / "job.json").write_text(json.dumps(document))


def test_a_classifier_leaves_a_line_a_row_and_a_manifest(tmp_path: Path) -> None:
    job = infer_job(tmp_path)
    assert job.run() == 0
    assert [row["index"] for row in rows(job)] == list(range(10))
    assert list(rows(job)[0]) == ["index", "digest", "label", "probabilities"]
    assert manifest(job) == {
        "architecture": "mlp", "engine_version": "1",
        "counts": {"rows": 10, "bad_rows": 0, "not_finite": 0, "new_tokens": 0},
        "parts": [{"file": "part-00000.jsonl", "rows": 10, "sha256": sha256(job.inferred / "part-00000.jsonl")}],
    }  # fmt: skip


def test_a_language_model_leaves_what_follows_each_text(tmp_path: Path) -> None:
    job = infer_job(tmp_path, {"logprobs": True}, config=DECODER)
    assert job.run() == 0
    assert list(rows(job)[0]) == ["index", "digest", "text", "tokens", "logprobs", "input_logprobs"]
    assert {len(row["tokens"]) for row in rows(job)} == {9}
    assert manifest(job)["counts"]["new_tokens"] == 90


def test_parts_have_so_many_rows_each_and_together_all_of_them(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = infer_job(tmp_path / "a")
    assert whole.run() == 0
    monkeypatch.setattr(infer, "PART_ROWS", 4)
    job = infer_job(tmp_path / "b")
    assert job.run() == 0
    assert sorted(job.made) == ["inference/manifest.json", *(f"inference/part-0000{n}.jsonl" for n in range(3))]
    assert [(p["file"], p["rows"]) for p in manifest(job)["parts"]] == [
        ("part-00000.jsonl", 4), ("part-00001.jsonl", 4), ("part-00002.jsonl", 2),
    ]  # fmt: skip
    assert [p["sha256"] for p in manifest(job)["parts"]] == [
        sha256(job.inferred / p["file"]) for p in manifest(job)["parts"]
    ]
    assert rows(job) == rows(whole)


def test_the_events_end_with_progress_counts_artifact_and_done(tmp_path: Path) -> None:
    job = infer_job(tmp_path, config=DECODER)
    job.run()
    assert [e["type"] for e in job.events][-4:] == ["progress", "metric", "artifact", "done"]
    progress, metric = job.events[-4:-2]
    assert (progress["step"], progress["total"], progress["unit"]) == (10, 10, "row")
    assert progress["rate"] > 0
    assert (metric["name"], metric["step"], metric["value"]) == ("new_tokens", 10, 90)


def test_the_artifact_event_carries_recipe_version_device_parents_and_counts(tmp_path: Path) -> None:
    job = infer_job(tmp_path, {"limit": 8})
    job.run()
    artifact = next(e for e in job.events if e["type"] == "artifact")
    meta = artifact.pop("meta")
    assert artifact == {"type": "artifact", "name": "inference", "path": "inference", "kind": "output"}
    assert (len(meta.pop("derivation_key")), len(meta["recipe"].pop("architecture"))) == (64, 64)
    assert meta == {
        "recipe": {"model": PARENTS[0], "input": PARENTS[1], "max_bad_rows": 0, "batch_size": 4, "limit": 8},
        "parents": PARENTS, "engine_version": "1", "device_class": "cpu", "counts": manifest(job)["counts"],
    }  # fmt: skip


def test_the_log_tells_what_is_done_in_its_order(tmp_path: Path, capsys) -> None:
    infer_job(tmp_path, config=DECODER).run()
    out = capsys.readouterr().out.splitlines()
    words = [line.split()[0].rstrip(":") for line in out]
    assert [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]] == [
        "torch", "load", "plan", "infer", "made", "store",
    ]  # fmt: skip
    assert "plan: 10 rows, 4 at a time, architecture decoder, 9 new tokens each" in out


@BOTH
def test_stopped_after_every_batch_it_leaves_the_bytes_of_an_undisturbed_run(config, tmp_path, monkeypatch) -> None:
    stopped_after_every_batch_leaves_the_same(partial(infer_job, config=config, count=43), tmp_path, monkeypatch)


@BOTH
@pytest.mark.parametrize("devices", [2, 4])
def test_on_several_devices_it_leaves_the_bytes_of_one(config, devices, tmp_path, monkeypatch) -> None:
    several_devices_leave_the_same(partial(infer_job, config=config, count=43), tmp_path, devices, monkeypatch)


@BOTH
def test_another_batch_size_changes_no_byte(config, tmp_path: Path) -> None:
    found = []
    for size in (1, 3, 64):
        (tmp_path / str(size)).mkdir()
        job = infer_job(tmp_path / str(size), {"batch_size": size}, config=config, count=30)
        job.run()
        found.append(job.made)
    assert found[0] == found[1] == found[2]


@BOTH
def test_what_was_saved_on_the_way_is_gone_on_from_after_a_kill(config, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(by_batches, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(by_batches, "SAVE_SHARE", 0.0)
    job = infer_job(tmp_path, config=config)
    assert job.run() == 0
    assert [(e["step"], e["path"]) for e in job.events if e["type"] == "checkpoint"] == [(4, "step-4"), (8, "step-8")]
    capsys.readouterr()
    again = job.next_attempt()
    assert (again.run(), again.made) == (0, job.made)
    assert "resume: 8 of 10 rows verified and kept" in capsys.readouterr().out


def test_killed_while_it_publishes_its_parts_it_publishes_them_anew(tmp_path: Path, monkeypatch) -> None:
    job = infer_job(tmp_path)
    (job.inferred).mkdir(parents=True)
    for name in ("part-00000.jsonl", "part-00007.jsonl", ".part-00001.jsonl.tmp"):
        (job.inferred / name).write_text("half")
    assert job.run() == 0
    assert sorted(job.made) == ["inference/manifest.json", "inference/part-00000.jsonl"]


def test_a_batch_that_does_not_fit_into_memory_says_what_to_lower(tmp_path: Path, monkeypatch, capsys) -> None:
    job = infer_job(tmp_path)

    def rows(self, first, last, module, must_stop):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Inference, "rows", rows)
    code, event, _ = refused(job, capsys)
    assert (code, event["code"], event["details"]) == (2, "out_of_memory", {"field": "params.batch_size", "limit": 4})
    assert event["message"].startswith("4 rows at a time don't fit into memory (CUDA out of memory): lower batch_size")


@pytest.mark.parametrize("other", [{"limit": 9}, {"seed": 6}, {"temperature": 2}, {"max_new_tokens": 8}])
def test_the_checkpoint_of_another_recipe_is_not_gone_on_from(other, tmp_path: Path, capsys) -> None:
    job = infer_job(tmp_path, config=DECODER)
    assert job.run(asked_after(1)) == 85
    changed(tmp_path, **other)
    assert job.next_attempt().run() == 0
    assert "resume: 0 of " in capsys.readouterr().out


def test_rows_that_can_not_be_read_are_passed_over_when_that_is_allowed_and_counted(tmp_path: Path, capsys) -> None:
    job = infer_job(tmp_path, {"max_bad_rows": 2})
    path = tmp_path / "inputs" / "input" / "rows.jsonl"
    path.write_text(path.read_text() + "\n" + '{"input": [1, NaN, 0, 0, 0]}\n')
    assert job.run() == 0
    found = rows(job)
    assert [row["index"] for row in found] == list(range(12))
    assert [row["error"]["code"] for row in found[10:]] == ["empty_line", "not_finite"]
    assert found[11] == {"index": 11, "error": {
        "code": "not_finite", "message": "line 12: input holds nan: every number must be finite"}}  # fmt: skip
    assert manifest(job)["counts"] == {"rows": 12, "bad_rows": 2, "not_finite": 0, "new_tokens": 0}
    assert {e["name"]: (e["step"], e["value"]) for e in job.events if e["type"] == "metric"} == {"bad_rows": (12, 2)}
    assert "plan: 2 rows can't be read and only say why" in capsys.readouterr().out


def test_rows_without_a_finite_result_are_counted(tmp_path: Path) -> None:
    job = infer_job(tmp_path)
    family_model(tmp_path / "inputs" / "model", MLP, _0__weight=torch.full((7, 5), 1e308, dtype=torch.float64))
    json_lines(tmp_path / "inputs" / "input" / "rows.jsonl", [*labelled(3), {"input": [1e9] * 5}])
    assert job.run() == 0
    odd = sum(row["label"] is None for row in rows(job))
    assert (odd >= 1, manifest(job)["counts"]["not_finite"]) == (True, odd)
    assert {e["name"]: e["value"] for e in job.events if e["type"] == "metric"} == {"not_finite": odd}


@pytest.mark.parametrize(
    ("params", "spoil", "codes", "words"),
    [
        ({"max_bad_rows": 1}, lambda at: (at / "input" / "rows.jsonl").write_text('\n{"x": 1}\n'),
         ["too_many_bad_rows", "empty_line", "missing_column"],
         "input: rows.jsonl has 2 bad rows, at most max_bad_rows, 1, are passed over"),
        ({}, lambda at: (at / "input" / "rows.jsonl").write_text('\n{"x": 1}\n'), ["empty_line", "missing_column"],
         "input: rows.jsonl, line 1: it is empty"),
        ({}, lambda at: (at / "input" / "more.csv").touch(), ["required"], "say with file which is read"),
        ({}, lambda at: shutil.rmtree(at / "input"), ["unsupported_format"], "has no file that ends in"),
        ({}, lambda at: (at / "model" / "config.json").unlink(), ["required"], "'model' has no config.json"),
        ({}, lambda at: family_model(at / "model", {**MLP, "layer_sizes": [5, 7, 7, 3]}, _4__bias=None),
         ["missing_tensor"], "'model' lacks 4.bias"),
        ({}, lambda at: family_model(at / "model", MLP, _0__weight=torch.full((7, 5), float("nan"))),
         ["nonfinite_input"], "give a model without them"),
        ({"temperature": 1, "seed": 2}, lambda at: None, ["mismatch", "mismatch"],
         "temperature can't be asked of the architecture mlp"),
    ],
)  # fmt: skip
def test_what_can_be_known_is_refused_before_the_first_row(params, spoil, codes, words, tmp_path: Path, capsys) -> None:
    job = infer_job(tmp_path, params)
    spoil(tmp_path / "inputs")
    code, event, line = refused(job, capsys)
    problems = event["details"].get("problems", [event])
    assert (code, event["type"], [p["code"] for p in problems]) == (2, "error", codes)
    assert words in event["message"]
    assert line.startswith(f"refused ({codes[0]}): {event['message'][:100]}")
    assert [e["type"] for e in job.events] == ["error"]
    assert job.made == {}


def test_what_is_wrong_with_parameters_model_and_rows_is_refused_together(tmp_path: Path, capsys) -> None:
    job = infer_job(tmp_path, {"batch_size": 0, "temperature": 1, "max_bad_rows": "few"})
    family_model(tmp_path / "inputs" / "model", MLP, extra=torch.zeros(1))
    json_lines(tmp_path / "inputs" / "input" / "rows.jsonl", [{"input": [0] * 4}])
    _, event, _ = refused(job, capsys)
    assert [(p["code"], p["field"]) for p in event["details"]["problems"]] == [
        ("config", "params.max_bad_rows"), ("config", "params.batch_size"), ("mismatch", "params.temperature"),
        ("unknown_tensor", "params.model"), ("wrong_length", "params.input"),
    ]  # fmt: skip


def test_a_long_name_and_many_parts_leave_an_event_that_can_be_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(infer, "PART_ROWS", 1)
    long = "é" * 62 + "\U0001f600" * 31 + ".jsonl"
    job = infer_job(tmp_path, {"file": long}, count=200)
    (tmp_path / "inputs" / "input" / "rows.jsonl").rename(tmp_path / "inputs" / "input" / long)
    assert job.run() == 0
    assert len(manifest(job)["parts"]) == 200
    assert max(map(len, (tmp_path / "events").read_bytes().splitlines())) < MAX_EVENT_LINE


def test_a_recipe_too_long_for_an_event_is_told_by_its_sha256(tmp_path: Path, monkeypatch) -> None:
    plain = infer_job(tmp_path)
    assert plain.run() == 0
    meta = plain.events[-2]["meta"]
    monkeypatch.setattr(context, "MAX_EVENT_LINE", 500)
    again = plain.next_attempt()
    assert again.run() == 0
    text = json.dumps(meta["recipe"], sort_keys=True, separators=(",", ":")).encode()
    told = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    assert again.events[-2]["meta"] == {**meta, "recipe": told}
