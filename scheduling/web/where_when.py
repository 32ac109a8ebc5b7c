"""Where and when exactly? The fields of all forms for rules of placement, places shared or kept apart, times, and the
jobs that come first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scheduling.web import after_lines, form_words, kept_lines, rule_lines
from scheduling.web.form_fields import fields_of, text_of
from scheduling.web.people_words import label

PLAIN = ("required_level", "max_wait_for_level", "not_before", "start_by", "group")
SWITCHES = ("nvlink_exclusive", "allow_span")
NEVER = "unpreemptible"  # the field ``preemptible``, asked the other way round, so that an empty form says nothing
RULES = {"must_run": "required", "should_run": "preferred"}
BESIDE = {"beside": "with", "apart": "anti_affinity"}
EXACTLY = (
    *PLAIN, *SWITCHES, NEVER, *RULES, *BESIDE, *(f"{name}_level" for name in BESIDE),
    *(text for name in RULES for text in kept_lines.names(name)),
)  # fmt: skip
TEXTS = (*EXACTLY, *after_lines.TEXTS)
LEVELS = {"node": "one node", "nvlink_group": "one NVLink group", "rack": "one rack"}
RUNGS = {name: LEVELS[name] for name in ("nvlink_group", "rack")}
NODE = "node"
_SIGNS = {"In": "=", "NotIn": "!=", "Gt": ">", "Lt": "<"}
_PATH = re.compile(r"(?:the )?affinity\.(?:required|preferred)(?:\.(\d+))?(?:\.(\w+))?")


def is_said(texts: Mapping[str, str], errors: Mapping[str, Any]) -> bool:
    """Whether any of the fields of place and time says something, or is wrong."""
    levels = [f"{name}_level" for name in BESIDE]  # what they say without a group is nothing
    return any(texts.get(name, "").strip() or name in errors for name in EXACTLY if name not in levels)


def body_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the body that were filled; lines that can't be read are left out."""
    body = fields_of(texts, PLAIN) | after_lines.body_of(texts)
    body |= {name: True for name in SWITCHES if texts.get(name)}
    if texts.get(NEVER):
        body["preemptible"] = False
    rules = {
        part: [*rule_lines.rules_of(texts.get(name, ""), wishes=name == "should_run"), *kept_lines.rules(texts, name)]
        for name, part in RULES.items()
    }
    if any(rules.values()):
        body["affinity"] = {part: found for part, found in rules.items() if found}
    for name, field in BESIDE.items():
        if texts.get(name, "").strip():
            body[field] = {"group": texts[name].strip(), "level": texts.get(f"{name}_level") or NODE}
    return body


def faults(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What was typed and can't be read as a rule."""
    for name in RULES:
        for message in rule_lines.unread(texts.get(name, ""), wishes=name == "should_run"):
            yield {"field": name, "message": f"{label(name)} where: {message}"}


def again(body: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """An earlier body's fields as they are typed, and the names of those that these texts say whole; a refused body
    may hold anything."""
    first, whole = after_lines.again(body)
    texts, covered = {name: text_of(body.get(name)) for name in PLAIN} | first, [*PLAIN, *whole]
    for name, wanted, field in (*((name, True, name) for name in SWITCHES), (NEVER, False, "preemptible")):
        if isinstance(body.get(field), bool):
            texts[name] = "on" if body[field] is wanted else ""
            covered.append(field)
    for name, field in BESIDE.items():
        rule = body.get(field)
        if isinstance(rule, Mapping) and set(rule) == {"group", "level"} and rule["level"] in LEVELS:
            texts |= {name: text_of(rule["group"]), f"{name}_level": str(rule["level"])}
            covered.append(field)
    rules = _rules(body.get("affinity"))
    if rules is not None:
        texts |= rules
        covered.append("affinity")
    return texts, tuple(covered)


def _rules(affinity: Any) -> dict[str, str] | None:
    """The rules as lines, and beside them those that no line can say; None for what is not two lists of rules."""
    if not isinstance(affinity, Mapping) or not set(affinity) <= set(RULES.values()):
        return None
    texts: dict[str, str] = {}
    for name, part in RULES.items():
        rules = affinity.get(part) or []
        if not isinstance(rules, list):
            return None
        texts[name], kept = rule_lines.lines_of(rules, wishes=name == "should_run")
        texts[name + kept_lines.MORE] = kept_lines.as_text(kept)
    return texts


def place(name: str) -> str:
    """The field of the form for a field of the body, "" for one that is not here."""
    whole, _, inner = name.partition(".")
    if whole == "affinity":
        return "should_run" if inner.startswith("preferred") else "must_run"
    whole = {**{field: name for name, field in BESIDE.items()}, "preemptible": NEVER}.get(whole, whole)
    return whole if whole in TEXTS else ""


def in_words(error: Mapping[str, Any], values: Any) -> str:
    """The message as the form's own, one about a rule with its field and the line it is in. ``values``: of a form."""
    message = form_words.in_form(error)
    if not str(error["field"]).startswith("affinity"):
        return message
    name = place(str(error["field"]))
    lines = rule_lines.read_lines(values.texts.get(name, ""), wishes=name == "should_run")

    def told(found: re.Match[str]) -> str:
        if found[1] is None:
            return "this field"
        line = f"line {lines[int(found[1])]}" if int(found[1]) < len(lines) else "a kept rule"
        return f"the {found[2]} of {line}" if found[2] else line

    message = re.sub(rf"^({'|'.join(_SIGNS)})\b", lambda found: _SIGNS[found[1]], _PATH.sub(told, message))
    return f"{label(name)} where: {message}"
