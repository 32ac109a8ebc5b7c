"""The published description of kinds and their parameters says what the check takes: names, bounds, examples."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

from scheduling.api.shapes.params import EXAMPLES, PARAMETERS
from scheduling.models import Job
from tests import builders as b
from tests.api.calls import world
from workers.catalog import KINDS, check_params
from workers.command_params import KNOWN
from workers.evaluate_params import KNOWN as OF_EVALUATE
from workers.evolve_params import KNOWN as OF_EVOLVE
from workers.infer_params import KNOWN as OF_INFER
from workers.merge_params import MERGE_COMMON
from workers.merge_strategies import STRATEGIES

RIGHT: dict[str, dict[str, Any]] = {
    "merge": {"models": ["a", "b"]}, "evaluate": {"model": "a", "dataset": "d"},
    "infer": {"model": "a", "input": "d"}, "command": {"argv": ["python", "train.py"]},
    "evolve": {"merge": {"strategy": "passthrough", "models": ["a"]}, "objective": {"dataset": "d"},
               "space": [{"name": "scale", "low": 0.5, "high": 2}], "budget": 100_000, "grid": 0},
}  # fmt: skip
# What a parameter needs beside it.
DARE = {"strategy": "dare_linear", "base_model": "c", "density": 0.5}
WITH: dict[str, dict[str, Any]] = {"nproc": {"torchrun": True}, "rescale": DARE, "lambda": DARE,
                                   "max_new_tokens": {"logprobs": True},
                                   "granularity": {"strategy": "nuslerp"},
                                   "scale": {"strategy": "passthrough", "models": ["a"]}}  # fmt: skip
KINDS_AND_NAMES = [(kind, name) for kind, names in PARAMETERS.items() for name in names]


def faults(kind: str, name: str, value: Any) -> list[str]:
    """The codes of what is wrong with the parameter when it has that value."""
    given = {**RIGHT[kind], **WITH.get(name, {}), name: value}
    if name == "shell":
        given.pop("argv")
    if name == "strategy":
        given["models"] = ["a", "b"]
    return [error.code for error in check_params(kind, given)[1] if error.field == f"params.{name}"]


def test_every_kind_is_described_with_all_its_parameters_and_no_others():
    own = {name for strategy in STRATEGIES.values() for name in strategy.own}
    assert {kind: set(names) for kind, names in PARAMETERS.items()} == {
        "merge": {*MERGE_COMMON, *own}, "evaluate": set(OF_EVALUATE), "infer": set(OF_INFER),
        "evolve": set(OF_EVOLVE), "command": set(KNOWN),
    }  # fmt: skip
    assert PARAMETERS.keys() == KINDS.keys()


@pytest.mark.parametrize(("kind", "name"), KINDS_AND_NAMES)
def test_the_values_at_the_ends_are_taken_and_those_beyond_refused(kind, name):
    told = PARAMETERS[kind][name]
    ends = [told[end] for end in ("minimum", "maximum") if end in told]
    beyond = [told[end] + step for end, step in (("minimum", -1), ("maximum", 1)) if end in told]
    assert [faults(kind, name, value) for value in ends] == [[]] * len(ends)
    assert all(faults(kind, name, value) for value in beyond)


@pytest.mark.parametrize(("kind", "name"), [each for each in KINDS_AND_NAMES if "enum" in PARAMETERS[each[0]][each[1]]])
def test_the_words_to_choose_from_are_taken_and_no_other(kind, name):
    assert not any(faults(kind, name, word) for word in PARAMETERS[kind][name]["enum"])
    assert faults(kind, name, "another")


@pytest.mark.parametrize(
    ("kind", "name"), [each for each in KINDS_AND_NAMES if "default" in PARAMETERS[each[0]][each[1]]]
)
def test_a_default_is_a_value_that_is_taken(kind, name):
    assert not faults(kind, name, PARAMETERS[kind][name]["default"])


@pytest.mark.django_db
def test_the_schema_of_a_submission_has_the_kinds_their_parameters_and_the_examples():
    schema = SchemaGenerator().get_schema(public=True)
    known = schema["components"]["schemas"]
    request = known["JobRequest"]["properties"]
    assert known["KindEnum"]["enum"] == list(KINDS)
    assert [set(each["properties"]) for each in request["params"]["oneOf"]] == [set(PARAMETERS[k]) for k in KINDS]
    shown = schema["paths"]["/api/v1/jobs/"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert [each["value"] for each in shown.values()] == list(EXAMPLES.values())


@pytest.mark.django_db
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_accepted(name):
    w = world()
    b.node("n2")
    for place, model in enumerate(("digits-0-4", "digits-5-9", "digits-base"), start=10):
        b.mlp(w.who["alice"], model, place)
    b.dataset(w.who["alice"], "digits-test")
    b.dataset(w.who["alice"], "digits-search", content=b"{}")
    llama = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).encode()
    b.artifact(w.who["alice"], "tiny-llama", {"model.safetensors": b.tensors(), "config.json": llama,
                                              "tokenizer.json": b"{}"})  # fmt: skip
    b.artifact(w.who["alice"], "our-tasks", {"rivers.yaml": b"", "q.jsonl": b""}, kind="dataset")
    b.artifact(w.who["alice"], "my-code", {"train.py": b"", "eval.py": b""}, kind="output")
    if "replaces" in EXAMPLES[name]:
        waits = b.submitted(w.who["alice"], b.command_body())
        Job.objects.filter(pk=waits).update(id=EXAMPLES[name]["replaces"])
    answer = w.alice.post("jobs/", EXAMPLES[name])
    assert answer.status_code == 201, answer.content


@pytest.mark.django_db
def test_the_job_that_the_page_on_programs_shows_is_accepted():
    w = world()
    b.model(w.who["alice"], "digits-0-4", 10)
    llama = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).encode()
    b.artifact(w.who["alice"], "tiny-llama", {"model.safetensors": b.tensors(), "config.json": llama,
                                              "tokenizer.json": b"{}"})  # fmt: skip
    b.artifact(w.who["alice"], "our-tasks", {"rivers.yaml": b"", "q.jsonl": b""}, kind="dataset")
    b.artifact(w.who["alice"], "my-code", {"train.py": b""}, kind="output")
    page = (settings.BASE_DIR / "docs" / "programs.md").read_text()
    (shown,) = re.findall(r"-d '(\{\s*\"kind\": .*?\})'\n", page, re.S)
    assert w.alice.post("jobs/", json.loads(shown)).status_code == 201


def test_the_line_of_sh_leaves_its_result_where_results_are_kept(tmp_path):
    bin_, out, start = (tmp_path / name for name in ("bin", "out", "start"))
    for each in (bin_, out, start):
        each.mkdir()
    (bin_ / "python").write_text("#!/bin/sh\necho 0.9\n")
    (bin_ / "python").chmod(0o700)
    line = EXAMPLES["A line of sh"]["params"]["shell"]
    env = {"PATH": f"{bin_}:/usr/bin:/bin", "EMEP_OUTPUT_DIR": str(out)}
    subprocess.run(["/bin/sh", "-c", f"exec {line}"], cwd=start, env=env, check=True)
    assert [each.name for each in (*out.iterdir(), *start.iterdir())] == ["scores.txt"]
    assert (out / "scores.txt").read_text() == "0.9\n"
