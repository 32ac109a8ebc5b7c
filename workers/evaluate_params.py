"""The parameters of an evaluation, and whether they fit its model; every reason at once. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.harness_params import HARNESS, TASKS, check_harness, harness_faults
from workers.model_families import CLASSIFY, CLASSIFY_TEXTS, LANGUAGE, TASK_WORDS, Family
from workers.param_errors import ParamError, nearest, unknown
from workers.rows_params import MODEL, ROWS_KNOWN, Checked, check_artifacts, check_rows, named_artifacts
from workers.said_back import shown

DATASET = "dataset"
KNOWN = [MODEL, DATASET, "metrics", HARNESS, TASKS, *ROWS_KNOWN]
# In the order in which they are told; the first is what the task is judged by.
OF_TASK: Mapping[str, tuple[str, ...]] = {
    CLASSIFY: ("accuracy", "loss"),
    LANGUAGE: ("perplexity", "bits_per_byte", "loss"),
    CLASSIFY_TEXTS: ("accuracy", "loss"),
}
METRICS = tuple(dict.fromkeys(name for names in OF_TASK.values() for name in names))


def check_evaluate(params: Mapping[str, Any]) -> Checked:
    """The parameters with their defaults, and everything wrong with them (empty when they can run)."""
    errors = unknown(params, KNOWN, "evaluate")
    clean: dict[str, Any] = {}
    artifacts = check_artifacts(params, {MODEL: "model", DATASET: "data set"})
    for more, wrong in (artifacts, _metrics(params), check_harness(params), check_rows(params)):
        clean |= more
        errors += wrong
    return clean, errors


def evaluate_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Both artifacts that an evaluation names: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    return named_artifacts(params, (MODEL, DATASET))


def chosen_metrics(clean: Mapping[str, Any], task: str) -> list[str]:
    """The metrics of the task that were asked for, in the order of the checked parameters; all where none were."""
    return [name for name in clean.get("metrics") or OF_TASK[task] if name in OF_TASK[task]]


def metric_faults(family: Family, clean: Mapping[str, Any]) -> list[ParamError]:
    """The metrics that were asked for and are those of another task, or a harness that evaluates no such model."""
    if clean.get(HARNESS) is not None:
        return harness_faults(family)
    own = OF_TASK.get(family.task)
    if own is None:
        message = f"{TASK_WORDS[family.task]}, such as {family.name}, have no metric: run it over rows (kind infer)"
        return [ParamError("params.model", "mismatch", message, list(OF_TASK))]
    foreign = [name for name in clean.get("metrics") or () if name not in own]
    if not foreign:
        return []
    message = (
        f"{', '.join(foreign)} can't be told of the architecture {family.name}: {TASK_WORDS[family.task]} have "
        f"{', '.join(own)}"
    )
    return [ParamError("params.metrics", "mismatch", message, list(own))]


def _metrics(params: Mapping[str, Any]) -> Checked:
    given = params.get("metrics")
    if given is None:
        return {}, []
    if not isinstance(given, (list, tuple)) or not given:
        message = f"metrics must be a list of some of {', '.join(METRICS)}, not {shown(given)}; without it all are told"
        return {}, [ParamError("params.metrics", "not_a_list", message, list(METRICS))]
    errors = [
        ParamError(f"params.metrics.{place}", "unknown_metric", f"there is no metric {shown(name)}"
                   f"{nearest(str(name), METRICS)}; choose of {', '.join(METRICS)}", list(METRICS))
        for place, name in enumerate(given) if name not in METRICS
    ]  # fmt: skip
    known = [name for name in METRICS if name in given]
    if not errors and len(known) < len(given):
        message = "metrics names one twice: give each once"
        errors.append(ParamError("params.metrics", "twice", message, known))
    if known and not errors and not any(set(known) <= set(names) for names in OF_TASK.values()):
        told = "; ".join(f"of {TASK_WORDS[task]} {', '.join(names)}" for task, names in OF_TASK.items())
        message = f"metrics {', '.join(known)} are of no one kind of model: {told}"
        errors.append(ParamError("params.metrics", "mismatch", message, list(METRICS)))
    return {"metrics": known}, errors
