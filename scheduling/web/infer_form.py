"""The form of a batch inference: what was typed becomes the body of REST, whose errors go back beside the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.web import earlier, form_fields, rows_form, where_when
from scheduling.web.form_fields import SHARED, fields_of, with_rest
from scheduling.web.rows_form import ARCHITECTURE, READING

KIND = "infer"
TEMPLATE = "submit_infer.html"
BY_LINE = tuple(where_when.RULES)
ARTIFACTS = ("model", "input")  # chosen by the address of the form
SAYS = ("max_new_tokens", "temperature", "seed")
LOGPROBS = "logprobs"
MORE = (*READING, "max_bad_rows")
PARAMS = (*ARTIFACTS, *SAYS, *MORE)
WHOLE = (*rows_form.WHOLE, "max_new_tokens", "seed", "max_bad_rows")
TEXTS = (*SHARED, *PARAMS, ARCHITECTURE, *where_when.TEXTS)
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("All rows on 1 GPU", {"gpu_count": "1"}),
    "try": ("The first 100 rows", {"gpu_count": "1", "limit": "100"}),
    "draw": ("Texts that are drawn", {"gpu_count": "1", "max_new_tokens": "64", "temperature": "0.8"}),
}


@dataclass(frozen=True)
class Values:
    """What the form shows: every field as text, the switches, and what of an earlier job it has no field for."""

    texts: Mapping[str, str]
    logprobs: bool = False
    nvlink_required: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def says(self) -> bool:
        """Whether anything is said, or wrong, about what a language model is asked."""
        return self.logprobs or self._any((*SAYS, LOGPROBS))

    @property
    def more(self) -> bool:
        """Whether anything is said, or wrong, about how it is read."""
        return self._any((*MORE, ARCHITECTURE))

    def _any(self, names: Iterable[str]) -> bool:
        return any(self.texts.get(name) or self.errors.get(name) for name in names)


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = PRESETS.get(preset, PRESETS["all"])[1]
    return Values({"queue": "inference", "priority": "Normal", "max_duration": "1h", "project": project, **chosen})


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    return Values(**form_fields.posted(form, TEXTS), logprobs=form.get(LOGPROBS) == "on")


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything."""
    found = earlier.read(body)
    asked = found.params.get(LOGPROBS)
    texts = {**found.texts_of(PARAMS), **rows_form.architecture_again(found.params)}
    unsaid = [name for name in ("seed", "max_bad_rows") if found.params.get(name) == 0]
    return Values(
        {**found.texts, **texts, **dict.fromkeys(unsaid, "")},
        logprobs=asked is True,
        nvlink_required=found.nvlink_required,
        rest=found.rest((*PARAMS, ARCHITECTURE, *([LOGPROBS] if isinstance(asked, bool) else []))),
    )


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: an architecture that is no JSON, rules that can't be read."""
    return rows_form.faults(values.texts)


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read is left as typed, for the check to name."""
    params = form_fields.params_of(values.texts, PARAMS, WHOLE)
    if "temperature" in params:
        params["temperature"] = form_fields.number(params["temperature"])
    if values.logprobs:
        params[LOGPROBS] = True
    params |= rows_form.architecture_of(values.texts)
    body = {**fields_of(values.texts), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``)."""
    return replace(values, errors=rows_form.refused(values, errors, (*TEXTS, LOGPROBS)))


def place(name: str) -> str:
    """The field of the form for a field of the body; "" for one that the form has not."""
    return rows_form.place(name, (*TEXTS, LOGPROBS))
