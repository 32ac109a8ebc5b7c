"""The form of an evaluation: what was typed becomes the body of REST, whose errors go back beside the fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.core.fields import as_whole
from scheduling.web import form_fields, where_when
from scheduling.web.form_fields import SHARED, by_right_names, fields_of, placed, rest_of, text_of, with_rest
from scheduling.web.form_words import by_label
from workers.evaluate_params import METRICS

KIND = "evaluate"
TEMPLATE = "submit_evaluate.html"
BY_LINE = tuple(where_when.RULES)
PARAMS = ("model", "dataset", "batch_size", "limit", "file")
WHOLE = ("batch_size", "limit")
ARCHITECTURE = "architecture"
TEXTS = (*SHARED, *PARAMS, ARCHITECTURE, *where_when.TEXTS)
MORE = ("batch_size", "limit", "file", ARCHITECTURE)
ELSEWHERE = {**form_fields.ELSEWHERE, "node_count": "gpu_count", "params": "model"}
ARCHITECTURE_LIKE = '{"model_type": "mlp", "layer_sizes": [64, 256, 128, 64, 10]}'
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("All metrics on 1 GPU", {"gpu_count": "1"}),
    "try": ("The first 100 samples", {"gpu_count": "1", "limit": "100"}),
}
NO_OBJECT = f"this is no object of JSON: write it like {ARCHITECTURE_LIKE}"


@dataclass(frozen=True)
class Values:
    """What the form shows: every field as text, the metrics that are ticked, and what of an earlier job it has no field
    for."""

    texts: Mapping[str, str]
    metrics: tuple[str, ...] = ()
    nvlink_required: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def more(self) -> bool:
        """Whether anything is said, or wrong, about how it is read."""
        return any(self.texts.get(name) or self.errors.get(name) for name in MORE)

    @property
    def foreign(self) -> list[str]:
        """Metrics that were asked for and are none: they are shown, and refused by name."""
        return [name for name in self.metrics if name not in METRICS]


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = PRESETS.get(preset, PRESETS["all"])[1]
    return Values({"queue": "eval", "priority": "Normal", "max_duration": "1h", "project": project, **chosen})


def about(values: Values, address: Mapping[str, str]) -> Values:
    """The form with the model or the data set chosen from whose page one came."""
    chosen = {name: address[name] for name in ("model", "dataset") if address.get(name)}
    return replace(values, texts={**values.texts, **chosen})


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    return Values(
        {name: form.get(name, "").replace("\r\n", "\n") for name in TEXTS},
        metrics=tuple(form.getlist("metrics")),
        nvlink_required=form.get("nvlink_required") == "on",
        rest=form_fields.posted_rest(form),
    )


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything."""
    body = by_right_names(body)
    params = body.get("params")
    params = params if isinstance(params, Mapping) else {}
    exactly, covered = where_when.again(body)
    if as_whole(body.get("node_count")) == 1:  # as every evaluation
        covered = (*covered, "node_count")
    texts = {name: text_of(body.get(name)) for name in SHARED} | {name: text_of(params.get(name)) for name in PARAMS}
    given = params.get(ARCHITECTURE)
    texts[ARCHITECTURE] = "" if given is None else json.dumps(given, ensure_ascii=False)
    metrics = params.get("metrics")
    listed = isinstance(metrics, list) and all(isinstance(name, str) for name in metrics)
    read = (*PARAMS, ARCHITECTURE, *(["metrics"] if listed else []))
    return Values(
        texts | exactly,
        metrics=tuple(metrics or ()) if listed else (),
        nvlink_required=body.get("nvlink_required") is True,
        rest=rest_of(body, (*SHARED, *covered, "nvlink_required"), read),
    )


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: an architecture that is no JSON, rules that can't be read."""
    typed = values.texts.get(ARCHITECTURE, "").strip()
    unread = bool(typed) and not isinstance(_loaded(typed), dict)
    found = [{"field": ARCHITECTURE, "message": NO_OBJECT}] if unread else []
    return (*found, *where_when.faults(values.texts))


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read is left as typed, for the check to name."""
    texts = {name: text.strip() for name, text in values.texts.items()}
    params: dict[str, Any] = {
        name: form_fields.whole(texts[name]) if name in WHOLE else texts[name] for name in PARAMS if texts.get(name)
    }
    if values.metrics:
        params["metrics"] = list(values.metrics)
    if texts.get(ARCHITECTURE):
        params[ARCHITECTURE] = _loaded(texts[ARCHITECTURE])
    body = {**fields_of(values.texts), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``)."""
    told = ({**error, "message": by_label(str(error["field"]), where_when.in_words(error, values))} for error in errors)
    return replace(values, errors=placed(told, place))


def place(name: str) -> str:
    """The field of the form for a field of the body; "" for one that the form has not."""
    whole = ELSEWHERE.get(name, name).removeprefix("params.").split(".")[0]
    whole = where_when.place(name) or whole
    return whole if whole in (*TEXTS, "metrics", "nvlink_required", "replaces") else ""
