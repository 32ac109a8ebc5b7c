"""Rules of placement, a line each: ``rack_id=r1,r2``, ``gpu_model!=T4``, ``network_bandwidth_gbps>100``, ``ssd``,
``!ssd``; a wish may end with its weight, ``*5``.

The writing is that of label selectors, which those who know clusters know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

from scheduling.web.asked_words import OPERATORS
from scheduling.web.form_fields import number

LIKE = "rack_id=r1,r2 or network_bandwidth_gbps>100"
_OPS = {"=": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_SIGNS = {op: sign for sign, op in _OPS.items()}
_RULE = re.compile(r"(?P<not>!?)\s*(?P<key>[^=!<>*,\s]+)\s*(?:(?P<sign>!=|=|>|<)(?!\s*[=<>])\s*(?P<values>[^*]*?))?")
_FOREIGN = re.compile(
    r"(?P<key>[^=!<>*,\s]+)\s*(?P<sign>>=|=>|<=|=<|<>|!==|===?)\s*(?P<value>[^=<>*]+?)\s*(?P<weight>\*\s*[0-9]{1,9})?"
)
_EQUAL = {"==": "=", "===": "=", "!==": "!=", "<>": "!="}
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_DIGITS = Context(prec=6)  # in which the numbers of rules and the bandwidth of nodes are written
_SMALLEST = "0.000001"
MAX_MEANT = 60
_WISH = re.compile(r"(?P<rule>.*?)\s*\*\s*(?P<weight>[0-9]{1,9})")


def numbered(text: str) -> list[tuple[int, str]]:
    """The lines that say anything, each with its number as typed, from 1."""
    return [(place, line.strip()) for place, line in enumerate(text.splitlines(), 1) if line.strip()]


def rules_of(text: str, *, wishes: bool) -> list[dict[str, Any]]:
    """The rules of the lines that can be read, in their order."""
    return [rule for _, line in numbered(text) if (rule := _read(line, wishes=wishes)) is not None]


def read_lines(text: str, *, wishes: bool) -> list[int]:
    """The numbers of the lines of :func:`rules_of`, in its order."""
    return [place for place, line in numbered(text) if _read(line, wishes=wishes) is not None]


def unread(text: str, *, wishes: bool) -> Iterator[str]:
    """A sentence about each line that can't be read."""
    for place, line in numbered(text):
        if _read(line, wishes=wishes) is None:
            yield f"line {place} is not a rule: {_meant(line) or f'write it like {LIKE}, not {line[:60]!r}'}"


def _meant(line: str) -> str:
    """What to write for a line whose sign is one of other languages; "" for any other line."""
    found = _FOREIGN.fullmatch(line)
    if found is None or len(line) > MAX_MEANT:
        return ""
    key, sign, value = found["key"], found["sign"], found["value"]
    weight = f" {found['weight']}" if found["weight"] else ""
    if sign in _EQUAL:
        return f"write {key}{_EQUAL[sign]}{value}{weight}, there is no {sign} here"
    plain, more = (">", "more") if ">" in sign else ("<", "less")
    bound = _just_beside(value, above=plain == "<")
    if not bound:
        return f"write {key}{plain} and a number, there is no {sign} here"
    return f"write {key}{plain}{bound}{weight} for {value} or {more}, there is no {sign} here"


def _just_beside(value: str, *, above: bool) -> str:
    """The next number below (or above) in as many digits as a rule's number has, so that nothing lies between the two;
    "" for what is no number of so few."""
    if not _NUMBER.fullmatch(value):
        return ""
    exact = Decimal(value)
    if exact != _DIGITS.plus(exact):
        return ""
    if not exact:
        return f"{'' if above else '-'}{_SMALLEST}"
    return f"{_DIGITS.next_plus(exact) if above else _DIGITS.next_minus(exact):f}"


def lines_of(rules: list[Any], *, wishes: bool) -> tuple[str, list[Any]]:
    """The rules as they are typed, and those that no line can say."""
    lines: list[str] = []
    kept: list[Any] = []
    for rule in rules:
        line = _written(rule)
        if line is None or _read(line, wishes=wishes) != _plain(rule):
            kept.append(rule)
        else:
            lines.append(line)
    return "\n".join(lines), kept


def in_words(rule: Any) -> str:
    """A rule that no line can say, its texts in quotes so that a space or comma in them is seen."""
    said = {name: value for name, value in rule.items() if value is not None} if isinstance(rule, Mapping) else {}
    op, values = OPERATORS.get(str(said.get("op"))), said.get("values", [])
    if (
        op is None
        or not isinstance(values, list)
        or not {"key", "op"} <= set(said) <= {"key", "op", "values", "weight"}
    ):
        return json.dumps(rule, ensure_ascii=False)
    key, *quoted = (json.dumps(text, ensure_ascii=False) for text in (said["key"], *values))
    return " ".join(filter(None, [key, op, " or ".join(quoted), f"*{said['weight']}" if "weight" in said else ""]))


def _read(line: str, *, wishes: bool) -> dict[str, Any] | None:
    """The rule of a line, or None."""
    wish = _WISH.fullmatch(line) if wishes else None
    found = _RULE.fullmatch(wish["rule"] if wish else line)
    if found is None or (found["not"] and found["sign"]):
        return None
    more = {"weight": int(wish["weight"])} if wish else {}
    if not found["sign"]:
        return {"key": found["key"], "op": "DoesNotExist" if found["not"] else "Exists", **more}
    given = [part.strip() for part in found["values"].split(",")]
    if not all(given):
        return None
    values = [number(part) for part in given] if found["sign"] in "<>" else given
    return {"key": found["key"], "op": _OPS[found["sign"]], "values": values, **more}


def _written(rule: Any) -> str | None:
    """The line of a rule; None for what is none."""
    if not isinstance(rule, Mapping):
        return None
    op, key, values = rule.get("op"), rule.get("key"), rule.get("values")
    weight = f" *{rule['weight']}" if rule.get("weight") is not None else ""
    if op in ("Exists", "DoesNotExist") and not values:
        return f"{'!' if op == 'DoesNotExist' else ''}{key}{weight}"
    if op not in _SIGNS or not isinstance(values, list):
        return None
    return f"{key}{_SIGNS[op]}{','.join(map(_text, values))}{weight}"


def _plain(rule: Mapping[str, Any]) -> dict[str, Any]:
    """The rule as its line is read: no parts that say nothing, values of the kind that is typed."""
    said = {name: value for name, value in rule.items() if value is not None and value != []}
    if "values" in said:
        texts = [_text(value) for value in said["values"]]
        said["values"] = [number(text) for text in texts] if said.get("op") in ("Gt", "Lt") else texts
    return said


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
