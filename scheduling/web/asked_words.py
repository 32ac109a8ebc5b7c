"""What was asked for, as its page tells it: a row for each thing that was asked, and none for what was not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduling.core.fields import ALIASES
from scheduling.services import recipes
from scheduling.web.metric_words import METRIC_WORDS
from scheduling.web.people_words import label
from scheduling.web.wording import gb, limit
from workers.evolve_params import DATASET, TEST
from workers.evolve_space import ALL, GROUP, LAYER
from workers.harness_params import HARNESS, TASKS
from workers.merge_recipe import BASE_INPUT, recipe_of
from workers.merge_settings import is_filters, varies
from workers.merge_strategies import GRANULARITIES, RESCALES, STRATEGIES
from workers.merge_values import RULES
from workers.rows_params import BATCH

Row = dict[str, Any]
PLACES = {"node": "node", "nvlink_group": "NVLink group", "rack": "rack"}
OPERATORS = {"In": "is", "NotIn": "is not", "Gt": "is above", "Lt": "is below", "Exists": "is there",
             "DoesNotExist": "is not there"}  # fmt: skip
# Rows of their own, told together, or the heading of the page.
TOLD = frozenset({"kind", "name", "project", "params", "gpu_count", "node_count", "gpus_per_node", "nvlink_required",
                  "after", "after_any"})  # fmt: skip
FIRST = ("queue", "priority", "purpose", "gpu_memory_min", "max_duration")
OF_MERGE = frozenset({"recipe", "models", "base_model", "strategy", "t", "weights", "normalize", "tokenizer_source"})
OF_EVOLVE = frozenset({"merge", "space", "objective", "test"})
OF_EVALUATE = frozenset({"model", "dataset", "metrics", HARNESS, TASKS, "batch_size", "architecture"})
OF_INFER = frozenset({"model", "input", "batch_size", "architecture"})
OF_COMMAND = frozenset({"argv", "shell", "files", "inputs", "env", "torchrun", "nproc", "limit_notice_s"})
# What the parameters of a merge say when nobody has asked for anything else.
UNSAID = {
    "seed": 0,
    "max_bad_rows": 0,
    "logprobs": False,
    "lambda": 1,
    "scale": 1,
    "rescale": RESCALES[0],
    "granularity": GRANULARITIES[0],
}


def asked_for(job: Mapping[str, Any], sent: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of an accepted job: each has a ``word``, and a ``value`` (``code`` when it is some, ``whole`` when all
    of it is shown), an instant ``at`` or ``links`` to artifacts. ``sent``: the body as it came; ``inputs``: the
    artifacts that it names."""
    given = {ALIASES.get(name, name): value for name, value in sent.items() if value is not None}
    named = {str(row["as"]): row for row in inputs}
    rows = [*_of_kind(job, named), {"word": "GPUs", "value": _gpus(job)}]
    for name in (*FIRST, *(each for each in job if each in given and each not in FIRST)):
        if name in given and name not in TOLD:
            rows += _row(name, job[name], job) if job[name] is not None else _needless(name, given[name])
    return rows


def by_default(job: Mapping[str, Any], sent: Mapping[str, Any]) -> list[Row]:
    """What nobody asked for and the queue decided."""
    given = {ALIASES.get(name, name) for name, value in sent.items() if value is not None}
    rows = [(name, job[name]) for name in ("queue", "priority", "max_duration") if name not in given and job[name]]
    return [{**row, "value": f"{row['value']}, by default"} for name, value in rows for row in _row(name, value, job)]


