"""One attempt of a merge, from its document to its events, inside this process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import candidate, merged, model, sha256
from tests.workers.engines.recipes import ON_A_BASE, RECIPES
from tests.workers.kinds.builders import BASE, PARENTS, merge_job
from workers.emep_job import StopRequest


def asked_after(looks: int) -> StopRequest:
    """A stop request that is made when it has been looked at so many times."""
    stop = StopRequest(None, 10.0)
    calls = iter(range(10_000))
    stop.requested = lambda: next(calls) >= looks  # type: ignore[method-assign]
    stop.overdue = lambda: False  # type: ignore[method-assign]
    return stop


def test_a_merge_writes_the_model_and_the_first_models_small_files(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    assert job.run() == 0
    expected = merged(candidate(tmp_path / "inputs" / "model-0", tmp_path / "inputs" / "model-1", t=0.3))
    got = load_file(job.merged / "model.safetensors")
    assert all(torch.equal(got[n], expected[n]) for n in expected)
    assert (job.merged / "config.json").read_text() == '{"layers": 0}\n'
    assert sorted(p.name for p in job.merged.iterdir()) == ["config.json", "model.safetensors"]


def test_the_events_end_with_progress_artifact_and_done(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    job.run()
    assert [e["type"] for e in job.events][-3:] == ["progress", "artifact", "done"]
    progress = job.events[-3]
    assert (progress["step"], progress["total"], progress["unit"]) == (6, 6, "tensor")


def test_the_artifact_event_carries_recipe_version_device_and_parents_in_order(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    job.run()
    artifact = next(e for e in job.events if e["type"] == "artifact")
    key = artifact["meta"].pop("derivation_key")
    assert artifact == {
        "type": "artifact",
        "name": "merged",
        "path": "merged",
        "kind": "model",
        "meta": {
            "recipe": {"strategy": "slerp", "t": 0.3, "seed": 7},
            "parents": PARENTS,
            "engine_version": "1",
            "device_class": "cpu",
            "small_files_of": PARENTS[0],
            "tokenizer_of": PARENTS[0],
        },
    }
    assert len(key) == 64


def test_the_log_follows_the_sequence_of_the_specification(tmp_path: Path, capsys) -> None:
    merge_job(tmp_path).run()
    words = [line.split()[0].rstrip(":") for line in capsys.readouterr().out.splitlines()]
    assert [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]] == [
        "torch", "load_tensors", "plan", "merge", "store",
    ]  # fmt: skip


def test_simulated_gpus_are_told_and_the_cpu_does_the_work(tmp_path: Path, capsys) -> None:
    merge_job(tmp_path).run()
    assert "none of the 2 allocated GPUs (simulated?): computing on the CPU" in capsys.readouterr().out


def test_two_jobs_with_equal_inputs_write_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        job = merge_job(tmp_path / name, EMEP_JOB_ID=name)
        job.run()
        files.append({p.name: sha256(p) for p in job.merged.iterdir()})
    assert files[0] == files[1]


def test_nothing_of_the_work_is_left_in_the_checkpoint_directory_after_success(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    job.run()
    assert list((job.checkpoint / "framework").iterdir()) == []


def test_linear_with_its_weights_goes_the_same_way(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    document = json.loads((tmp_path / "job.json").read_text())
    document["params"] = {"strategy": "linear", "models": PARENTS, "weights": [1, 3]}
    (tmp_path / "job.json").write_text(json.dumps(document))
    assert job.run() == 0
    parts = [tmp_path / "inputs" / f"model-{i}" for i in range(2)]
    expected = candidate(*parts, strategy="linear", weights=[1, 3]).tensor("a.weight")
    assert torch.equal(load_file(job.merged / "model.safetensors")["a.weight"], expected)


def on_base(directory: Path, strategy: str):
    """A merge job by the recipe of this strategy, on a base."""
    return merge_job(directory, {"strategy": strategy, **RECIPES[strategy], "base_model": BASE})


def test_a_merge_on_a_base_has_the_base_as_last_parent_and_carries_its_small_files(tmp_path: Path) -> None:
    job = on_base(tmp_path, "ties")
    assert job.run() == 0
    parts = [tmp_path / "inputs" / name for name in ("model-0", "model-1", "base-model")]
    expected = candidate(*parts[:2], strategy="ties", base=parts[2], **RECIPES["ties"]).tensor("a.weight")
    assert torch.equal(load_file(job.merged / "model.safetensors")["a.weight"], expected)
    meta = next(e for e in job.events if e["type"] == "artifact")["meta"]
    assert (meta["parents"], meta["recipe"]["base_model"]) == ([*PARENTS, BASE], BASE)
    assert (job.merged / "config.json").read_text() == '{"layers": 2}\n'


@pytest.mark.parametrize("strategy", ON_A_BASE)
def test_each_strategy_stopped_after_every_tensor_writes_the_bytes_of_an_undisturbed_run(strategy, tmp_path) -> None:
    job = on_base(tmp_path, strategy)
    codes = [job.run(asked_after(1))]
    while codes[-1] == 85:
        job = job.next_attempt()
        codes.append(job.run(asked_after(1)))
    (tmp_path / "other").mkdir()
    undisturbed = on_base(tmp_path / "other", strategy)
    undisturbed.run()
    assert codes == [85] * 5 + [0]
    assert sha256(job.merged / "model.safetensors") == sha256(undisturbed.merged / "model.safetensors")


def test_a_merge_in_shards_has_an_index(tmp_path: Path) -> None:
    big = {"a": torch.ones(200_000), "b": torch.zeros(200_000)}
    job = merge_job(tmp_path, {"max_shard_size": 1_000_000})
    for i in range(2):
        model(tmp_path / "inputs" / f"model-{i}", big)
    job.run()
    assert sorted(p.name for p in job.merged.glob("model*")) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]


def test_asked_to_stop_it_saves_both_parts_and_exits_85(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    assert job.run(asked_after(3)) == 85
    experiment = json.loads((job.checkpoint / "experiment.json").read_text())
    assert (experiment["step"], experiment["total"], experiment["seed"]) == (3, 6, 7)
    assert experiment["lineage"]["parents"] == PARENTS
    assert (job.checkpoint / "framework" / "journal.jsonl").is_file()
    assert not job.merged.exists()


def test_the_checkpoint_event_names_both_parts_and_what_became_of_the_output(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    job.run(asked_after(3))
    event = job.events[-1]
    assert (event["type"], event["step"], event["path"], event["parts"], event["output_kept"]) == (
        "checkpoint", 3, ".", ["experiment.json", "framework/"], True,
    )  # fmt: skip


@pytest.mark.parametrize("looks", range(7))
def test_stopped_after_any_tensor_and_resumed_it_writes_the_same_bytes(looks: int, tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    first = job.run(asked_after(looks))
    again = job.next_attempt()
    assert (first, again.run()) == (85 if looks < 6 else 0, 0)
    (tmp_path / "other").mkdir()
    undisturbed = merge_job(tmp_path / "other")
    undisturbed.run()
    assert {p.name: sha256(p) for p in again.merged.iterdir()} == {
        p.name: sha256(p) for p in undisturbed.merged.iterdir()
    }


def test_a_resume_says_how_much_it_kept(tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path)
    job.run(asked_after(4))
    job.next_attempt().run()
    assert "resume: 4 of 6 tensors verified and kept" in capsys.readouterr().out


def test_a_resume_without_the_part_written_output_starts_over(tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path)
    job.run(asked_after(4))
    (job.checkpoint / "framework" / "step-4" / "tensors-0.bin").unlink()
    assert job.next_attempt().run() == 0
    assert "resume: 0 of 6 tensors" in capsys.readouterr().out


def test_the_preempt_file_alone_is_enough_to_stop(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    (tmp_path / "preempt").touch()
    assert job.run() == 85


def test_what_a_killed_attempt_left_in_the_output_is_not_published(tmp_path: Path) -> None:
    job = merge_job(tmp_path)
    job.merged.mkdir(parents=True)
    (job.merged / "model-00001-of-00002.safetensors").write_text("half")
    job.run()
    assert sorted(p.name for p in job.merged.iterdir()) == ["config.json", "model.safetensors"]


def refused(job, capsys) -> tuple[int, dict, str]:
    code = job.run()
    return code, job.events[-1], capsys.readouterr().err


def test_nan_in_an_input_is_refused_with_code_2_and_one_line(tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path)
    for i in range(2):
        shutil.rmtree(tmp_path / "inputs" / f"model-{i}")
        model(tmp_path / "inputs" / f"model-{i}", {"w": [1.0, float("nan") if i else 2.0]})
    code, event, line = refused(job, capsys)
    assert (code, event["type"], event["code"], event["details"]) == (
        2, "error", "nonfinite_input", {"tensor": "w", "model": "model-1", "count": 1},
    )  # fmt: skip
    assert line == f"refused (nonfinite_input): {event['message']}\n"


def test_models_that_do_not_match_are_refused_naming_both(tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path)
    model(tmp_path / "inputs" / "model-1", {"a.weight": [1.0]})
    _, event, _ = refused(job, capsys)
    shapes = [p for p in event["details"]["problems"] if p["code"] == "shape_mismatch"]
    assert [(p["models"], p["shapes"]) for p in shapes] == [(["model-0", "model-1"], [[40, 33], [1]])]


def test_a_bad_parameter_and_a_corrupt_model_are_refused_together(tmp_path: Path, capsys) -> None:
    job = merge_job(tmp_path, {"t": 2})
    (tmp_path / "inputs" / "model-1" / "model.safetensors").write_bytes(b"")
    _, event, _ = refused(job, capsys)
    assert [p["code"] for p in event["details"]["problems"]] == ["config", "corrupt_input"]


def test_a_disk_too_small_is_refused_before_any_data_is_read(tmp_path: Path, capsys, monkeypatch) -> None:
    job = merge_job(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 100))
    _, event, _ = refused(job, capsys)
    assert (event["code"], event["details"]) == ("no_space", {"needed": 6964, "free": 100})


def test_a_refused_job_leaves_no_output(tmp_path: Path) -> None:
    job = merge_job(tmp_path, {"t": 2})
    job.run()
    assert not job.merged.exists()
