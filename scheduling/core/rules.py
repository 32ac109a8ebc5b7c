"""Does a rule about placement hold for a GPU? The terms of D19 against its labels."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.core.fields import nearest, shown
from scheduling.core.pool import Gpu, Pool
from scheduling.core.resources import AffinityTerm

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
WITHOUT_LABEL = ("NotIn", "DoesNotExist")  # hold where the label is missing
BUILT_IN = ("gpu_model", "network_bandwidth_gbps", "node", "nvlink_group_id", "rack_id")
CALLED_NODE = ("name", "host", "hostname")
MAX_LABELS = 10
_SIGNS = {"In": "=", "NotIn": "!=", "Gt": ">", "Lt": "<"}


def label(pool: Pool, gpu: Gpu, key: str) -> str | None:
    """The text a rule's ``key`` compares for this GPU, or None when it has no such label.

    Any other key than the five built-in ones is a label: the GPU's own, with its node's as the default.
    """
    node = pool.node_by_name[gpu.node]
    match key:
        case "nvlink_group_id":
            return pool.group_of(gpu)
        case "rack_id":
            return node.rack_id or None
        case "network_bandwidth_gbps":
            return f"{node.network_bandwidth_gbps:g}"
        case "gpu_model":
            return gpu.model
        case "node":
            return node.name
        case _:
            return dict(gpu.labels).get(key, dict(node.labels).get(key))


def holds(term: AffinityTerm, pool: Pool, gpu: Gpu) -> bool:
    """Whether the rule is true of this GPU. A missing label fails In, Gt and Lt, and passes NotIn."""
    value = label(pool, gpu, term.key)
    match term.op:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value is not None and _is_among(value, term.values)
        case "NotIn":
            return value is None or not _is_among(value, term.values)
        case "Gt" | "Lt":
            here, bound = _number(value), _number(term.values[0])
            if here is None or bound is None:
                return False
            return here > bound if term.op == "Gt" else here < bound
        case _:
            raise ValueError(f"unknown operator {term.op!r}")


def strange_labels(pool: Pool, terms: Iterable[AffinityTerm]) -> str:
    """Which labels these rules need that no node and no installed GPU has, with the nearest there is and what there
    is: a sentence without its capital and its point. Nothing when there are none such."""
    needed = dict.fromkeys(term.key for term in terms if term.op not in WITHOUT_LABEL)
    if not needed:
        return ""
    known = _labels(pool)
    strange = [
        f"{shown(key)}{nearest('node' if key.casefold() in CALLED_NODE else key, known)}"
        for key in needed
        if key not in known
    ]
    if not strange:
        return ""
    more = f" and {len(known) - MAX_LABELS} more" if len(known) > MAX_LABELS else ""
    return f"no node or GPU has a label {' or '.join(strange)}, there are {', '.join(known[:MAX_LABELS])}{more}"


def _labels(pool: Pool) -> tuple[str, ...]:
    """The labels that any node or installed GPU has, sorted. Kept with the pool."""
    kept = pool.kept.get("labels")
    if not isinstance(kept, tuple):
        own = {key for node in pool.nodes for key, _ in node.labels}
        own |= {key for gpu in pool.installed for key, _ in gpu.labels}
        built_in = {key for key in BUILT_IN if any(label(pool, gpu, key) is not None for gpu in pool.installed)}
        kept = pool.kept["labels"] = tuple(sorted(own | built_in))
    return kept


def _is_among(value: str, wanted: tuple[str, ...]) -> bool:
    number = _number(value)
    return value in wanted or (number is not None and any(_number(text) == number for text in wanted))


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def spelled(term: AffinityTerm) -> str:
    """The rule as a person would write it, and the form reads it: ``rack_id=r1,r2``, ``slots>4``, ``!ssd``."""
    if term.op in ("Exists", "DoesNotExist"):
        return f"{'!' if term.op == 'DoesNotExist' else ''}{term.key}"
    return f"{term.key}{_SIGNS[term.op]}{','.join(term.values)}"


def all_spelled(terms: Iterable[AffinityTerm]) -> str:
    """The rules of a job as a person would write them in one line."""
    return "; ".join(spelled(term) for term in terms)