def _of_kind(job: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    params = job["params"] if isinstance(job["params"], Mapping) else {}
    if job["kind"] == "merge":
        yield from _merge(params, list(named.values()))
        rest = OF_MERGE
    elif job["kind"] == "evolve":
        yield from _evolve(params, named)
        rest = OF_EVOLVE
    elif job["kind"] == "evaluate":
        yield from _over_rows(params, named, ("model", "dataset"), _measured_by(params))
        rest = OF_EVALUATE
    elif job["kind"] == "infer":
        yield from _over_rows(params, named, ("model", "input"))
        rest = OF_INFER
    elif job["kind"] == "command":
        yield from _command(params, named)
        rest = OF_COMMAND
    else:
        yield {"word": "Kind", "value": job["kind"]}
        rest = frozenset()
    for name, value in params.items():
        if name not in rest and value is not None and UNSAID.get(name) != value:
            yield {"word": label(name), "value": _of_tensors(name, value)}


def _measured_by(params: Mapping[str, Any]) -> Row:
    """The metrics that are told, or the tasks that tell their own."""
    if params.get(HARNESS) is not None:
        tasks = ", ".join(params.get(TASKS) or ()) or "all of its task files"
        return {"word": "Tasks", "value": f"{tasks}, by {params[HARNESS]}"}
    wanted = [METRIC_WORDS.get(name, name) for name in params.get("metrics") or ()]
    return {"word": "Metrics", "value": ", ".join(wanted) or "all of its kind of model"}


def _merge(params: Mapping[str, Any], models: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    yield {"word": "Models", "links": [row for row in models if row["as"] != BASE_INPUT]}
    base = [row for row in models if row["as"] == BASE_INPUT]
    if base:
        yield {"word": label("base_model"), "links": base}
    document = params.get("recipe")
    if isinstance(document, Mapping):
        yield {"word": "Merge", "value": f"{document.get('merge_method')}, by a recipe"}
        yield {"word": label("recipe"), "value": recipes.as_text(document), "whole": True}
        return
    how = str(params.get("strategy", "merge"))
    if params.get("t") is not None:
        how += f", t = {_spelled(params['t'])}"
    weights = params.get("weights") or []
    if any(weight != 1 for weight in weights):
        how += f", weights {', '.join(_spelled(weight) for weight in weights)}"
    strategy = STRATEGIES.get(str(params.get("strategy")))
    divided = params.get("normalize", strategy.normalize if strategy else None)
    if isinstance(divided, list):
        how += f", normalize = {_spelled(divided)}"
    elif strategy and divided is not strategy.normalize:
        how += f", weights {'as they are, not divided' if strategy.normalize else 'divided'} by their sum"
    yield {"word": "Merge", "value": how}
    if params.get("tokenizer_source") is not None:
        of = recipe_of(params).tokenizer
        yield {"word": label("tokenizer_source"), "links": [row for row in models if row["as"] == of]}


def _evolve(params: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """The merge without what is searched, which is told by its bounds."""
    searched = {each["name"] for each in params["space"]}
    merge = {name: value for name, value in params["merge"].items() if name not in searched}
    yield from _merge(merge, [row for row in named.values() if row["as"] not in (DATASET, TEST)])
    for name, value in merge.items():
        if name not in OF_MERGE and value is not None and UNSAID.get(name) != value:
            yield {"word": label(name), "value": _of_tensors(name, value)}
    yield {"word": label("space"), "value": "; ".join(_searched(each) for each in params["space"])}
    objective = params["objective"]
    for name, word in ((DATASET, "Search set"), (TEST, label("test"))):
        if name in named:
            yield {"word": word, "links": [named[name]]}
    wanted = [METRIC_WORDS.get(name, name) for name in objective.get("metrics") or ()]
    yield {"word": "Judged by", "value": ", then ".join(wanted) or "all metrics of its kind of model, in their order"}
    for name in ("limit", "file"):
        if objective.get(name) is not None:
            yield {"word": label(name), "value": str(objective[name])}
    if objective.get("architecture") is not None:
        yield {"word": label("architecture"), "value": _plain(objective["architecture"]), "code": True}


def _searched(entry: Mapping[str, Any]) -> str:
    """``t from 0 to 1, a value for each layer``."""
    how = {
        ALL: "one value for all tensors",
        LAYER: f"{entry['anchors']} points over the layers" if entry.get("anchors") else "a value for each layer",
        GROUP: f"a value for each of {', '.join(entry.get('groups', ()))} and the rest",
    }[entry["per"]]
    return f"{entry['name']} from {entry['low']:g} to {entry['high']:g}, {how}"


def _over_rows(
    params: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]], names: Sequence[str], *own: Row
) -> Iterator[Row]:
    """Of a job that runs a model over a data set, which two have these names; ``own``: the rows of its kind alone."""
    for name in names:
        if name in named:
            yield {"word": label(name), "links": [named[name]]}
    yield from own
    if params.get("batch_size") != BATCH:
        yield {"word": label("batch_size"), "value": str(params.get("batch_size"))}
    if params.get("architecture") is not None:
        yield {"word": label("architecture"), "value": _plain(params["architecture"]), "code": True}


def _spelled(setting: Any) -> str:
    """A setting of a merge in words: a value, a gradient, or what each filter gives."""
    if is_filters(setting):
        return "; ".join(f"{_spelled(each['value'])} for {each.get('filter') or 'the rest'}" for each in setting)
    if varies(setting):
        return " to ".join(_spelled(each) for each in setting) + " over the layers"
    return f"{setting:g}" if isinstance(setting, (int, float)) and not isinstance(setting, bool) else _plain(setting)


def _command(params: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    line = params["shell"] if params.get("shell") is not None else shlex.join(map(str, params.get("argv") or []))
    yield {"word": "Program", "value": line, "code": True}
    if params.get("torchrun"):
        each = params.get("nproc")
        several = f"{each} process{'' if each == 1 else 'es'} a node"
        yield {"word": "Started by", "value": f"torchrun, {several if each else 'one process a GPU'}"}
    if "files" in named:
        yield {"word": "Working files", "links": [named["files"]]}
    inputs = [{**row, "name": f"{name}: {row['name']}"} for name, row in named.items() if name != "files"]
    if inputs:
        yield {"word": "Inputs", "links": inputs}
    if params.get("env"):
        lines = "\n".join(f"{name}={value}" for name, value in params["env"].items())
        yield {"word": "Environment", "value": lines, "code": True}
    if params.get("limit_notice_s") is not None:
        yield {"word": label("limit_notice_s"), "value": f"{limit(params['limit_notice_s'])} before it"}


def _gpus(job: Mapping[str, Any]) -> str:
    text, nodes, rest = str(job["gpu_count"]), job["node_count"] or 1, job["remainder"]
    if nodes > 1:
        each = (job["gpu_count"] - rest) // (nodes - bool(rest))
        text += f" on {nodes} nodes, {each} each{f' and {rest} on the last' if rest else ''}"
    return f"{text} in one NVLink group" if job["nvlink_required"] else text


def _row(name: str, value: Any, job: Mapping[str, Any]) -> Iterator[Row]:
    """The row of a field; none for a switch that is off, as every one is by default."""
    word = label(name)
    if name == "affinity" and isinstance(value, Mapping):
        yield from _rules(value)
    elif name in ("with", "anti_affinity"):
        yield {"word": word, "value": f"jobs of group {value['group']}, by {PLACES[value['level']]}"}
    elif name == "preemptible":
        if value is False:
            yield {"word": "Preemptible", "value": "no"}
    elif isinstance(value, datetime):
        yield {"word": word, "at": value}
    elif name in ("max_duration", "max_wait_for_level"):
        yield {"word": word, "value": limit(value)}
    elif name == "gpu_memory_min":
        yield {"word": word, "value": f"{gb(job['gpu_memory_min_mib'])} or more each"}
    elif name == "required_level":
        yield {"word": word, "value": PLACES[value]}
    elif value not in (None, False):
        yield {"word": word, "value": _plain(value)}


def _needless(name: str, value: Any) -> Iterator[Row]:
    """The row of what was asked for and changes nothing for this job: of places, since it lies on one node."""
    told = f"{PLACES.get(str(value), value)} (it lies on one node)" if name == "required_level" else _plain(value)
    yield {"word": label(name), "value": told}


def _rules(affinity: Mapping[str, Any]) -> Iterator[Row]:
    """Each rule of placement: those that must hold, then the wishes with their weights."""
    for part, word in (("required", "Must run where"), ("preferred", "Should run where")):
        for rule in affinity.get(part) or []:
            values = rule.get("values") or []
            text = f"{rule['key']} {OPERATORS[rule['op']]}{' ' if values else ''}{' or '.join(map(str, values))}"
            weight = rule.get("weight") or 1
            yield {"word": word, "value": f"{text} (weight {weight})" if part == "preferred" else text}


def _of_tensors(name: str, value: Any) -> str:
    """A parameter of a merge that may differ from tensor to tensor or from model to model; any other as it is."""
    rule = RULES.get(name)
    if rule is None or not varies(value):
        return _plain(value)
    if not rule.each:
        return _spelled(value)
    each = [_spelled(one) for one in value]
    return each[0] if len(set(each)) == 1 else ", ".join(each)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
        return f"{value[0]:g}" if len(set(value)) == 1 else ", ".join(f"{each:g}" for each in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
