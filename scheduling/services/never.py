"""What would help a job that the pool could never hold? Changes of its body, each of them checked as a submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduling.core.fields import ALIASES
from scheduling.core.halving import largest_that
from scheduling.core.request import Submission
from scheduling.core.units import gb, parse_memory
from scheduling.core.words import gpus_in_words, nodes_in_words
from scheduling.services import given_up, jobs
from scheduling.store.queries.access import Actor

_LEVELS = ("required_level", "max_wait_for_level")
_RUNGS = {"rack": "one rack", "nvlink_group": "one NVLink group"}


@dataclass(frozen=True, slots=True)
class Changed:
    """A change in words and as fields of the body, the job that is submitted with it, and the row of the one that it
    replaces."""

    words: str
    fields: Mapping[str, Any]
    submission: Submission
    replaces: Any


def helps(
    body: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], actor: Actor, now: datetime
) -> tuple[Changed, ...]:
    """Every change with which the body would be taken: one field each, or several at once where no number alone does.

    ``errors``: the refusals of the body, whose limits are tried. The fields of a change are spelt as the body has them.
    """
    spelt: dict[str, list[str]] = {}
    for name in body:
        spelt.setdefault(ALIASES.get(name, name), []).append(name)
    plain = {right: body[names[0]] for right, names in spelt.items()}

    def as_sent(found: Changed) -> Changed:
        fields = {name: value for right, value in found.fields.items() for name in spelt.get(right, [right])}
        return replace(found, fields=fields)

    return tuple(map(as_sent, _helps(plain, errors, actor, now)))


def _helps(
    body: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], actor: Actor, now: datetime
) -> Iterator[Changed]:
    limits = {ALIASES.get(each["field"], each["field"]): each["limit"] for each in errors if _told(each)}
    told = (({field: limit}, _at_most(field, limit)) for field, limit in limits.items())
    alone = [found for fields, words in told if (found := _tried(body, fields, words, actor, now)) is not None]
    if not alone and len(limits) > 1:
        together = _together(body, limits, actor, now)
        alone = [] if together is None else [together]
    fewer: list[Changed] = []
    ruled = [each for each in errors if each["field"] == "affinity.required"]
    if not limits and ruled:
        fewer = [found for count in _counts(body) if (found := _most(body, count, actor, now)) is not None]
    yield from (*alone, *fewer)
    for each in ruled:
        there = _together(body, _of_right_names(each.get("limits") or {}), actor, now)
        if there is not None and all(found.fields != there.fields for found in fewer):
            yield there
    for fields, words in _loosened(body):
        loose = _tried(body, fields, words, actor, now)
        if loose is not None:
            yield loose


def _of_right_names(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {ALIASES.get(name, name): limit for name, limit in limits.items()}


def _together(body: Mapping[str, Any], limits: Mapping[str, Any], actor: Actor, now: datetime) -> Changed | None:
    """The body with all these limits, and without the fields of which it is None; None where there are no limits."""
    words = " and ".join(_at_most(field, limit) for field, limit in limits.items() if limit is not None)
    return _tried(body, limits, words, actor, now) if words else None


@dataclass(frozen=True, slots=True)
class _Count:
    """A number of the body that may be less: its value, and the fields and words for a lower one."""

    value: int
    fields: Callable[[int], dict[str, Any]]
    words: Callable[[int], str]


def _most(body: Mapping[str, Any], count: _Count, actor: Actor, now: datetime) -> Changed | None:
    """The body with the largest lower number with which it would be taken."""

    def tried(number: int) -> Changed | None:
        return _tried(body, count.fields(number), count.words(number), actor, now)

    most = largest_that(lambda number: tried(number) is not None, count.value - 1)
    return tried(most) if most else None


def _counts(body: Mapping[str, Any]) -> Iterator[_Count]:
    """The GPUs of one node or of nodes of the scheduler's choice; else the nodes, and the GPUs on each of them."""
    gpus, nodes, each = (_whole(body.get(name)) for name in ("gpu_count", "node_count", "gpus_per_node"))
    if nodes in (None, 1):
        names = [name for name, value in (("gpu_count", gpus), ("gpus_per_node", each)) if value]
        if gpus or each:
            yield _Count(gpus or each or 0, lambda n: dict.fromkeys(names, n), lambda n: _at_most("gpu_count", n))
        return
    on_each = each or (gpus or 0) // (nodes or 1)

    def both(some: int, on_each: int) -> dict[str, Any]:
        numbers = {"node_count": some, "gpu_count": some * on_each, "gpus_per_node": on_each}
        return {name: number for name, number in numbers.items() if _whole(body.get(name)) not in (None, number)}

    yield _Count(nodes or 0, lambda n: both(n, on_each), lambda n: _at_most("node_count", n))
    yield _Count(on_each, lambda n: both(nodes or 0, n), lambda n: _at_most("gpus_per_node", n))


