"""What the forms of jobs that run a model over the rows of a data set have in common: how these are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scheduling.web import form_fields, where_when
from scheduling.web.form_fields import placed
from scheduling.web.form_words import by_label

READING = ("batch_size", "limit", "file")
WHOLE = ("batch_size", "limit")
ARCHITECTURE = "architecture"
ARCHITECTURE_LIKE = '{"model_type": "mlp", "layer_sizes": [64, 256, 128, 64, 10]}'
NO_OBJECT = f"this is no object of JSON: write it like {ARCHITECTURE_LIKE}"
ELSEWHERE = {**form_fields.ELSEWHERE, "node_count": "gpu_count", "params": "model"}


def architecture_again(params: Mapping[str, Any]) -> dict[str, str]:
    """The architecture of an earlier job as it is typed."""
    given = params.get(ARCHITECTURE)
    return {ARCHITECTURE: "" if given is None else json.dumps(given, ensure_ascii=False)}


def architecture_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The parameter that was typed; what can't be read is left as it is, for the check to name."""
    typed = texts.get(ARCHITECTURE, "").strip()
    return {ARCHITECTURE: _loaded(typed)} if typed else {}


def faults(texts: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: an architecture that is no JSON, rules that can't be read."""
    unread = any(not isinstance(given, dict) for given in architecture_of(texts).values())
    found = [{"field": ARCHITECTURE, "message": NO_OBJECT}] if unread else []
    return (*found, *where_when.faults(texts))


def refused(values: Any, errors: Iterable[Mapping[str, Any]], fields: Collection[str]) -> dict[str, list[str]]:
    """The errors of the form with these ``fields``, each beside the field it is about; the rest at the top (``""``)."""
    told = ({**error, "message": by_label(str(error["field"]), where_when.in_words(error, values))} for error in errors)
    return placed(told, lambda name: place(name, fields))


def place(name: str, fields: Collection[str]) -> str:
    """The field of the form for a field of the body; "" for one that the form has not."""
    whole = ELSEWHERE.get(name, name).removeprefix("params.").split(".")[0]
    whole = where_when.place(name) or whole
    return whole if whole in fields or whole in ("nvlink_required", "replaces") else ""


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
