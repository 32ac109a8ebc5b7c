"""Beside whom, or away from whom? A submission's rules about the jobs of a group (D19)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.core.fields import Fields, nearest, shown
from scheduling.core.naming import as_name
from scheduling.core.resources import PLACES, GroupRule

RULE_FIELDS = ("group", "level")


def read_neighbours(fields: Fields) -> tuple[GroupRule | None, GroupRule | None]:
    """The rules of ``with`` and ``anti_affinity``, None where none was sent or after an error."""
    near, apart = _rule(fields, "with"), _rule(fields, "anti_affinity")
    # Whoever shares a node with a job shares its rack, so a rack without it is out of reach too.
    if near and apart and near.group == apart.group and apart.level in (near.level, "rack"):
        message = (
            f"with wants a {_word(near.level)} where group {near.group} runs, anti_affinity a {_word(apart.level)} "
            "where it does not: nothing is both; leave one of them out"
        )
        fields.refuse("anti_affinity", "contradiction", message)
    return near, apart


def _rule(fields: Fields, name: str) -> GroupRule | None:
    raw = fields.value(name)
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        message = f'{name} must be an object like {{"group": "ensemble-7", "level": "node"}}, not {shown(raw)}'
        fields.refuse(name, "not_an_object", message)
        return None
    for key in raw:
        if key not in RULE_FIELDS:
            message = f"there is no field {shown(key)} in {name}{nearest(key, RULE_FIELDS)}; remove it"
            fields.refuse(f"{name}.{key}", "unknown_field", message)
    group = _group(fields, f"{name}.group", raw.get("group"))
    level = _level(fields, f"{name}.level", raw.get("level"))
    return GroupRule(group, level) if group is not None and level is not None else None


def _group(fields: Fields, path: str, value: object) -> str | None:
    if value is None or value == "":
        fields.refuse(path, "required", f"say which group of jobs is meant: {path} is the group of those jobs")
        return None
    return as_name(fields, path, value)


def _level(fields: Fields, path: str, value: object) -> str | None:
    known = ", ".join(PLACES)
    if value is None or value == "":
        fields.refuse(path, "required", f"say what must be shared or kept apart: {path} is one of {known}", PLACES)
        return None
    if not isinstance(value, str) or value not in PLACES:
        message = f"{path} must be one of {known}, not {shown(value)}{nearest(value, PLACES)}"
        fields.refuse(path, "unknown_level", message, PLACES)
        return None
    return value


def _word(level: str) -> str:
    return "NVLink group" if level == "nvlink_group" else level
