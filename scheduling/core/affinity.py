"""The rules about where a job runs (D19), read from a submission."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduling.core.fields import Fields, nearest, shown
from scheduling.core.naming import forbidden_in
from scheduling.core.resources import AffinityTerm
from scheduling.core.rules import OPERATORS

MAX_TERMS = 16
MAX_VALUES = 64
MAX_TEXT = 200
MAX_WEIGHT = 100
TERM_FIELDS = ("key", "op", "values", "weight")
# What other systems call them, and is not like enough to be found as a slip.
ALSO_CALLED = {"operator": "op", "label": "key", "name": "key"}


def read_affinity(fields: Fields) -> tuple[AffinityTerm, ...]:
    """The terms of ``affinity`` that can be read, required ones first, and an error for each of the others."""
    value = fields.value("affinity")
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        message = 'affinity must be an object like {"required": [...], "preferred": [...]}'
        fields.refuse("affinity", "not_an_object", message)
        return ()
    for name in value:
        if name not in ("required", "preferred"):
            hint = nearest(name, ("required", "preferred"))
            message = f"there is no field {shown(name)} in affinity{hint}; it has required and preferred"
            fields.refuse(f"affinity.{name}", "unknown_field", message)
    return tuple(
        term
        for part in ("required", "preferred")
        for term in _terms(fields, f"affinity.{part}", value.get(part), required=part == "required")
    )


def _terms(fields: Fields, path: str, raw: object, *, required: bool) -> list[AffinityTerm]:
    if raw is None:
        return []
    if not isinstance(raw, Sequence) or isinstance(raw, str) or len(raw) > MAX_TERMS:
        fields.refuse(path, "not_a_list", f"{path} must be a list of at most {MAX_TERMS} rules", MAX_TERMS)
        return []
    found = [_term(fields, f"{path}.{place}", term, required=required) for place, term in enumerate(raw)]
    return [term for term in found if term is not None]


def _term(fields: Fields, path: str, raw: object, *, required: bool) -> AffinityTerm | None:
    if not isinstance(raw, Mapping):
        message = f'{path} must be a rule like {{"key": "rack_id", "op": "In", "values": ["r1"]}}'
        fields.refuse(path, "not_an_object", message)
        return None
    errors = len(fields.errors)
    for name in raw:
        if name not in TERM_FIELDS:
            right = ALSO_CALLED.get(str(name).casefold())
            hint = f" (did you mean {right!r}?)" if right else nearest(name, TERM_FIELDS)
            message = f"there is no field {shown(name)} in a rule{hint}; remove it"
            fields.refuse(f"{path}.{name}", "unknown_field", message)
    key, op = raw.get("key"), raw.get("op")
    if "key" not in raw:
        message = f"{path}.key is missing: name a label, in 1 to {MAX_TEXT} printable characters"
        fields.refuse(f"{path}.key", "required", message, MAX_TEXT)
    elif not isinstance(key, str) or not _is_plain(key):
        message = f"{path}.key must name a label, in 1 to {MAX_TEXT} printable characters, not {shown(key)}"
        fields.refuse(f"{path}.key", "bad_key", message, MAX_TEXT)
    if "op" not in raw:
        fields.refuse(f"{path}.op", "required", f"{path}.op is missing: give one of {', '.join(OPERATORS)}", OPERATORS)
        op = None
    elif not isinstance(op, str) or op not in OPERATORS:
        message = f"{path}.op must be one of {', '.join(OPERATORS)}, not {shown(op)}{nearest(op, OPERATORS)}"
        fields.refuse(f"{path}.op", "unknown_operator", message, OPERATORS)
        op = None
    values = _values(fields, f"{path}.values", raw.get("values"), op=op)
    weight = _weight(fields, f"{path}.weight", raw.get("weight"), required=required)
    if len(fields.errors) > errors or values is None:
        return None
    return AffinityTerm(str(key), str(op), values, None if required else weight, required)


def _values(fields: Fields, path: str, raw: object, *, op: str | None) -> tuple[str, ...] | None:
    listed = [] if raw is None else raw
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) > MAX_VALUES:
        fields.refuse(path, "not_a_list", f"{path} must be a list of at most {MAX_VALUES} values", MAX_VALUES)
        return None
    if not all(_is_plain(value) for value in listed):
        fields.refuse(
            path, "bad_value", f"each of {path} must be a number or text of 1 to {MAX_TEXT} printable characters"
        )
        return None
    texts = tuple(value if isinstance(value, str) else f"{value:g}" for value in listed)
    if op in ("Exists", "DoesNotExist") and texts:
        fields.refuse(path, "bad_value", f"{op} takes no values; leave {path} out")
        return None
    if op in ("In", "NotIn") and not texts:
        fields.refuse(path, "bad_value", f"{op} needs at least one value in {path}")
        return None
    if op in ("Gt", "Lt") and not (len(texts) == 1 and _is_number(texts[0])):
        fields.refuse(path, "bad_value", f"{op} needs exactly one number in {path}")
        return None
    return texts


def _weight(fields: Fields, path: str, raw: object, *, required: bool) -> int | None:
    if required:
        if raw is not None:
            fields.refuse(path, "bad_value", "only preferred rules have a weight; leave it out of required ones")
        return None
    weight = 1 if raw is None else raw
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= MAX_WEIGHT:
        message = f"{path} must be a whole number from 1 to {MAX_WEIGHT}, not {shown(raw)}"
        fields.refuse(path, "out_of_range", message, MAX_WEIGHT)
        return None
    return weight


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return 1 <= len(value) <= MAX_TEXT and forbidden_in(value) is None
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
