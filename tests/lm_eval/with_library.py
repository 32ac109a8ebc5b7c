"""Jobs that evaluate by tasks of lm-eval, with the library itself: ``make lm-eval`` runs them.

What they measure is compared with what the library measures by a model of its own of the same files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import transformers
from lm_eval.models.huggingface import HFLM

from tests.lm_eval.task_files import CHOICES, QUESTIONS, SAID, WHOLE, written
from tests.workers.engines.huggingface import language_model
from tests.workers.kinds.builders import PARENTS, Job
from tests.workers.kinds.builders import written as job_in
from tests.workers.kinds.disturbed import several_devices_leave_the_same, stopped_after_every_batch_leaves_the_same
from tests.workers.kinds.test_evaluate_job import measured, refused, rows
from workers.engines import harness

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own


def evaluation(directory: Path, *documents: dict[str, Any], kind: str = "llama", **params: Any) -> Job:
    language_model(directory / "inputs" / "model", kind, eos_token_id=1, max_position_embeddings=64)
    written(directory / "inputs" / "dataset", *documents)
    named = dict(zip(("model", "dataset"), PARENTS, strict=True))
    asked = {"model": "net", "dataset": "tests", "harness": "lm-eval", "batch_size": 4, **params}
    return job_in(directory, "evaluate", asked, named)


def by_the_library(job: Job, document: dict[str, Any], monkeypatch: Any) -> dict[str, float]:
    """What its own evaluation says of the model and the task, a request at a time."""
    inputs = job.directory / "inputs"
    monkeypatch.chdir(inputs / "dataset")
    model = transformers.AutoModelForCausalLM.from_pretrained(inputs / "model").eval()
    words = transformers.AutoTokenizer.from_pretrained(inputs / "model")
    lm = HFLM(pretrained=model, tokenizer=words, backend="causal", batch_size=1)
    document = json.loads(json.dumps(document))
    document["dataset_kwargs"]["cache_dir"] = str(job.directory / "theirs")
    found = lm_eval.simple_evaluate(lm, tasks=[document], bootstrap_iters=0)["results"][document["task"]]
    return {name: value for name, value in found.items() if "," in name and "_stderr" not in name}


@pytest.mark.parametrize(
    ("document", "kind"), [(CHOICES, "llama"), (CHOICES, "bloom"), (WHOLE, "llama"), (SAID, "llama")]
)
def test_a_task_measures_what_the_library_does_by_itself(document, kind, tmp_path: Path, monkeypatch) -> None:
    job = evaluation(tmp_path, document, kind=kind)
    assert job.run() == 0
    theirs = by_the_library(job, document, monkeypatch)
    ours = measured(job)["metrics"]
    assert {name.removeprefix(f"{document['task']}/") for name in ours} == {n.removesuffix(",none") for n in theirs}
    for name, value in theirs.items():
        found = ours[f"{document['task']}/{name.removesuffix(',none')}"]
        assert found == pytest.approx(value, rel=1e-4)


def test_a_job_tells_the_metrics_of_each_task_and_keeps_each_sample(tmp_path: Path) -> None:
    job = evaluation(tmp_path, CHOICES, WHOLE, SAID, tasks=["speech", "rivers"], limit=5)
    assert job.run() == 0
    found = measured(job)
    assert list(found["metrics"]) == sorted(
        ["rivers/acc", "rivers/acc_norm", "speech/bits_per_byte", "speech/byte_perplexity", "speech/word_perplexity"]
    )
    assert (found["counts"], found["tasks"]["rivers"]) == (
        {"samples": 10, "not_finite": 0}, {"samples": 5, "version": "Yaml", "num_fewshot": 1, "file": "0.yaml"},
    )  # fmt: skip
    kept = rows(job)
    assert [(row["index"], row["task"], row["doc_id"]) for row in kept] == [
        (n, "speech" if n < 5 else "rivers", n % 5) for n in range(10)
    ]
    assert math.fsum(row["metrics"]["acc"] for row in kept[5:]) / 5 == found["metrics"]["rivers/acc"]
    assert {row["target"] for row in kept[5:]} == {row["label"] for row in QUESTIONS[:5]}
    told = {e["name"]: (e["step"], e["value"]) for e in job.events if e["type"] == "metric"}
    assert told == {name: (5, value) for name, value in found["metrics"].items()}
    (announced,) = [e for e in job.events if e["type"] == "artifact"]
    assert (announced["kind"], announced["meta"]["metrics"]) == ("eval", found["metrics"])
    assert found["engine_version"].endswith(f", lm_eval {lm_eval.__version__}")


def test_stopped_after_every_batch_it_leaves_the_bytes_of_an_undisturbed_one(tmp_path: Path, monkeypatch) -> None:
    stopped_after_every_batch_leaves_the_same(lambda at: evaluation(at, CHOICES, SAID, WHOLE), tmp_path, monkeypatch)


def test_several_devices_leave_the_bytes_of_one(tmp_path: Path, monkeypatch) -> None:
    several_devices_leave_the_same(lambda at: evaluation(at, CHOICES, WHOLE), tmp_path, 3, monkeypatch)


def test_an_answer_that_is_no_number_is_counted_and_its_task_has_no_metrics(tmp_path: Path, monkeypatch) -> None:
    job = evaluation(tmp_path, CHOICES, WHOLE)
    asked = harness._asked
    monkeypatch.setattr(harness, "_asked", lambda reader, kind, requests: [
        (math.nan, False) if kind == "loglikelihood" and r.doc_id == 3 else a
        for r, a in zip(requests, asked(reader, kind, requests), strict=True)
    ])  # fmt: skip
    assert job.run() == 0
    found = measured(job)
    assert found["counts"] == {"samples": 14, "not_finite": 3}
    assert {name for name, value in found["metrics"].items() if value is None} == {"rivers/acc", "rivers/acc_norm"}
    assert ("not_finite", 3) in {(e.get("name"), e.get("value")) for e in job.events}


ESCAPE = "{{ q.__class__.__mro__[1].__subclasses__() }}"


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"doc_to_text": ESCAPE}, "unreadable_task", "__class__"),
        ({"doc_to_text": "{{ cycler.__init__ }}"}, "unreadable_task", "'__init__' of 'type' object is unsafe"),
        ({"doc_to_text": "{{ nothing }}"}, "unreadable_task", "'nothing' is undefined"),
        ({"doc_to_target": "nothing_{{ q"}, "unreadable_task", "0.yaml: lm-eval can't build rivers"),
        ({"doc_to_choice": ["", "b", "c"]}, "unreadable_task", "string index out of range"),
    ],
)  # fmt: skip
def test_what_the_library_can_not_do_is_refused_by_its_name(changed, code, words, tmp_path: Path, capsys) -> None:
    found, event, _ = refused(evaluation(tmp_path, {**CHOICES, **changed}), capsys)
    assert (found, event["code"]) == (2, code), event
    assert words in event["message"]


def test_a_request_that_the_model_can_not_take_is_refused_with_its_samples(tmp_path: Path, capsys) -> None:
    long = {**SAID, "generation_kwargs": {"until": ["."], "max_gen_toks": 64}}
    found, event, _ = refused(evaluation(tmp_path, long), capsys)
    assert (found, event["code"]) == (2, "unfit_sample"), event
    assert "the samples 0 of said to 3 of said can't be read" in event["message"]


def test_a_data_file_that_is_none_is_refused(tmp_path: Path, capsys) -> None:
    job = evaluation(tmp_path, CHOICES)
    (tmp_path / "inputs" / "dataset" / "q.jsonl").write_text('{"q": 1\n')
    found, event, _ = refused(job, capsys)
    assert (found, event["code"]) == (2, "unreadable_task")
    assert "lm-eval can't build rivers" in event["message"]


def test_more_metrics_than_are_taken_are_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(harness, "MAX_METRICS", 1)
    found, event, _ = refused(evaluation(tmp_path, CHOICES), capsys)
    assert (found, event["code"]) == (2, "too_many_metrics")
    assert (
        "the tasks have 2 metrics with names of 25 characters, at most 1 and 1200 are taken: name fewer"
        in event["message"]
    )
