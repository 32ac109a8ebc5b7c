"""The examples, run as jobs through the agent: preempted or killed they go on, and leave what their README says."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from tests.workers.agent.waiting import until
from tests.workers.contract.house import House, house
from tests.workers.contract.test_torch_programs import PATIENT
from workers.catalog import check_params
from workers.kinds.digits import TESTS, split, write_samples
from workers.model_families import architecture
from workers.rows_params import tensor_faults

pytestmark = [pytest.mark.xdist_group("torch programs"), pytest.mark.timeout(600)]
EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/train.py"))
# Words that make each short, and words with which it lasts long enough to be stopped.
SHORT = {"huggingface": ("--steps", "60"), "lightning": ("--epochs", "6")}
SLOW = ("--pause", "1")
DOMAINS = "two_domains"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """The demo's data set."""
    made = tmp_path_factory.mktemp("data")
    write_samples(made, split(0)["test"])
    return made


def started(at: House, name: str, data: Path, *words: str, **launch: Any) -> str:
    """The example as its README submits it, with these words."""
    params = {"argv": [sys.executable, "train.py", *words], "files": "art-files", "inputs": {"data": "art-data"}}
    inputs = [at.input_of("files", EXAMPLES / name), at.input_of("data", data)]
    return at.grant(params, inputs=inputs, **launch)


def test_a_preempted_plain_example_ends_with_the_bytes_of_an_undisturbed_one(tmp_path: Path, data: Path) -> None:
    with house(tmp_path, PATIENT) as at:
        undisturbed = started(at, "plain", data, "--epochs", "6")
        disturbed = started(at, "plain", data, "--epochs", "6", *SLOW)
        at.progressed(disturbed)
        stopped = at.preempt(disturbed)
        assert (stopped["outcome"], stopped["exit_code"], stopped["detail"]) == ("PREEMPTED", 85, "confirmed")
        again = at.end(started(at, "plain", data, "--epochs", "6", resume=at.resume(stopped), number=2))
        whole = at.end(undisturbed)
        assert (whole["outcome"], again["outcome"]) == ("SUCCEEDED", "SUCCEEDED")
        assert at.output(again) == at.output(whole)
        assert f"resumed at step {stopped['step']}\n" in at.log("a3")


def test_a_plain_example_that_is_killed_goes_on_from_the_middle_of_an_epoch_to_the_same_bytes(tmp_path, data) -> None:
    with house(tmp_path, PATIENT) as at:
        undisturbed = started(at, "plain", data, "--epochs", "4")
        killed = started(at, "plain", data, "--epochs", "4", "--save-every", "7", *SLOW)
        (saved, *_) = until(lambda: at.server.got("checkpoint", killed), "the first checkpoint", 60)
        at.server.want(killed, "kill", "cancel")
        at.end(killed)
        assert saved["step"] == 7  # of nine steps in an epoch
        kept = at.resume({"checkpoint": saved["artifact"], "step": saved["step"]})
        again = at.end(started(at, "plain", data, "--epochs", "4", resume=kept, number=2))
        assert at.output(again) == at.output(at.end(undisturbed))
        assert at.log("a3") == "resumed at step 7\n"


def test_the_model_of_the_plain_example_has_learned_and_is_one_that_emep_reads(tmp_path: Path, data: Path) -> None:
    with house(tmp_path, PATIENT) as at:
        report = at.end(started(at, "plain", data))
        files = at.output(report)
    config, weights = json.loads(files["config.json"]), load(files["model.safetensors"])
    family, settled, errors = architecture(config, "params.architecture", strict=True)
    tensors = {name: ("F32", tuple(tensor.shape)) for name, tensor in weights.items()}
    assert (errors, tensor_faults(family, settled, "net", tensors)) == ([], [])
    rows = [json.loads(line) for line in (data / "test.jsonl").read_text().splitlines()]
    x = torch.tensor([row["input"] for row in rows])
    for place in (0, 2, 4):
        x = x @ weights[f"{place}.weight"].T + weights[f"{place}.bias"]
        x = x.relu() if place < 4 else x
    assert (x.argmax(1) == torch.tensor([row["label"] for row in rows])).float().mean() > 0.9


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_preempted_example_of_a_framework_saves_and_goes_on_to_its_end(name: str, tmp_path: Path, data: Path) -> None:
    with house(tmp_path, PATIENT) as at:
        undisturbed = started(at, name, data, *SHORT[name])
        disturbed = started(at, name, data, *SHORT[name], *SLOW)
        at.progressed(disturbed)
        stopped = at.preempt(disturbed)
        assert (stopped["outcome"], stopped["exit_code"], stopped["detail"]) == ("PREEMPTED", 85, "confirmed")
        again = at.end(started(at, name, data, *SHORT[name], resume=at.resume(stopped), number=2))
        whole = at.end(undisturbed)
        assert (whole["outcome"], again["outcome"]) == ("SUCCEEDED", "SUCCEEDED"), at.log("a3")
        assert re.search(r"^resumed from \S+", at.log("a3"), re.M)
        assert sorted(at.output(again)) == sorted(at.output(whole))


def test_every_example_is_submitted_as_its_readme_says() -> None:
    assert NAMES == ["huggingface", "lightning", "plain", DOMAINS]
    listed = (EXAMPLES / "README.md").read_text()
    assert f"({DOMAINS}/README.md)" in listed
    for name in NAMES[:3]:
        page = (EXAMPLES / name / "README.md").read_text()
        shown = json.loads(re.search(r"```json\n(.*?)```", page, re.S).group(1))
        assert check_params(shown["kind"], shown["params"])[1] == []
        assert shown["params"]["files"] == f"{name}-example"
        assert shown["params"]["inputs"] == {"data": TESTS}
        assert f"`{name}-example`" in page
        assert f"({name}/README.md)" in listed


def domains(at: House, **launch: Any) -> str:
    """A twentieth of the training of the language models."""
    params = {"argv": [sys.executable, "train.py", "--scale", "0.05"], "files": "art-files"}
    return at.grant(params, inputs=[at.input_of("files", EXAMPLES / DOMAINS)], **launch)


def test_the_language_models_of_two_domains_are_those_of_an_undisturbed_training_and_emep_reads_them(tmp_path) -> None:
    with house(tmp_path, PATIENT) as at:
        disturbed = domains(at)
        at.progressed(disturbed)
        stopped = at.preempt(disturbed)
        assert (stopped["outcome"], stopped["detail"]) == ("PREEMPTED", "confirmed")
        again = at.end(domains(at, resume=at.resume(stopped), number=2))
        whole = at.end(domains(at, number=3))
        assert (again["outcome"], whole["outcome"]) == ("SUCCEEDED", "SUCCEEDED"), at.log("a2")
        made, expected = (
            {at.server.artifacts[each]["name"]: at.server.artifacts[each]["bytes"] for each in report["artifacts"]}
            for report in (again, whole)
        )
    assert made == expected
    assert sorted(made) == ["code-test", "prose-test", "text-base", "text-code", "text-prose"]
    for name in ("text-base", "text-code", "text-prose"):
        family, settled, errors = architecture(
            json.loads(made[name]["config.json"]), "params.architecture", strict=True
        )
        tensors = {n: ("F32", tuple(t.shape)) for n, t in load(made[name]["model.safetensors"]).items()}
        assert (errors, tensor_faults(family, settled, name, tensors)) == ([], [])
        assert sum(math.prod(shape) for _, shape in tensors.values()) == 360_288
    lines = made["prose-test"]["test.jsonl"].decode().splitlines()
    assert {len(json.loads(line)["text"]) for line in lines} == {640}
