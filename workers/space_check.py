"""Is this a space that can be searched? Everything wrong with its entries, whatever the models are.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.evolve_space import ALL, FIELD, GROUP, LAYER, MAX_ANCHORS, PER, Entry
from workers.merge_settings import MAX_FILTER
from workers.merge_strategies import Strategy
from workers.merge_values import RULES, Rule, as_number
from workers.param_errors import ParamError, nearest
from workers.said_back import shown

KNOWN = ["name", "low", "high", "per", "anchors", "groups"]
MAX_ENTRIES = 8
MAX_GROUPS = 100


def check_space(given: Any, strategy: Strategy | None) -> tuple[list[Entry], list[ParamError]]:
    """The entries of a space, and everything wrong with them; without a strategy only what holds for all."""
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MAX_ENTRIES:
        message = (
            f"space must list 1 to {MAX_ENTRIES} parameters of the strategy, each like "
            f'{{"name": "t", "low": 0, "high": 1, "per": "layer"}}, not {shown(given)}'
        )
        code = "required" if given is None else "wrong_count"
        return [], [ParamError(FIELD, code, message, [1, MAX_ENTRIES])]
    entries: list[Entry] = []
    errors: list[ParamError] = []
    for place, each in enumerate(given):
        entry, wrong = _entry(f"{FIELD}.{place}", each, strategy)
        errors += wrong
        if entry is not None and any(entry.name == other.name for other in entries):
            message = f"{entry.name} is in space already: give each parameter once"
            errors.append(ParamError(f"{FIELD}.{place}.name", "twice", message))
        elif entry is not None:
            entries.append(entry)
    return entries, errors


def searchable(strategy: Strategy) -> list[str]:
    """The parameters of the strategy that are numbers."""
    return [name for name in strategy.own if name in RULES and RULES[name].numbers]


def _entry(place: str, given: Any, strategy: Strategy | None) -> tuple[Entry | None, list[ParamError]]:
    if not isinstance(given, Mapping):
        message = f"an entry of space is an object with name, low, high and per, not {shown(given)}"
        return None, [ParamError(place, "not_an_object", message)]
    errors = [
        ParamError(f"{place}.{str(key)[:80]}", "unknown_field",
                   f"an entry of space has no {shown(str(key))}{nearest(str(key), KNOWN)}", KNOWN)
        for key in given if key not in KNOWN
    ]  # fmt: skip
    name, rule = given.get("name"), None
    known = searchable(strategy) if strategy else [r.name for r in RULES.values() if r.numbers]
    if not isinstance(name, str) or name not in known:
        errors.append(_no_parameter(place, name, known, strategy))
    else:
        rule = RULES[name]
    low, high, wrong = _bounds(place, given, rule)
    errors += wrong
    per = given.get("per", ALL)
    if per not in PER:
        message = f"per is one of {', '.join(PER)}{nearest(str(per), PER)}, not {shown(per)}"
        errors.append(ParamError(f"{place}.per", "unknown_word", message, list(PER)))
    errors += _anchors(place, given, per)
    errors += _groups(place, given, per)
    if errors or rule is None:
        return None, errors
    groups = tuple(given.get("groups") or ())
    return Entry(rule.name, low, high, per, rule.each, given.get("anchors"), groups), []


def _no_parameter(place: str, name: Any, known: list[str], strategy: Strategy | None) -> ParamError:
    if name is None:
        return ParamError(f"{place}.name", "required", f"name is missing: one of {', '.join(known)}", known)
    called = strategy.name if strategy else "a merge"
    if not known:
        message = f"{called} has no parameter that is a number, so there is nothing to search: take another strategy"
    elif strategy and name in strategy.own and isinstance(name, str):
        message = f"{name} is no number, so it can't be searched: one of {', '.join(known)}"
    else:
        message = f"{called} has no number {shown(name)}{nearest(str(name), known)}; one of {', '.join(known)}"
    return ParamError(f"{place}.name", "unknown_parameter", message, known)


def _bounds(place: str, given: Mapping[str, Any], rule: Rule | None) -> tuple[float, float, list[ParamError]]:
    found: dict[str, float] = {}
    errors = []
    for key in ("low", "high"):
        value = given.get(key)
        number = as_number(value)
        if number is None:
            code = "required" if value is None else "not_a_number"
            told = "is missing: give" if value is None else f"must be, and not {shown(value)},"
            errors.append(ParamError(f"{place}.{key}", code, f"{key} {told} a finite number"))
            continue
        found[key] = number
        if rule is not None and not rule.right(number):
            said = next((what for _, what in rule.faults(number)), "")
            errors.append(ParamError(f"{place}.{key}", "out_of_range", f"{key} is no value of it: {said}", rule.limit))
    low, high = found.get("low", 0.0), found.get("high", 0.0)
    if len(found) == 2 and not low < high:
        message = (
            f"low is {low:g} and high {high:g}: low must be below high; a parameter with one value stands in merge"
        )
        errors.append(ParamError(f"{place}.high", "out_of_range", message, low))
    elif len(found) == 2 and not high - low < float("inf"):
        message = "low and high are further apart than any number: bring them nearer to each other"
        errors.append(ParamError(f"{place}.high", "out_of_range", message))
    return low, high, errors


def _anchors(place: str, given: Mapping[str, Any], per: Any) -> list[ParamError]:
    value = given.get("anchors")
    if value is None:
        return []
    if per != LAYER:
        message = f"anchors are points over the layers: leave it out, or say per {LAYER}"
        return [ParamError(f"{place}.anchors", "unknown_field", message)]
    if type(value) is int and 2 <= value <= MAX_ANCHORS:
        return []
    message = f"anchors must be a whole number from 2 to {MAX_ANCHORS}, not {shown(value)}; without it one a layer"
    return [ParamError(f"{place}.anchors", "out_of_range", message, [2, MAX_ANCHORS])]


def _groups(place: str, given: Mapping[str, Any], per: Any) -> list[ParamError]:
    value = given.get("groups")
    if value is None:
        if per != GROUP:
            return []
        message = f'groups are needed with per {GROUP}: parts of tensor names, such as ["attn", "mlp"]'
        return [ParamError(f"{place}.groups", "required", message, [1, MAX_GROUPS])]
    if per != GROUP:
        message = f"groups are parts of tensor names: leave it out, or say per {GROUP}"
        return [ParamError(f"{place}.groups", "unknown_field", message)]
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MAX_GROUPS:
        message = f"groups must list 1 to {MAX_GROUPS} parts of tensor names, not {shown(value)}"
        return [ParamError(f"{place}.groups", "wrong_count", message, [1, MAX_GROUPS])]
    errors = []
    for at, part in enumerate(value):
        if not isinstance(part, str) or not 0 < len(part) <= MAX_FILTER or part == "*":
            message = f"a group is a part of tensor names, 1 to {MAX_FILTER} characters, not {shown(part)}"
            errors.append(ParamError(f"{place}.groups.{at}", "not_a_group", message, MAX_FILTER))
        elif part in value[:at]:
            message = f"{shown(part)} is a group already: give each once"
            errors.append(ParamError(f"{place}.groups.{at}", "twice", message))
    return errors
