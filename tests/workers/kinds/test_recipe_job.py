"""A merge job by a recipe, from its document to the files that it leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.engines.builders import by_recipe, layered_model, merged, sha256
from tests.workers.engines.test_recipes import ALL, FRANKEN, SLICED
from tests.workers.kinds.builders import BASE, PARENTS, Job, merge_job
from tests.workers.kinds.test_merge_job import asked_after
from workers.merge_recipe import recipe_references
from workers.protocol import MAX_EVENT_LINE

CONFIG = {"architectures": ["X"], "num_hidden_layers": 3, "layer_types": ["full", "sliding", "full"], "é": 1}
ARTIFACTS = {"a": PARENTS[0], "b": PARENTS[1], "base": BASE}


def recipe_job(directory: Path, document: dict[str, Any], config: Any = CONFIG, **beside: Any) -> Job:
    """A job by this recipe; its models a, b and base have three layers each."""
    directory.mkdir(exist_ok=True)
    job = merge_job(directory)
    shutil.rmtree(directory / "inputs")
    inputs = []
    for _, name, given in recipe_references(document):
        place = layered_model(directory / "inputs" / given, ["a", "b", "base"].index(name))
        (place / "config.json").write_text(json.dumps({**config, "of": name}) if isinstance(config, dict) else config)
        inputs.append({"as": given, "artifact": ARTIFACTS[name], "name": name, "files": []})
    asked = json.loads((directory / "job.json").read_text())
    asked |= {"params": {"recipe": document, "seed": 3, **beside}, "inputs": inputs}
    (directory / "job.json").write_text(json.dumps(asked))
    return job


def meta(job: Job) -> dict[str, Any]:
    return next(e for e in job.events if e["type"] == "artifact")["meta"]


@pytest.mark.parametrize("document", ALL.values(), ids=ALL)
def test_a_recipe_stopped_after_every_tensor_writes_the_bytes_of_an_undisturbed_run(document, tmp_path: Path) -> None:
    job = recipe_job(tmp_path / "one", document)
    codes = [job.run(asked_after(1))]
    while codes[-1] == 85:
        job = job.next_attempt()
        codes.append(job.run(asked_after(1)))
    undisturbed = recipe_job(tmp_path / "other", document)
    assert undisturbed.run() == 0
    names = {name: tmp_path / "one" / "inputs" / given for _, name, given in recipe_references(document)}
    expected = merged(by_recipe(document, names, seed=3))
    assert codes == [85] * (len(expected) - 1) + [0]
    assert {p.name: sha256(p) for p in job.merged.iterdir()} == {
        p.name: sha256(p) for p in undisturbed.merged.iterdir()
    }
    got = load_file(job.merged / "model.safetensors")
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_the_recipe_of_the_artifact_names_artifacts_and_so_is_the_same_whatever_they_are_called(tmp_path) -> None:
    keys = []
    for place, document in (("one", SLICED), ("two", json.loads(json.dumps(SLICED).replace('"b"', '"base"')))):
        job = recipe_job(tmp_path / place, document)
        asked = json.loads((tmp_path / place / "job.json").read_text())
        asked["inputs"][1]["artifact"] = PARENTS[1]
        (tmp_path / place / "job.json").write_text(json.dumps(asked))
        job.run()
        keys.append(meta(job)["derivation_key"])
    assert keys[0] == keys[1]
    recipe = meta(job)["recipe"]["recipe"]
    assert [s["model"] for s in recipe["slices"][0]["sources"]] == PARENTS
    assert (recipe["base_model"], meta(job)["parents"]) == (PARENTS[0], PARENTS)


def test_the_config_of_a_frankenmerge_says_how_many_layers_there_are_now(tmp_path: Path, capsys) -> None:
    job = recipe_job(tmp_path, FRANKEN)
    job.run()
    assert json.loads((job.merged / "config.json").read_text("utf-8")) == {
        **CONFIG, "of": "a", "num_hidden_layers": 5, "layer_types": ["full", "sliding", "sliding", "full", "sliding"],
    }  # fmt: skip
    assert "store: config.json says num_hidden_layers 5" in capsys.readouterr().out


def test_with_all_layers_in_their_order_the_config_stays_byte_for_byte(tmp_path: Path) -> None:
    document = {"merge_method": "slerp", "slices": [
        {"sources": [{"model": name, "layer_range": [0, 3]} for name in ("a", "b")]}
    ]}  # fmt: skip
    job = recipe_job(tmp_path, document)
    job.run()
    assert sha256(job.merged / "config.json") == sha256(tmp_path / "inputs" / "model-0" / "config.json")


@pytest.mark.parametrize("config", ["no json", "[1]", '{"x": 1}'])
def test_a_config_that_names_no_number_of_layers_stays_as_it_is(config: str, tmp_path: Path, capsys) -> None:
    job = recipe_job(tmp_path, FRANKEN, config)
    assert (job.run(), (job.merged / "config.json").read_text()) == (0, config)
    told = "see to it that it fits 5 layers" in capsys.readouterr().out
    assert told is (config == '{"x": 1}')


def test_the_small_files_are_those_of_the_model_that_is_called_base(tmp_path: Path) -> None:
    job = recipe_job(tmp_path, {**FRANKEN, "base_model": "b"})
    job.run()
    config = json.loads((job.merged / "config.json").read_text("utf-8"))
    assert (config["of"], config["layer_types"]) == ("b", ["full", "sliding", "sliding", "full", "sliding"])


def test_the_log_tells_what_each_tensor_gets(tmp_path: Path, capsys) -> None:
    recipe_job(tmp_path, SLICED).run()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("plan: t")]
    assert lines[0] == (
        "plan: t = 0.1, of a and b: 4 tensors, "
        "model.embed.ids, model.embed.weight, model.layers.0.attn.weight and 1 more"
    )
    assert [line.split(":")[1].strip() for line in lines] == [
        "t = 0.1, of a and b", "t = 0.5, of a and b", "t = 0.9, of a and b", "t = 0.25, of a and b",
    ]  # fmt: skip


def test_everything_that_can_be_known_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    document = json.loads(json.dumps(FRANKEN))
    document["slices"][1]["sources"][0]["layer_range"] = [1, 4]
    job = recipe_job(tmp_path, document)
    assert job.run() == 2
    error = job.events[-1]
    assert (error["code"], error["details"]) == (
        "missing_layer", {"field": "params.recipe.slices[1].sources[0].layer_range"}
    )  # fmt: skip
    assert not (job.checkpoint / "framework").exists()


def test_a_wrong_recipe_and_a_corrupt_model_are_refused_together(tmp_path: Path) -> None:
    job = recipe_job(tmp_path, {**SLICED, "dtype": "float8"})
    (tmp_path / "inputs" / "model-1" / "model.safetensors").write_bytes(b"")
    job.run()
    assert [p["code"] for p in job.events[-1]["details"]["problems"]] == ["config", "corrupt_input"]


def test_a_disk_too_small_for_the_layers_is_refused(tmp_path: Path, monkeypatch) -> None:
    job = recipe_job(tmp_path, FRANKEN)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6, 100))
    job.run()
    needed = 5 * 4 * (6 * 5 + 4 * 7) + 4 * (9 * 5 + 5) + 9 * 8
    assert (job.events[-1]["code"], job.events[-1]["details"]) == ("no_space", {"needed": needed, "free": 100})


def test_a_recipe_too_long_for_an_event_is_told_by_its_sha256(tmp_path: Path) -> None:
    """The job had computed all of it and then failed where it was to tell."""
    filters = [{"filter": f"layer{n}", "value": 0.123456789 + n / 1000} for n in range(150)]
    document = {"merge_method": "slerp", "models": [{"model": "a"}, {"model": "b"}],
                "parameters": {"t": [*filters, {"value": 0.5}]}}  # fmt: skip
    job = merge_job(tmp_path)
    (tmp_path / "job.json").write_text(
        json.dumps({**json.loads((tmp_path / "job.json").read_text()), "params": {"recipe": document}})
    )
    assert job.run() == 0
    meta = next(e for e in job.events if e["type"] == "artifact")["meta"]
    assert (len(meta["recipe"]["sha256"]), meta["recipe"]["bytes"] > 4000, len(meta["derivation_key"])) == (
        64,
        True,
        64,
    )
    assert max(map(len, (tmp_path / "events").read_bytes().splitlines())) < MAX_EVENT_LINE
