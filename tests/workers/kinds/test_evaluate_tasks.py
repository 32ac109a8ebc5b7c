"""An evaluation by tasks without the library: what a node without it says, and what becomes of the library's results in
the shape that it documents."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.lm_eval.task_files import CHOICES, written
from tests.workers.engines.huggingface import language_model
from tests.workers.kinds.builders import PARENTS
from tests.workers.kinds.builders import written as job_in
from tests.workers.kinds.test_evaluate_job import refused
from workers.engines.harness import Tasks, scored
from workers.engines.harness_files import TaskFile


def test_a_node_without_the_library_is_told_with_all_else_that_is_wrong(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    language_model(tmp_path / "inputs" / "model")
    written(tmp_path / "inputs" / "dataset", {**CHOICES, "dataset_path": "wikitext"})
    named = dict(zip(("model", "dataset"), PARENTS, strict=True))
    job = job_in(tmp_path, "evaluate", {"model": "net", "dataset": "tests", "harness": "lm-eval"}, named)
    code, event, said = refused(job, capsys)
    assert (code, [p["code"] for p in event["details"]["problems"]]) == (2, ["missing_extra", "unsupported_dataset"])
    assert "install requirements/lm-eval.txt there" in said
    assert job.made == {}


SAMPLE = {
    "doc_id": 0, "doc": {"q": "x"}, "target": 2, "arguments": [("x", " a")], "resps": [[(-1.5, False)]],
    "filtered_resps": [(-1.5, False)], "filter": "none", "metrics": ["acc"], "doc_hash": "d", "prompt_hash": "p",
    "target_hash": "t", "acc": 1.0,
}  # fmt: skip


def library(monkeypatch: pytest.MonkeyPatch, asks: list[tuple[str, tuple[Any, ...]]]) -> None:
    """A library that asks for these requests and answers as ``result_schema.py`` of lm-eval 0.4.13 says."""
    modules = {name: ModuleType(name) for name in ("lm_eval", *(f"lm_eval.{n}" for n in ("api", "evaluator")),
                                                   "lm_eval.api.task", "lm_eval.api.model")}  # fmt: skip

    def evaluate(lm: Any, task_dict: Any, **options: Any) -> dict[str, Any]:
        for kind in dict.fromkeys(kind for kind, _ in asks):
            getattr(lm, kind)([SimpleNamespace(args=args) for each, args in asks if each == kind])
        assert (options["log_samples"], list(task_dict["tasks"])) == (True, ["rivers"])
        return {
            "results": {"rivers": {"name": "rivers", "alias": "rivers", "sample_len": 2, "acc,none": 0.5,
                                   "acc_stderr,none": "N/A", "exact_match,strict": math.inf,
                                   "exact_match_stderr,strict": 0.1}},
            "versions": {"rivers": 1.0}, "n-shot": {"rivers": 2},
            "n-samples": {"rivers": {"original": 9, "effective": 2}},
            "samples": {"rivers": [{**SAMPLE, "doc_id": 1, "acc": math.nan}, SAMPLE]},
        }  # fmt: skip

    task = SimpleNamespace(get_config=lambda key: 2, set_fewshot_seed=lambda seed: None)
    modules["lm_eval.evaluator"].evaluate = evaluate  # type: ignore[attr-defined]
    modules["lm_eval.api.task"].ConfigurableTask = lambda config: task  # type: ignore[attr-defined]
    modules["lm_eval.api.model"].LM = object  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def tasks(*requests: tuple[str, tuple[Any, ...]]) -> Tasks:
    file = TaskFile("rivers", "0.yaml", {**CHOICES})
    made = (SimpleNamespace(request_type=kind, args=args, task_name="rivers") for kind, args in requests)
    return Tasks((file,), None, Path("/nowhere"), "lm_eval 0", tuple(made))


ASKED = [("loglikelihood", ("x", " a")), ("generate_until", ("x", {})), ("loglikelihood_rolling", ("x",))]


def test_the_librarys_results_become_metrics_and_a_row_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, ASKED)
    answers = [{"answer": [-1.5, True]}, {"answer": {"text": "b"}}, {"answer": "-inf"}]
    found = scored(tasks(*ASKED), iter(answers))
    assert found.metrics == {"rivers/acc": 0.5, "rivers/exact_match,strict": None}
    assert found.stderr == {"rivers/acc": None, "rivers/exact_match,strict": 0.1}
    assert (found.samples, found.not_finite) == ({"rivers": 2}, 0)
    assert found.about == {"rivers": {"version": 1.0, "num_fewshot": 2, "file": "0.yaml"}}
    assert found.rows == [
        {"index": n, "task": "rivers", "doc_id": n, "filter": "none", "target": 2, "answers": [[-1.5, False]],
         "metrics": {"acc": value}, "doc_hash": "d", "prompt_hash": "p"}
        for n, value in ((0, 1.0), (1, None))
    ]  # fmt: skip


def test_an_answer_that_is_no_number_leaves_its_task_without_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, ASKED[:1])
    found = scored(tasks(ASKED[0]), iter([{"answer": ["nan", False]}]))
    assert (set(found.metrics.values()), found.not_finite) == ({None}, 1)


def test_answers_are_given_to_no_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, ASKED[:1])
    with pytest.raises(Exception, match="the library asks another loglikelihood than before"):
        scored(tasks(("loglikelihood", ("y", " a"))), iter([{"answer": [-1.0, True]}]))
