"""What may be asked of an evaluation by tasks, and what a task file may say: every refusal with its words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lm_eval.task_files import CHOICES, SAID, WHOLE
from tests.workers.engines.evaluations import DECODER
from workers.catalog import KINDS, check_params
from workers.evolve_params import OF_OBJECTIVE
from workers.harness_params import (
    MAX_NAME,
    MAX_TASKS,
    is_higher_better,
    is_of_harness,
    metric_name,
    task_file_faults,
)
from workers.harness_tasks import data_files, task_faults
from workers.huggingface_families import architecture_of_theirs
from workers.model_families import architecture

RIGHT = {"model": "m", "dataset": "d", "harness": "lm-eval"}


def told(**params: Any) -> list[tuple[str, str, str]]:
    """(field, code, message) of everything wrong."""
    return [(e.field, e.code, e.message) for e in check_params("evaluate", {**RIGHT, **params})[1]]


def test_the_tasks_are_kept_in_their_order() -> None:
    assert check_params("evaluate", {**RIGHT, "tasks": ["b", "a-1.x_y"], "limit": 3}) == (
        {**RIGHT, "tasks": ["b", "a-1.x_y"], "batch_size": 32, "limit": 3}, []
    )  # fmt: skip
    assert check_params("evaluate", RIGHT) == ({**RIGHT, "batch_size": 32}, [])


@pytest.mark.parametrize(
    ("changed", "field", "code", "words"),
    [
        ({"harness": "lighteval"}, "params.harness", "unknown_harness", "harness must be lm-eval, not 'lighteval'"),
        ({"harness": ["lm-eval"]}, "params.harness", "unknown_harness", 'not ["lm-eval"]'),
        ({"harness": None, "tasks": ["a"]}, "params.tasks", "mismatch", "give harness lm-eval, or leave them out"),
        ({"metrics": ["loss"]}, "params.metrics", "mismatch", "metrics can't be said of tasks of lm-eval"),
        ({"file": "a.jsonl"}, "params.file", "mismatch", "whose files say it: leave it out"),
        ({"architecture": DECODER}, "params.architecture", "mismatch", "leave it out"),
        ({"tasks": "a"}, "params.tasks", "not_a_list", f"must list 1 to {MAX_TASKS} names of tasks, not 'a'"),
        ({"tasks": []}, "params.tasks", "out_of_range", "not 0; without it all of the files are done"),
        ({"tasks": ["a"] * 21}, "params.tasks", "out_of_range", "not 21"),
        ({"tasks": ["a", "b/c"]}, "params.tasks.1", "not_a_name", f"'b/c' names no task: give 1 to {MAX_NAME} letters"),
        ({"tasks": ["a" * 61]}, "params.tasks.0", "not_a_name", "a letter or digit first"),
        ({"tasks": [3]}, "params.tasks.0", "not_a_name", "3 names no task"),
        ({"tasks": ["a", "a"]}, "params.tasks", "twice", "tasks names one twice: give each once"),
    ],
)  # fmt: skip
def test_each_refusal_names_the_field_the_limit_and_what_to_do(changed, field, code, words) -> None:
    found = told(**changed)
    assert [(f, c) for f, c, _ in found] == [(field, code)]
    assert words in found[0][2]


def test_only_causal_language_models_of_hugging_face_fit() -> None:
    fits = KINDS["evaluate"].fits
    theirs, _, _ = architecture_of_theirs({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    other, _, _ = architecture_of_theirs({"architectures": ["BertForSequenceClassification"], "model_type": "bert"})
    own, _, _ = architecture(DECODER, "params.architecture", strict=True)
    assert fits(theirs, RIGHT) == []
    for family in (other, own):
        (error,) = fits(family, RIGHT)
        assert (error.field, error.code) == ("params.model", "mismatch")
        assert f"and this is one of {family.name}: leave harness out, or give such a model" in error.message


def test_a_data_set_without_a_task_file_is_refused() -> None:
    assert task_file_faults(["a.jsonl", "x/b.YAML"], "d", "params.dataset") == []
    (error,) = task_file_faults(["a.jsonl"], "d", "params.dataset")
    assert (error.field, error.code) == ("params.dataset", "no_task_file")
    assert error.message == "'d' has no task file of lm-eval that ends in .yaml or .yml: its files are a.jsonl"


def test_a_search_has_no_harness() -> None:
    assert not {"harness", "tasks"} & set(OF_OBJECTIVE)


def test_a_metric_is_named_by_its_task_and_knows_which_way_is_better() -> None:
    assert metric_name("a", "acc", "none") == "a/acc"
    assert metric_name("a", "exact_match", "strict") == "a/exact_match,strict"
    assert [is_of_harness(n) for n in ("a/acc", "a/exact_match,strict", "acc", "a/nothing", "/acc")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert [is_higher_better(n) for n in ("a/acc", "a/chrf++", "a/ter", "a/word_perplexity,x")] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("document", [CHOICES, WHOLE, SAID])
def test_right_tasks_have_no_fault(document) -> None:
    assert task_faults(document, "0.yaml") == []


def test_the_files_of_a_split_are_a_list() -> None:
    assert data_files(CHOICES) == {"test": ["q.jsonl"], "train": ["q.jsonl"]}
    assert data_files({"dataset_kwargs": {"data_files": "a.json"}}) == {"train": ["a.json"]}


FILES = {"dataset_kwargs": {"data_files": {"test": "q.jsonl"}}, "fewshot_split": None}


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"process_docs": "x"}, "unsupported_key", "'process_docs' is not taken"),
        ({"num_fewshots": 1}, "unsupported_key", "'num_fewshots' is not taken (did you mean 'num_fewshot'?)"),
        ({3: 1}, "unsupported_key", "3 is not taken"),
        ({"task": "a b"}, "not_a_name", "task must be a name of letters, digits, dots, _ and -, not 'a b'"),
        ({"output_type": "chat"}, "unknown_output_type", "one of multiple_choice, loglikelihood, "),
        ({"num_fewshot": -1}, "out_of_range", "a whole number from 0 to 1000, not -1"),
        ({"dataset_path": "wikitext"}, "unsupported_dataset", "dataset_path must be json, which reads JSON lines"),
        ({"dataset_kwargs": {"trust_remote_code": True}}, "unsupported_dataset", "must be data_files alone"),
        ({"dataset_kwargs": {"data_files": {"test": []}}}, "unsupported_dataset", "data_files alone"),
        ({"dataset_kwargs": None}, "unsupported_dataset", "not null"),
        ({"test_split": None}, "required", "one of test_split and validation_split must say which"),
        ({"test_split": "dev"}, "no_such_split", "test_split is 'dev', which data_files has not; it has test, train"),
        ({"test_split": [1]}, "no_such_split", "test_split is [1]"),
        ({"metric_list": "acc"}, "not_a_list", "metric_list must be a list of objects with a metric each"),
        ({"metric_list": [{"metric": "accuracy"}]}, "unknown_metric", "there is no metric 'accuracy'"),
        ({"metric_list": [{"metric": []}]}, "unknown_metric", "there is no metric []"),
        ({"metric_list": [{"metric": "acc", "hf_evaluate": True}]}, "unsupported_key", "'hf_evaluate' of metric acc"),
        ({"metric_list": [{"metric": "acc", "aggregation": "os:x"}]}, "unknown_name", "aggregation of acc must be one"),
        ({"metric_list": [{"metric": "acc", "higher_is_better": False}]}, "mismatch", "of acc is true, not false"),
        ({"metric_list": [{"metric": "acc"}, {"metric": "acc"}]}, "twice", "metric_list names one twice"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "custom"}]}]}, "unknown_name", "function of a filter"),
        ({"filter_list": [{"name": "x", "filter": []}]}, "not_a_list", "objects with a function, not []"),
        ({"filter_list": [{"name": "a,b", "filter": [{"function": "regex"}]}]}, "not_a_name", "must have a name"),
        ({"filter_list": {}}, "not_a_list", "filter_list must be a list of objects"),
        ({"generation_kwargs": {"do_sample": True}}, "unsupported_sampling", "an answer that is drawn is another"),
        ({"generation_kwargs": {"temperature": 0.7}}, "unsupported_sampling", "leave do_sample and temperature out"),
        ({"generation_kwargs": {"num_beams": 4}}, "unsupported_key", "'num_beams' of generation_kwargs is not taken"),
        ({"generation_kwargs": {"max_gen_toks": 0}}, "out_of_range", "a whole number above 0, not 0"),
        ({"generation_kwargs": 3}, "not_an_object", "generation_kwargs must be an object, not 3"),
        ({"fewshot_config": {"samples": "x"}}, "unsupported_key", "'samples' of fewshot_config is not taken"),
        ({"fewshot_config": {"sampler": "a:b"}}, "unknown_name", "one of default, first_n, not 'a:b'"),
        ({"fewshot_config": "x"}, "not_an_object", "fewshot_config must be an object"),
    ],
)  # fmt: skip
def test_what_a_task_may_not_say_is_refused_by_its_name(changed, code, words) -> None:
    (error,) = task_faults({**CHOICES, **changed}, "x/0.yaml")
    assert (error.field, error.code) == ("params.dataset", code)
    assert error.message.startswith("x/0.yaml: ")
    assert words in error.message
