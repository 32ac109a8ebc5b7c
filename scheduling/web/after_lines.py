"""Which jobs does the one in the form wait for, and which of their outputs does it read? Each by its id or name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.http import QueryDict

from scheduling.core.after import SIGN, output_meant
from scheduling.core.fields import shown
from scheduling.core.naming import is_job_id
from scheduling.store.queries import awaited
from scheduling.store.queries.access import Actor

AFTER, ANY_END = "after", "after_any"
TEXTS = (AFTER, ANY_END)
# Where an artifact is named, and what of a job may be read there.
FIELDS = {
    "model": "model", "base_model": "model", "tokenizer_source": "model", "dataset": "data", "input": "data",
    "test": "data", "files": "any",
}  # fmt: skip
LINES = "inputs"  # a line each, the name, = and the artifact
TYPED = "_typed"  # the output that is typed in the place of a choice
OTHER = SIGN  # this choice
TOLD = 3
EMPTY = (
    f"say which output of which job: {SIGN} and the name or id of the job, such as {SIGN}train-a, then / and the name "
    "of the output where it gives several"
)
_IN_BRACKETS = re.compile(r"\(([0-9a-fA-F-]{32,36})\)$")
# What each kind of job makes of what others read: the end of the name of its output, "" for its only one.
MAKES = {
    "merge": {"model": "", "any": ""}, "evolve": {"model": "best", "any": "best"},
    "command": {"model": "", "data": "", "any": ""}, "infer": {"any": ""}, "evaluate": {"any": ""},
}  # fmt: skip

Fault = dict[str, str]


def sent(form: QueryDict) -> QueryDict:
    """What was sent with one text for all jobs that it waits for, and with what was typed in the place of a choice."""
    typed = form.copy()
    if AFTER in form:
        typed[AFTER] = "\n".join(line for each in form.getlist(AFTER) for line in each.splitlines())
    for name in FIELDS:
        if OTHER in form.getlist(name):
            pairs = zip_longest(form.getlist(name), form.getlist(name + TYPED), fillvalue="")
            typed.setlist(name, [text.strip() or OTHER if value == OTHER else value for value, text in pairs])
    return typed


def body_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the body that were filled."""
    ids = [id_in(line) or line for line in _lines(texts)]
    found: dict[str, Any] = {AFTER: list(dict.fromkeys(ids))} if ids else {}
    return {**found, ANY_END: True} if texts.get(ANY_END) else found


