"""What a task file of lm-eval may say: data beside it, templates and the library's own metrics, and no code.

Standard library only. A key that is not known here is refused by its name, since the library runs some of them as
Python or fetches what they name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.harness_params import METRICS, is_name
from workers.param_errors import ParamError, nearest
from workers.rows_params import some
from workers.said_back import shown

SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
EVALUATED = ("test_split", "validation_split")
OUTPUTS = ("multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until")
READER = "json"
KNOWN = (
    "task", "task_alias", "tag", "include", "dataset_path", "dataset_kwargs", *SPLITS, "doc_to_text", "doc_to_target",
    "doc_to_choice", "description", "target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot",
    "metric_list", "output_type", "generation_kwargs", "filter_list", "gen_prefix", "metadata",
)  # fmt: skip
METRIC_KEYS = (
    "metric", "aggregation", "higher_is_better", "ignore_case", "ignore_punctuation", "ignore_numbers",
    "regexes_to_ignore",
)  # fmt: skip
AGGREGATIONS = (
    "mean", "nanmean", "median", "perplexity", "weighted_perplexity", "bits_per_byte", "f1", "matthews_corrcoef",
    "bleu", "chrf", "chrf++", "ter", "brier_score",
)  # fmt: skip
FILTERS = (
    "take_first", "take_first_k", "majority_vote", "regex", "multi_choice_regex", "remove_whitespace", "lowercase",
    "uppercase", "map",
)  # fmt: skip
GENERATION = ("until", "max_gen_toks", "do_sample", "temperature")
SAMPLERS = ("default", "first_n")
FEWSHOT = ("sampler", "split")
MAX_FEWSHOT = 1000
_FIELD = "params.dataset"


def task_faults(document: Mapping[str, Any], file: str) -> list[ParamError]:
    """Everything in the document of ``file`` that keeps it from being a task here; includes are merged into it."""
    return [ParamError(_FIELD, code, f"{file}: {message}") for code, message in _faults(document)]


def data_files(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files of each split as a right task names them."""
    given = document["dataset_kwargs"]["data_files"]
    by_split = given if isinstance(given, Mapping) else {"train": given}
    return {split: [files] if isinstance(files, str) else list(files) for split, files in by_split.items()}


