"""What is wrong with a job by its own ``error`` event: one thing after the other, as the server keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MOST = 20
MAX_FIELD, MAX_CODE, MAX_MESSAGE = 200, 100, 500
Problem = dict[str, str]


def problems_of(event: Mapping[str, Any], clean: Callable[[str], str]) -> tuple[Problem, ...]:
    """``field``, ``code`` and ``message`` of each thing that the event lists, or of the one that it is of; the last one
    says how many are left out. Nothing for an event of another shape. ``clean``: makes a text storable."""
    details = event.get("details")
    if not isinstance(details, Mapping):
        return ()
    listed = details.get("problems")
    given = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if not given and details.get("field"):
        given = [{**details, "code": event.get("code"), "message": event.get("message")}]
    found = [
        {
            name: clean(str(each.get(name) or ""))[:most]
            for name, most in (("field", MAX_FIELD), ("code", MAX_CODE), ("message", MAX_MESSAGE))
        }
        for each in given[:MOST]
    ]
    # One of an engine may stand for more of them.
    more = sum(_count(each.get("more"), 1) for each in given[MOST:]) + _count(details.get("omitted"), 0)
    if found and more:
        found.append({"field": "", "code": "omitted", "message": f"and {more} more, left out here"})
    return tuple(found)


def _count(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value > 0 else otherwise