def again(body: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """An earlier body's fields as they are typed, and the names of those that these texts say whole."""
    texts, covered = {}, []
    value = body.get(AFTER)
    if isinstance(value, list) and all(isinstance(each, str) and each and each == each.strip() for each in value):
        texts[AFTER] = "\n".join(value)
        covered.append(AFTER)
    if isinstance(body.get(ANY_END), bool):
        texts[ANY_END] = "on" if body[ANY_END] else ""
        covered.append(ANY_END)
    return texts, tuple(covered)


def is_said(texts: Mapping[str, str], errors: Mapping[str, Any]) -> bool:
    """Whether it is to wait for anything, or something is wrong about that."""
    return any(texts.get(name, "").strip() or name in errors for name in TEXTS)


def id_in(text: str) -> str:
    """The id that the text is, or ends with in brackets; "" for none."""
    found = _IN_BRACKETS.search(text.strip())
    named = found[1] if found else text.strip()
    return str(UUID(named)) if is_job_id(named) else ""


def resolved(values: Any, actor: Actor) -> tuple[Any, list[Fault]]:
    """(the values of a form with the ids of the jobs that they name; what can't be found). A job whose output is read
    is waited for too, without being named once more."""
    faults: list[Fault] = []
    lines = [_id(AFTER, line, actor, faults) or line for line in _lines(values.texts)]

    def meant(field: str, reference: str) -> str:
        reference = reference.strip()
        job, _, name = reference.removeprefix(SIGN).partition("/")
        if not reference.startswith(SIGN):
            return reference
        found = _id(field, job, actor, faults)
        if found and found not in lines:
            lines.append(found)
        return f"{SIGN}{found or job}{'/' + name if name else ''}"

    texts = {name: meant(name, text) if name in FIELDS and _refers(text) else text
             for name, text in values.texts.items()}  # fmt: skip
    if LINES in texts:
        texts[LINES] = _in_lines(texts[LINES], meant)
    more = {}
    if hasattr(values, "models"):
        more["models"] = tuple(meant("models", model) if _refers(model) else model for model in values.models)
    return replace(values, texts={**texts, AFTER: "\n".join(lines)}, **more), faults


def _refers(text: str) -> bool:
    return text.strip().startswith(SIGN)


def _in_lines(text: str, meant: Callable[[str, str], str]) -> str:
    made = []
    for line in text.split("\n"):
        name, given, value = line.partition("=")
        made.append(f"{name}{given}{meant(LINES, value)}" if _refers(value) else line)
    return "\n".join(made)


def _lines(texts: Mapping[str, str]) -> list[str]:
    return [line.strip() for line in texts.get(AFTER, "").split("\n") if line.strip()]


def _id(field: str, named: str, actor: Actor, faults: list[Fault]) -> str:
    """The id of the job that is named; "" where there is none or are several, of which the faults tell then."""
    found = id_in(named)
    if found:
        return found
    if not named.strip():
        faults.append({"field": field, "message": EMPTY})
        return ""
    rows = awaited.by_name(actor, named.strip(), TOLD + 1)
    if len(rows) == 1:
        return str(rows[0].pk)
    if rows:
        several = ", ".join(str(row.pk) for row in rows[:TOLD]) + (" and others" if len(rows) > TOLD else "")
        message = f"several jobs are called {shown(named)}: give the id of one of them ({several})"
    else:
        message = f"no job that could be waited for is called {shown(named)} in your projects; choose one, or remove it"
    faults.append({"field": field, "message": message})
    return ""


def rows_shown(texts: Mapping[str, str], actor: Actor) -> list[str]:
    """The lines as people read them, and one more to type into."""
    lines = _lines(texts)
    known = awaited.by_id(actor, filter(None, map(id_in, lines)))
    return [*(_named(known[id_in(line)]) if id_in(line) in known else line for line in lines), ""]


def suggested(actor: Actor) -> list[dict[str, str]]:
    """The jobs that have yet to end, as a line names them, and how they stand."""
    return [{"line": _named(row), "words": f"{row.state.lower()}, of {row.project.name}" if row.project else ""}
            for row in awaited.yet_to_end(actor)]  # fmt: skip


def _named(row: Any) -> str:
    return f"{row.name} ({row.pk})"


def outputs(values: Any, actor: Actor) -> dict[str, list[dict[str, str]]]:
    """The outputs of jobs that may be read, by what reads them: each with its ``value`` in the body and in words. What
    is chosen is among them, whatever it is."""
    found: dict[str, list[dict[str, str]]] = {"model": [], "data": [], "any": []}
    for row in awaited.yet_to_end(actor):
        for what, part in MAKES.get(row.kind, {}).items():
            name = f"/{row.name[:60]} {part}" if part else ""
            words = f"{part} of {row.name}" if part else f"output of {row.name}"
            found[what].append({"value": f"{SIGN}{row.pk}{name}", "words": f"{words} ({row.state.lower()})"})
    chosen = list(_chosen(values))
    ids = {meant[0] for _, text in chosen if (meant := output_meant(text)) is not None}
    known = awaited.by_id(actor, ids)
    for what, text in chosen:
        if all(each["value"] != text for each in found[what]):
            found[what].append({"value": text, "words": _in_words(text, known)})
    return found


def _chosen(values: Any) -> Iterator[tuple[str, str]]:
    for name, what in FIELDS.items():
        if _refers(text := values.texts.get(name, "")) and text.strip() != OTHER:
            yield what, text.strip()
    for model in getattr(values, "models", ()):
        if _refers(model) and model.strip() != OTHER:
            yield "model", model.strip()


def _in_words(reference: str, known: Mapping[str, Any]) -> str:
    meant = output_meant(reference)
    if meant is None or meant[0] not in known:
        return reference
    row = known[meant[0]]
    return f"{meant[1] or 'output'} of {row.name} ({row.state.lower()})"