def _faults(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in document:
        if key not in KNOWN:
            hint = nearest(str(key), KNOWN)
            yield "unsupported_key", f"{shown(key)} is not taken{hint}; a task has {', '.join(KNOWN)}"
    if not is_name(document.get("task")):
        yield "not_a_name", f"task must be a name of letters, digits, dots, _ and -, not {shown(document.get('task'))}"
    if document.get("output_type", OUTPUTS[-1]) not in OUTPUTS:
        told = shown(document["output_type"])
        yield "unknown_output_type", f"output_type must be one of {', '.join(OUTPUTS)}, not {told}"
    shots = document.get("num_fewshot")
    if shots is not None and not (type(shots) is int and 0 <= shots <= MAX_FEWSHOT):
        yield "out_of_range", f"num_fewshot must be a whole number from 0 to {MAX_FEWSHOT}, not {shown(shots)}"
    yield from _data(document)
    yield from _metrics(document.get("metric_list"))
    yield from _filters(document.get("filter_list"))
    yield from _generation(document.get("generation_kwargs"))
    yield from _fewshot(document.get("fewshot_config"))


def _data(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if document.get("dataset_path") != READER:
        yield (
            "unsupported_dataset",
            (
                f"dataset_path must be {READER}, which reads JSON lines beside the task, not"
                f" {shown(document.get('dataset_path'))}: nothing is fetched"
            ),
        )
    given = document.get("dataset_kwargs")
    files = given.get("data_files") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or set(given) != {"data_files"} or not _is_files(files):
        yield (
            "unsupported_dataset",
            (
                "dataset_kwargs must be data_files alone, each split's file, such as {data_files: {test: q.jsonl}},"
                f" not {shown(given)}"
            ),
        )
        return
    splits = set(data_files(document))
    named = {split: document[split] for split in SPLITS if document.get(split) is not None}
    if not any(split in named for split in EVALUATED):
        yield "required", f"one of {' and '.join(EVALUATED)} must say which of data_files is evaluated"
    for key, split in named.items():
        if not isinstance(split, str) or split not in splits:
            yield "no_such_split", f"{key} is {shown(split)}, which data_files has not; it has {some(sorted(splits))}"


def _is_files(given: Any) -> bool:
    def is_one(files: Any) -> bool:
        several = isinstance(files, list) and bool(files) and all(isinstance(each, str) and each for each in files)
        return several or (isinstance(files, str) and bool(files))

    if isinstance(given, Mapping):
        return bool(given) and all(isinstance(split, str) and is_one(files) for split, files in given.items())
    return is_one(given)


def _metrics(given: Any) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, list) or not given or not all(isinstance(each, Mapping) for each in given):
        yield "not_a_list", f"metric_list must be a list of objects with a metric each, not {shown(given)}"
        return
    for each in given:
        name, better = each.get("metric"), each.get("higher_is_better")
        if not isinstance(name, str) or name not in METRICS:
            hint = nearest(str(name), tuple(METRICS))
            yield "unknown_metric", f"there is no metric {shown(name)}{hint}; choose of {', '.join(METRICS)}"
            continue
        if better is not None and better is not METRICS[name]:
            yield "mismatch", f"higher_is_better of {name} is {str(METRICS[name]).lower()}, not {shown(better)}"
        yield from _one_of(each.get("aggregation", AGGREGATIONS[0]), AGGREGATIONS, f"aggregation of {name}")
        yield from _only(each, METRIC_KEYS, f"metric {name}")
    names = [each.get("metric") for each in given]
    if any(names.count(name) > 1 for name in names):
        yield "twice", "metric_list names one twice: give each once"


def _filters(given: Any) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, list) or not given or not all(isinstance(each, Mapping) for each in given):
        yield "not_a_list", f"filter_list must be a list of objects with name and filter, not {shown(given)}"
        return
    for each in given:
        if not is_name(each.get("name")):
            yield "not_a_name", f"a filter of filter_list must have a name, not {shown(each.get('name'))}"
        yield from _only(each, ("name", "filter"), "filter_list")
        steps = each.get("filter")
        if not isinstance(steps, list) or not steps or not all(isinstance(step, Mapping) for step in steps):
            yield "not_a_list", f"filter of filter_list must be a list of objects with a function, not {shown(steps)}"
            continue
        for step in steps:
            yield from _one_of(step.get("function"), FILTERS, "function of a filter")


def _generation(given: Any) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield "not_an_object", f"generation_kwargs must be an object, not {shown(given)}"
        return
    yield from _only(given, GENERATION, "generation_kwargs")
    if given.get("do_sample") not in (None, False) or given.get("temperature") not in (None, 0):
        yield (
            "unsupported_sampling",
            "an answer that is drawn is another one each time: leave do_sample and temperature out",
        )
    most = given.get("max_gen_toks")
    if most is not None and not (type(most) is int and most > 0):
        yield "out_of_range", f"max_gen_toks must be a whole number above 0, not {shown(most)}"


def _fewshot(given: Any) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield "not_an_object", f"fewshot_config must be an object, not {shown(given)}"
        return
    yield from _only(given, FEWSHOT, "fewshot_config")
    yield from _one_of(given.get("sampler", SAMPLERS[0]), SAMPLERS, "sampler of fewshot_config")


def _only(given: Mapping[str, Any], known: Sequence[str], what: str) -> Iterator[tuple[str, str]]:
    for key in given:
        if key not in known:
            yield "unsupported_key", f"{shown(key)} of {what} is not taken; it has {', '.join(known)}"


def _one_of(value: Any, known: Sequence[str], what: str) -> Iterator[tuple[str, str]]:
    if value not in known:
        yield "unknown_name", f"{what} must be one of {', '.join(known)}, not {shown(value)}"
