"""Which value has a parameter for a tensor? One for all, a gradient over the layers, or the first filter that fits.

A gradient is a list of numbers: straight lines between them over the place of a layer, 0 the first and 1 the last. A
list of ``{filter, value}`` gives the first ``value`` whose ``filter`` is a part of the tensor's name; an entry without
a filter fits every name. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from workers.said_back import shown

MAX_POINTS = 1000
MAX_FILTERS = 200
MAX_FILTER = 200
ANY_NAME = "*"


def varies(setting: Any) -> bool:
    """May it give two tensors different values?"""
    return isinstance(setting, (list, tuple))


def is_filters(setting: Any) -> bool:
    """Is it a list of ``{filter, value}``, right or wrong?"""
    return varies(setting) and any(isinstance(each, Mapping) for each in setting)


def value_at(setting: Any, tensor: str, position: float) -> Any:
    """What a right setting gives the tensor whose layer lies at ``position`` (0 to 1); None where no filter fits."""
    if is_filters(setting):
        fitting = (each for each in setting if _fits(each.get("filter"), tensor))
        found = next(fitting, None)
        return None if found is None else value_at(found["value"], tensor, position)
    return _between(setting, position) if varies(setting) else setting


def setting_faults(setting: Any, right: Callable[[Any], bool], *, numbers: bool) -> Iterator[tuple[str, str, Any]]:
    """Everything wrong with a setting: ``(where in it, what, the value)``, ``what`` empty for a value that is not
    ``right``. ``numbers``: there are values between two others, so that a gradient makes sense."""
    if is_filters(setting):
        yield from _filter_faults(setting, right, numbers=numbers)
    elif not varies(setting):
        if not right(setting):
            yield "", "", setting
    elif not numbers:
        yield "", "has no values between two others: give one for all, or a list of {filter, value}", setting
    elif not 1 <= len(setting) <= MAX_POINTS:
        yield "", f"as a gradient is a list of 1 to {MAX_POINTS} numbers, not of {len(setting)}", setting
    else:
        yield from ((f"[{i}]", "", each) for i, each in enumerate(setting) if varies(each) or not right(each))


def _filter_faults(
    entries: Sequence[Any], right: Callable[[Any], bool], *, numbers: bool
) -> Iterator[tuple[str, str, Any]]:
    if len(entries) > MAX_FILTERS:
        yield "", f"has at most {MAX_FILTERS} entries of {{filter, value}}, not {len(entries)}", entries
        return
    for i, entry in enumerate(entries):
        where = f"[{i}]"
        if not isinstance(entry, Mapping):
            yield where, f"is a list of {{filter, value}} here, so {shown(entry)} is none of its entries", entry
            continue
        for key in entry:
            if key not in ("filter", "value"):
                yield where, f"has entries of filter and value only, not {shown(str(key))}", entry
        name = entry.get("filter")
        if name is not None and not (isinstance(name, str) and 0 < len(name) <= MAX_FILTER):
            said = f"has a filter that must be a part of tensor names, 1 to {MAX_FILTER} characters, not {shown(name)}"
            yield f"{where}.filter", said, name
        if "value" not in entry:
            yield where, "needs a value in every entry of {filter, value}", entry
        elif is_filters(entry["value"]):
            yield f"{where}.value", "has no filters inside of filters: give a number or a list of numbers", entry
        else:
            for inside, what, value in setting_faults(entry["value"], right, numbers=numbers):
                yield f"{where}.value{inside}", what, value


def _fits(part: str | None, tensor: str) -> bool:
    return part is None or part == ANY_NAME or part in tensor


def _between(points: Sequence[float], position: float) -> float:
    """On the straight line between the two points around ``position``; equal points give exactly themselves."""
    at = position * (len(points) - 1)
    left = min(int(at), len(points) - 1)
    one, other = float(points[left]), float(points[min(left + 1, len(points) - 1)])
    return min(max(one + (other - one) * (at - left), min(one, other)), max(one, other))
