"""The form of a search: what was typed becomes the body of REST, whose errors go back beside the fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.core.fields import as_whole
from scheduling.web import form_fields, space_lines, where_when
from scheduling.web.form_fields import SHARED, by_right_names, fields_of, placed, rest_of, text_of, with_rest
from scheduling.web.form_words import by_label
from workers.evaluate_params import METRICS
from workers.evolve_params import OF_OBJECTIVE, OF_TEST
from workers.merge_strategies import STRATEGIES

KIND = "evolve"
TEMPLATE = "submit_evolve.html"
BY_LINE = (*where_when.RULES, "space")
ROWS = 4
# Parameters of the search itself; those of its parts are called by where they stand, as far as two would be alike.
COUNTS = ("budget", "population", "grid", "sigma", "seed")
OBJECTIVE = ("dataset", "batch_size", "limit", "file", "architecture")
TEST = {"test": "dataset", "test_file": "file", "test_limit": "limit"}
MERGE = ("strategy", "base_model", "settings")
JSON = ("architecture", "settings")
TEXTS = (*SHARED, *MERGE, "space", *OBJECTIVE, *TEST, *COUNTS, *where_when.TEXTS)
PARTS = ("merge", "space", "objective", "test")
MORE = ("batch_size", "limit", "file", "architecture", "test_file", "test_limit")
ELSEWHERE = {**form_fields.ELSEWHERE, "node_count": "gpu_count", "params": "strategy"}
SETTINGS_LIKE = '{"density": 0.5, "out_dtype": "bfloat16"}'
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "slerp-layers": (
        "SLERP, t of each layer, on 2 GPUs", {"strategy": "slerp", "space": "t 0 1 layer", "gpu_count": "2"},
    ),
    "task-layers": (
        "Task arithmetic, weights of each layer",
        {"strategy": "task_arithmetic", "space": "weights 0 1.5 layer", "gpu_count": "2"},
    ),
    "ties": (
        "TIES, density and lambda", {"strategy": "ties", "space": "density 0.1 1\nlambda 0.5 1.5", "gpu_count": "2"},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Values:
    """What the form shows: every field as text, the models row by row, the metrics that are ticked, and what of an
    earlier job it has no field for."""

    texts: Mapping[str, str]
    models: tuple[str, ...] = ("", "")
    metrics: tuple[str, ...] = ()
    nvlink_required: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The model rows, at least ``ROWS`` of them, each with its number and errors."""
        return [
            {"number": i + 1, "model": self.models[i] if i < len(self.models) else "",
             "errors": self.errors.get(f"models.{i}", [])}
            for i in range(max(ROWS, len(self.models)))
        ]  # fmt: skip

    @property
    def more(self) -> bool:
        """Whether anything is said, or wrong, about how the data is read."""
        return any(self.texts.get(name) or self.errors.get(name) for name in MORE)

    @property
    def foreign(self) -> list[str]:
        """Metrics that were asked for and are none: they are shown, and refused by name."""
        return [name for name in self.metrics if name not in METRICS]


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = PRESETS.get(preset, PRESETS["slerp-layers"])[1]
    texts = {"queue": "merge", "priority": "Normal", "max_duration": "2h", "project": project, "budget": "300"}
    return Values({**texts, **chosen})


