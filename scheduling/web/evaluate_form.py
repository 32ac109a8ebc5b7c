"""The form of an evaluation: what was typed becomes the body of REST, whose errors go back beside the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.web import earlier, form_fields, rows_form, where_when
from scheduling.web.form_fields import SHARED, fields_of, with_rest
from scheduling.web.rows_form import ARCHITECTURE, READING
from workers.evaluate_params import METRICS
from workers.harness_params import HARNESS, TASKS

KIND = "evaluate"
TEMPLATE = "submit_evaluate.html"
BY_LINE = tuple(where_when.RULES)
ARTIFACTS = ("model", "dataset")  # chosen by the address of the form
PARAMS = (*ARTIFACTS, *READING, HARNESS)
TEXTS = (*SHARED, *PARAMS, TASKS, ARCHITECTURE, *where_when.TEXTS)
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("All metrics on 1 GPU", {"gpu_count": "1"}),
    "try": ("The first 100 samples", {"gpu_count": "1", "limit": "100"}),
}


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
        return any(self.texts.get(name) or self.errors.get(name) for name in (*READING, ARCHITECTURE))

    @property
    def foreign(self) -> list[str]:
        """Metrics that were asked for and are none: they are shown, and refused by name."""
        return [name for name in self.metrics if name not in METRICS]


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = PRESETS.get(preset, PRESETS["all"])[1]
    return Values({"queue": "eval", "priority": "Normal", "max_duration": "1h", "project": project, **chosen})


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    return Values(**form_fields.posted(form, TEXTS), metrics=tuple(form.getlist("metrics")))


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything."""
    found = earlier.read(body)
    metrics = found.params.get("metrics")
    listed = isinstance(metrics, list) and all(isinstance(name, str) for name in metrics)
    tasks = found.params.get(TASKS)
    spoken = isinstance(tasks, list) and all(isinstance(name, str) for name in tasks)
    return Values(
        {**found.texts, **found.texts_of(PARAMS), **rows_form.architecture_again(found.params),
         TASKS: " ".join(tasks or ()) if spoken else ""},
        metrics=tuple(metrics or ()) if listed else (),
        nvlink_required=found.nvlink_required,
        rest=found.rest((*PARAMS, ARCHITECTURE, *(["metrics"] if listed else []), *([TASKS] if spoken else []))),
    )  # fmt: skip


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: an architecture that is no JSON, rules that can't be read."""
    return rows_form.faults(values.texts)


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read is left as typed, for the check to name."""
    params = form_fields.params_of(values.texts, PARAMS, rows_form.WHOLE)
    if values.metrics:
        params["metrics"] = list(values.metrics)
    if tasks := values.texts.get(TASKS, "").replace(",", " ").split():
        params[TASKS] = tasks
    params |= rows_form.architecture_of(values.texts)
    body = {**fields_of(values.texts), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``)."""
    return replace(values, errors=rows_form.refused(values, errors, (*TEXTS, "metrics")))


def place(name: str) -> str:
    """The field of the form for a field of the body; "" for one that the form has not."""
    return rows_form.place(name, (*TEXTS, "metrics"))