def _whole(value: Any) -> int | None:
    """The number, which may be written as text; None for what is none."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _tried(
    body: Mapping[str, Any], fields: Mapping[str, Any], words: str, actor: Actor, now: datetime
) -> Changed | None:
    if fields.get("node_count") == 1:  # one place, for which no level can be asked
        fields = {**fields, **{name: None for name in _LEVELS if body.get(name) is not None}}
    submission, resolved, _ = jobs.check({**body, **fields}, actor, now)
    if submission is None:
        return None
    lost = [name for name in _LEVELS if name in fields and len(fields) > 1]
    if "nvlink_required" in fields and body.get("nvlink_exclusive"):
        lost.append("nvlink_exclusive")
    whole = given_up.whole(words, asked=_in_all(body), gpus=submission.request.gpu_count, lost=lost)
    return Changed(whole, fields, submission, resolved["replaces"])


def _in_all(body: Mapping[str, Any]) -> int | None:
    """How many GPUs the body asks for; None where it does not say."""
    gpus, nodes, each = (_whole(body.get(name)) for name in ("gpu_count", "node_count", "gpus_per_node"))
    return gpus or ((nodes or 1) * each if each else None)


def _told(error: Mapping[str, Any]) -> bool:
    """Whether the error has a value of a field that would be taken instead."""
    field = ALIASES.get(error["field"], error["field"])
    return field in ("gpu_count", "node_count", "gpus_per_node", "gpu_memory_min") and bool(error["limit"])


def _at_most(field: str, limit: Any) -> str:
    if field == "gpu_memory_min":
        return f"a need for at most {gb(parse_memory(limit))} of memory per GPU"
    if field == "node_count":
        return f"at most {nodes_in_words(limit)}"
    return f"at most {gpus_in_words(limit)}{' on each node' if field == 'gpus_per_node' else ''}"


def _loosened(body: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The body with one thing less asked of how its GPUs lie."""
    nodes = {name: None for name in ("node_count", "gpus_per_node") if body.get(name) is not None}
    if nodes and body.get("gpu_count") is not None:
        yield nodes, "nodes of the scheduler's choice"
    elif body.get("gpu_count") is not None and not body.get("allow_span"):
        yield {"allow_span": True}, "GPUs spread over any nodes"
    if body.get("nvlink_exclusive"):
        yield {"nvlink_exclusive": False}, "an NVLink group shared with other jobs"
    if body.get("nvlink_required"):
        yield {"nvlink_required": False, "nvlink_exclusive": False}, "no need for NVLink"
    level = body.get("required_level")
    if level is not None:
        yield {"required_level": None}, f"no need for {_RUNGS.get(str(level), level)}"
    affinity = body.get("affinity")
    if isinstance(affinity, Mapping) and affinity.get("required"):
        kept = {name: value for name, value in affinity.items() if name != "required"}
        yield {"affinity": kept or None}, "without its required rules"
    if body.get("with") is not None:
        yield {"with": None}, "without having to run beside a group"
