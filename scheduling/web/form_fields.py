"""What do the forms of all kinds share? Texts that become fields of the body, and errors beside what was typed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from django.http import QueryDict

from scheduling.core.fields import ALIASES, as_whole
from scheduling.web.job_words import asked
from scheduling.web.people_words import said

SHARED = (
    "name", "project", "queue", "priority", "gpu_count", "gpu_memory_min", "max_duration", "purpose", "retries",
)  # fmt: skip
EACH = "gpus_per_node"
ELSEWHERE = {EACH: "gpu_count"}
# What a job's parameters say when nobody has asked for anything else.
UNSAID = {"seed": 0}
MAX_REST = 50_000


def fields_of(texts: Mapping[str, str], names: Iterable[str] = SHARED) -> dict[str, Any]:
    """The fields of the body that were filled, without the space around them; a name is told as it was typed."""
    filled = {name: texts[name] for name in names if texts.get(name, "").strip()}
    return {name: text if name == "name" else text.strip() for name, text in filled.items()}


def by_right_names(body: Mapping[str, Any]) -> dict[str, Any]:
    """An earlier job's body with every field under its own name, those that say nothing left out, and its GPUs as the
    forms have them: in all, and on how many nodes, from which it follows how many each node gives."""
    return _with_gpus_in_all({ALIASES.get(name, name): value for name, value in body.items() if value is not None})


def _with_gpus_in_all(body: dict[str, Any]) -> dict[str, Any]:
    """Numbers of which one can't be read stay as they are, for the check to name."""
    read = {name: as_whole(body[name]) for name in ("gpu_count", "node_count", EACH) if name in body}
    counts = {name: value for name, value in read.items() if isinstance(value, int) and value > 0}
    each = counts.get(EACH)
    if each is None or len(counts) < len(read):
        return body
    nodes = counts.get("node_count") or max(1, counts.get("gpu_count", each) // each)
    kept = {name: value for name, value in body.items() if name != EACH}
    return {"gpu_count": nodes * each, **kept, "node_count": nodes}


def text_of(value: Any) -> str:
    """A value of an earlier body as it is typed; a refused one may hold anything."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def rest_of(body: Mapping[str, Any], fields: Collection[str], params: Collection[str]) -> dict[str, Any]:
    """What of an earlier job's body the form has no field for: it is sent along as it is, or not at all."""
    given = body.get("params")
    inner = {name: value for name, value in given.items() if name not in params and UNSAID.get(name) != value
             and value is not None} if isinstance(given, Mapping) else {}  # fmt: skip
    rest = {name: value for name, value in body.items() if name not in (*fields, "kind", "params")}
    return {**rest, **({"params": inner} if inner else {})}


def posted(form: QueryDict, names: Iterable[str]) -> dict[str, Any]:
    """What every form has, as it was sent: the ``texts`` of these names, ``nvlink_required`` and the ``rest``."""
    return {
        "texts": {name: form.get(name, "").replace("\r\n", "\n") for name in names},
        "nvlink_required": form.get("nvlink_required") == "on",
        "rest": posted_rest(form),
    }


def params_of(texts: Mapping[str, str], names: Iterable[str], wholes: Collection[str] = ()) -> dict[str, Any]:
    """The parameters that were filled, without the space around them; ``wholes`` are whole numbers, where they can be
    read."""
    filled = {name: texts[name].strip() for name in names if texts.get(name, "").strip()}
    return {name: whole(text) if name in wholes else text for name, text in filled.items()}


def posted_rest(form: QueryDict) -> dict[str, Any]:
    """The rest as the form sent it back; nothing when its reader wants it left out or it is none of ours."""
    found = None if form.get("drop_rest") == "on" else loaded(form.get("rest", ""))
    return found if isinstance(found, dict) else {}


def loaded(text: str) -> Any:
    """What a form sends along as JSON; None for what is none of ours."""
    try:
        return json.loads(text) if 0 < len(text) <= MAX_REST else None
    except (ValueError, RecursionError):
        return None


def with_rest(body: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """The body with what the form has no field for; what was typed counts where both say something."""
    inner = rest.get("params")
    params = {**(inner if isinstance(inner, Mapping) else {}), **body["params"]}
    return {**rest, **body, "params": params}


def rest_rows(rest: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rest as people read it."""
    inner = rest.get("params")
    return asked({**rest, "params": inner if isinstance(inner, Mapping) else {}}, {})


def placed(errors: Iterable[Mapping[str, Any]], place: Callable[[str], str]) -> dict[str, list[str]]:
    """The errors in the words of the form by the field that ``place`` puts them beside, ``""`` for the top."""
    found: dict[str, list[str]] = {}
    for error in errors:
        field, message = str(error["field"]), str(error["message"])
        # Of a recipe it is told by its own words, which stand in its text.
        found.setdefault(place(field), []).append(message if field.startswith("params.recipe") else said(message))
    return found


def whole(text: str) -> Any:
    """The whole number, or the text when it is none, for the check to name."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def number(text: str) -> Any:
    """The number, or the text when it is none, for the check to name."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text  # JSON has no other numbers
