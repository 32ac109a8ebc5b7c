"""What a job that has failed says is wrong, one thing after the other, as its node passes it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST = 21  # an agent sends 20, and that there are more
LENGTHS = {"field": 200, "code": 100, "message": 500}
Errors = list[dict[str, str]]


def errors_of(message: Mapping[str, Any]) -> Errors:
    """The ``errors`` of a node's last message about an attempt, as a job keeps them: so many, and no longer texts than
    fit. Agents of before send none."""
    given = message.get("errors")
    if not isinstance(given, list):
        return []
    kept = [each for each in given if isinstance(each, Mapping) and each.get("message")][:MOST]
    return [
        {name: str(each.get(name) or "").replace("\x00", "")[:most] for name, most in LENGTHS.items()} for each in kept
    ]


def in_short(errors: Sequence[Mapping[str, str]]) -> str:
    """One sentence for several, which are told one by one elsewhere; "" for none and for one, which the node's own
    words tell."""
    known = [each for each in errors if each["code"] != "omitted"]
    if len(errors) < 2:
        return ""
    count = f"{len(known)}" if len(known) == len(errors) else f"more than {len(known)}"
    return f"refused for {count} reasons, the first: {errors[0]['message']}"