def strategies() -> list[dict[str, str]]:
    """The strategies that have something to search, in words."""
    return [{"name": s.name, "summary": s.summary} for s in STRATEGIES.values()]


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    return Values(
        {name: form.get(name, "").replace("\r\n", "\n") for name in TEXTS},
        models=tuple(form.getlist("model")),
        metrics=tuple(form.getlist("metrics")),
        nvlink_required=form.get("nvlink_required") == "on",
        rest=form_fields.posted_rest(form),
    )


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything. A part that
    the form could not say whole is sent along as it is."""
    body = by_right_names(body)
    given = body.get("params")
    params: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    exactly, covered = where_when.again(body)
    if as_whole(body.get("node_count")) == 1:  # as every search
        covered = (*covered, "node_count")
    merge, objective, test = (_part(params.get(name)) for name in ("merge", "objective", "test"))
    metrics = objective.get("metrics") if objective is not None else None
    listed = metrics is None or (isinstance(metrics, list) and all(isinstance(name, str) for name in metrics))
    said = objective is not None and listed and set(objective) <= set(OF_OBJECTIVE)
    said_test = test is not None and set(test) <= set(OF_TEST)
    lines = space_lines.as_text(params.get("space"))
    texts = {name: text_of(body.get(name)) for name in SHARED} | {n: text_of(params.get(n)) for n in COUNTS}
    read = [*COUNTS]
    if merge is not None and _is_list(merge.get("models")):
        texts |= _merge_again(merge)
        read.append("merge")
    if said and objective is not None:
        texts |= {
            name: _json(objective.get(name)) if name in JSON else text_of(objective.get(name)) for name in OBJECTIVE
        }
        read.append("objective")
    if said_test and test is not None:
        texts |= {name: text_of(test.get(own)) for name, own in TEST.items()}
        read.append("test")
    if lines is not None:
        texts["space"] = lines
        read.append("space")
    return Values(
        texts | exactly,
        models=tuple(text_of(m) for m in merge["models"]) if merge is not None and "merge" in read else ("", ""),
        metrics=tuple(metrics or ()) if said else (),
        nvlink_required=body.get("nvlink_required") is True,
        rest=rest_of(body, (*SHARED, *covered, "nvlink_required"), read),
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _part(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _merge_again(merge: Mapping[str, Any]) -> dict[str, str]:
    """What has no field of its own stands in the settings."""
    own = {
        name: value
        for name, value in merge.items()
        if name not in ("strategy", "models", "base_model") and value not in (None, form_fields.UNSAID.get(name))
    }
    strategy = text_of(merge.get("strategy", "slerp"))
    return {"strategy": strategy, "base_model": text_of(merge.get("base_model")), "settings": _json(own) if own else ""}


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: what is no JSON, lines that can't be read."""
    found = []
    for name, like in (("settings", SETTINGS_LIKE), ("architecture", '{"model_type": "mlp", ...}')):
        typed = values.texts.get(name, "").strip()
        if typed and not isinstance(_loaded(typed), dict):
            found.append({"field": name, "message": f"this is no object of JSON: write it like {like}"})
    found += [{"field": "space", "message": told} for told in space_lines.unread(values.texts.get("space", ""))]
    return (*found, *where_when.faults(values.texts))


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read is left as typed, for the check to name."""
    texts = {name: text.strip() for name, text in values.texts.items()}
    parts = {
        "merge": _merge(values, texts), "space": space_lines.entries_of(values.texts.get("space", "")),
        "objective": _objective(values, texts), "test": _typed(texts, TEST),
    }  # fmt: skip
    params: dict[str, Any] = {name: part for name, part in parts.items() if part}
    for name in COUNTS:
        if texts.get(name):
            params[name] = form_fields.number(texts[name]) if name == "sigma" else form_fields.whole(texts[name])
    body = {**fields_of(values.texts), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def _merge(values: Values, texts: Mapping[str, str]) -> dict[str, Any]:
    chosen = [model for model in values.models if model]
    settings = _loaded(texts["settings"]) if texts.get("settings") else {}
    if "merge" in _inner(values.rest) and not chosen and not settings:
        return {}
    own = settings if isinstance(settings, dict) else {}
    base = {"base_model": texts["base_model"]} if texts.get("base_model") else {}
    return {**own, "strategy": texts.get("strategy", ""), "models": chosen, **base}


def _inner(rest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = rest.get("params")
    return found if isinstance(found, Mapping) else {}


def _objective(values: Values, texts: Mapping[str, str]) -> dict[str, Any]:
    found = _typed(texts, {name: name for name in OBJECTIVE})
    if "architecture" in found:
        found["architecture"] = _loaded(found["architecture"])
    if values.metrics:
        found["metrics"] = list(values.metrics)
    return found


def _typed(texts: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a part that were filled, by their names in it."""
    return {
        own: form_fields.whole(texts[name]) if own in ("batch_size", "limit") else texts[name]
        for name, own in names.items() if texts.get(name)
    }  # fmt: skip


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``)."""
    rows = [i for i, model in enumerate(values.models) if model]
    told = ({**error, "message": _said(error, values)} for error in errors)
    return replace(values, errors=placed(told, lambda name: place(name, rows)))


def _said(error: Mapping[str, Any], values: Values) -> str:
    """The message in the words of the form; of a line of the space with which it is."""
    name, message = str(error["field"]), where_when.in_words(error, values)
    at = name.removeprefix("params.space.").split(".")[0] if name.startswith("params.space.") else ""
    lines = space_lines.numbers_of(values.texts.get("space", ""))
    if at.isdigit() and int(at) < len(lines):
        return f"line {lines[int(at)]}: {message}"
    return by_label(name, message)


def place(name: str, rows: Sequence[int] = ()) -> str:
    """The field of the form for a field of the body; "" for one that the form has not. ``rows``: the row in which each
    model was chosen."""
    part, _, own = name.removeprefix("params.").partition(".")
    first = own.split(".")[0]
    if name.startswith("params.") and part in PARTS:
        if part == "space":
            return "space"
        if part == "objective":
            return first if first in (*OBJECTIVE, "metrics") else "dataset"
        if part == "test":
            return next((mine for mine, theirs in TEST.items() if theirs == first), "test")
        at = own.removeprefix("models.")
        if first == "models":
            return f"models.{rows[int(at)]}" if at.isdigit() and int(at) < len(rows) else "models"
        return first if first in ("strategy", "base_model") else "settings" if first else "models"
    whole = ELSEWHERE.get(name, name).removeprefix("params.").split(".")[0]
    whole = where_when.place(name) or whole
    return whole if whole in (*TEXTS, "models", "nvlink_required", "replaces") else ""
