"""The form of a program: what was typed becomes the body REST takes, and REST's errors go back beside the fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.web import earlier, form_fields, kept_lines, where_when
from scheduling.web.command_words import LINE, READINGS, SH, as_typed, program_faults, words
from scheduling.web.form_fields import SHARED, fields_of, placed, with_rest
from scheduling.web.form_words import by_label

KIND = "command"
TEMPLATE = "submit_command.html"
FIELDS = (*SHARED, "node_count")
PAIRS = {"env": "LR=0.1", "inputs": "base=digits-0-4"}  # what is typed a line each, and such a line
BY_LINE = (
    *PAIRS,
    *where_when.RULES,
)  # each line of them is a thing of its own: what is wrong with one says nothing of the others
PARAMS = ("files", "cwd", "nproc", "preempt_signal", "checkpoint_exit_code", "done_file", "exit_zero_after_signal",
          "limit_notice_s")  # fmt: skip
WHOLE = ("nproc", "checkpoint_exit_code", "limit_notice_s")
TEXTS = (
    *FIELDS, "program", *PAIRS, *PARAMS, *where_when.TEXTS, *(text for name in PAIRS for text in kept_lines.names(name))
)  # fmt: skip
HOW_IT_ENDS = PARAMS[3:]
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "script": ("A script on 1 GPU", {"program": "python train.py", "gpu_count": "1"}),
    "torchrun": ("torchrun on 2 linked GPUs",
                 {"program": "train.py", "gpu_count": "2", "nvlink_required": True, "torchrun": True}),
}  # fmt: skip


@dataclass(frozen=True)
class Values:
    """What the form shows: every field as text, two switches, how the program is read, and what of an earlier job it
    has no field for."""

    texts: Mapping[str, str]
    nvlink_required: bool = False
    torchrun: bool = False
    reads: str = LINE
    rest: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        """Whether anything is said, or wrong, about how the program tells its end."""
        return any(self.texts.get(name) or self.errors.get(name) for name in HOW_IT_ENDS)


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = dict(PRESETS.get(preset, ("", {"gpu_count": "1"}))[1])
    nvlink, torchrun = bool(chosen.pop("nvlink_required", False)), bool(chosen.pop("torchrun", False))
    texts = {"queue": "merge", "priority": "Normal", "max_duration": "1h", "project": project, **chosen}
    return Values(texts, nvlink_required=nvlink, torchrun=torchrun)


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    reads = form.get("reads", LINE)
    return Values(
        **form_fields.posted(form, TEXTS),
        torchrun=form.get("torchrun") == "on",
        reads=reads if reads in READINGS else LINE,
    )


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything."""
    found = earlier.read(body, FIELDS)
    params, texts = found.params, {**found.texts, **found.texts_of(PARAMS)}
    by_shell = isinstance(params.get("shell"), str)
    texts["program"] = params["shell"] if by_shell else as_typed(params.get("argv"))
    typed = [name for name in PAIRS if isinstance(params.get(name), Mapping)]
    for name in typed:
        lines = {key: value for key, value in params[name].items() if _can_be_a_line(name, key, value)}
        texts[name] = "\n".join(f"{key}={value}" for key, value in lines.items())
        kept = {key: value for key, value in params[name].items() if key not in lines}
        texts[name + kept_lines.MORE] = kept_lines.as_text(kept)
    return Values(
        texts, nvlink_required=found.nvlink_required, torchrun=params.get("torchrun") is True,
        reads=SH if by_shell else LINE, rest=found.rest((*PARAMS, *typed, "argv", "shell", "torchrun")),
    )  # fmt: skip


def _can_be_a_line(field: str, name: str, value: Any) -> bool:
    """Whether the name and its text are read back from a line as they are."""
    if not isinstance(value, str) or not name or "\r" in name + value:
        return False
    if field != "env" and value != value.strip():
        return False
    return list(_pairs(f"{name}={value}")) == [(name, "=", value)]


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong with what was typed before there is a body of it: words, lines, numbers that can't be read."""
    found = [_fault("program", message) for message in program_faults(values.texts.get("program", ""), values.reads)]
    for name, like in PAIRS.items():
        seen: set[str] = set()
        for key, given, value in _pairs(values.texts.get(name, "")):
            if not given or not key:
                line = f"{key}{given}{value}"[:60]
                found.append(_fault(name, f"each line is a name, = and what it is, like {like}; {line!r} is not"))
            elif key in seen:
                found.append(_fault(name, f"{key[:80]} is there twice; give it once"))
            seen.add(key)
    if values.torchrun and values.reads == SH:
        found.append(
            _fault("torchrun", "torchrun starts a Python script, not a line of sh: choose another reading above")
        )
    return (*found, *where_when.faults(values.texts))


def _fault(name: str, message: str) -> dict[str, str]:
    return {"field": name, "message": message}


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read is left as typed, for the check to name."""
    program = values.texts.get("program", "")
    params: dict[str, Any] = (
        {"shell": program.strip()} if values.reads == SH else {"argv": words(program, values.reads)}
    )
    params |= form_fields.params_of(values.texts, PARAMS, WHOLE)
    for name in PAIRS:
        pairs = {key: value for key, given, value in _pairs(values.texts.get(name, "")) if given and key}
        typed = pairs if name == "env" else {key: value.strip() for key, value in pairs.items()}
        if both := {**kept_lines.pairs(values.texts, name), **typed}:
            params[name] = both
    if values.torchrun:
        params["torchrun"] = True
    body = {**fields_of(values.texts, FIELDS), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def _pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """(name, "=" or nothing, value) of each line that says anything."""
    for line in text.split("\n"):
        if line.strip():
            name, given, value = line.partition("=")
            yield name.strip(), given, value


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``)."""
    return replace(values, errors=placed(({**error, "message": _in_words(error, values)} for error in errors), place))


def _in_words(error: Mapping[str, Any], values: Values) -> str:
    """The message with the parameter it is about called as the form calls it."""
    message = by_label(str(error["field"]), where_when.in_words(error, values))
    return message.replace(" of argv ", " of the program ")


def place(name: str) -> str:
    """The field of the form for a field of the body; "" for one that the form has not."""
    whole, _, inner = name.partition(".")
    if whole == "params" and inner:
        whole = inner.split(".")[0]
    whole = {**form_fields.ELSEWHERE, "argv": "program", "shell": "program", "params": "program"}.get(whole, whole)
    whole = where_when.place(name) or whole
    return whole if whole in (*TEXTS, "nvlink_required", "torchrun", "replaces") else ""
