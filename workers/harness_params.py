"""Evaluations by the tasks of lm-eval: what may be asked, and what their metrics are. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from workers.model_families import LANGUAGE, Family
from workers.param_errors import ParamError, nearest
from workers.rows_params import Checked, some
from workers.said_back import shown

HARNESS = "harness"
TASKS = "tasks"
LM_EVAL = "lm-eval"
HARNESSES = (LM_EVAL,)
# Of the rows of a data set alone: a task says itself what it reads and measures, its model what it is.
NOT_WITH = ("metrics", "file", "architecture")
MAX_TASKS = 20
MAX_NAME = 60
TASK_FILES = (".yaml", ".yml")
# Whether a higher one is better, by the library's names.
METRICS: Mapping[str, bool] = {
    "acc": True, "acc_norm": True, "acc_bytes": True, "acc_mutual_info": True, "acc_all": True, "exact_match": True,
    "f1": True, "mcc": True, "likelihood": True, "brier_score": False, "perplexity": False, "word_perplexity": False,
    "byte_perplexity": False, "bits_per_byte": False, "bleu": True, "chrf": True, "chrf++": True, "ter": False,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")


def is_name(value: Any) -> bool:
    """Whether it may name a task: it becomes part of the names of metrics."""
    return isinstance(value, str) and len(value) <= MAX_NAME and _NAME.fullmatch(value) is not None


def metric_name(task: str, metric: str, filtered: str) -> str:
    """What a metric of a task is called; ``filtered`` names the filter of the answers, "none" where there is one
    alone."""
    return f"{task}/{metric}" if filtered == "none" else f"{task}/{metric},{filtered}"


def is_of_harness(metric: str) -> bool:
    """Whether a metric of this name is one of a task."""
    task, _, rest = metric.partition("/")
    return is_name(task) and rest.split(",")[0] in METRICS


def is_higher_better(metric: str) -> bool:
    """Whether a higher value of a task's metric, by its whole name, is better."""
    return METRICS.get(metric.partition("/")[2].split(",")[0], False)


def check_harness(params: Mapping[str, Any]) -> Checked:
    """``harness`` and ``tasks`` as they are kept, and everything wrong with them; nothing where neither is given."""
    given, tasks = params.get(HARNESS), params.get(TASKS)
    if given is None:
        if tasks is None:
            return {}, []
        message = f"{TASKS} are those of a harness: give {HARNESS} {LM_EVAL}, or leave them out"
        return {TASKS: tasks}, [ParamError(f"params.{TASKS}", "mismatch", message, list(HARNESSES))]
    errors = []
    if given not in HARNESSES:
        message = f"{HARNESS} must be {LM_EVAL}, not {shown(given)}; without it the rows of the data set are evaluated"
        errors.append(ParamError(f"params.{HARNESS}", "unknown_harness", message, list(HARNESSES)))
    for name in NOT_WITH:
        if params.get(name) is not None:
            message = f"{name} can't be said of tasks of {LM_EVAL}, whose files say it: leave it out"
            errors.append(ParamError(f"params.{name}", "mismatch", message))
    named, wrong = _tasks(tasks)
    return {HARNESS: given, **named}, errors + wrong


def harness_faults(family: Family) -> list[ParamError]:
    """What keeps a model of this family from being evaluated by tasks of lm-eval."""
    if family.library and family.task == LANGUAGE:
        return []
    message = f"{LM_EVAL} evaluates causal language models of Hugging Face, and this is one of {family.name}"
    return [ParamError("params.model", "mismatch", f"{message}: leave {HARNESS} out, or give such a model")]


def task_file_faults(paths: Iterable[str], dataset: str, field: str) -> list[ParamError]:
    """What the names of a data set's files tell: without any task file there is nothing to do."""
    names = sorted(paths)
    if any(is_task_file(name) for name in names):
        return []
    message = (
        f"{shown(dataset)} has no task file of {LM_EVAL} that ends in {' or '.join(TASK_FILES)}: its files are"
        f" {some(names)}"
    )
    return [ParamError(field, "no_task_file", message, list(TASK_FILES))]


def is_task_file(path: str) -> bool:
    """Whether a file of this name may hold a task."""
    return path.lower().endswith(TASK_FILES)


def _tasks(given: Any) -> Checked:
    if given is None:
        return {}, []
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MAX_TASKS:
        said = f"{len(given)}" if isinstance(given, (list, tuple)) else shown(given)
        message = f"{TASKS} must list 1 to {MAX_TASKS} names of tasks, not {said}; without it all of the files are done"
        code = "out_of_range" if isinstance(given, (list, tuple)) else "not_a_list"
        return {TASKS: given}, [ParamError(f"params.{TASKS}", code, message, [1, MAX_TASKS])]
    errors = [
        ParamError(f"params.{TASKS}.{place}", "not_a_name", f"{shown(name)} names no task: give 1 to {MAX_NAME} "
                   "letters, digits, dots, _ and -, a letter or digit first", MAX_NAME)
        for place, name in enumerate(given) if not is_name(name)
    ]  # fmt: skip
    if not errors and len(set(given)) < len(given):
        errors.append(ParamError(f"params.{TASKS}", "twice", f"{TASKS} names one twice: give each once", list(given)))
    return {TASKS: list(given)}, errors


def no_such_task(name: str, known: list[str], dataset: str) -> ParamError:
    """The refusal of a task that no file defines."""
    told = f"its tasks are {some(known)}" if known else "it has none"
    message = f"{shown(dataset)} has no task {shown(name)}{nearest(name, known)}; {told}"
    return ParamError(f"params.{TASKS}", "no_such_task", message, known[:MAX_TASKS])
