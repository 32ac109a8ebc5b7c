"""A change that would help, as fields of the request and in words with all that it gives up."""

from __future__ import annotations

from typing import Any

from scheduling.core.alternatives import Alternative
from scheduling.core.instants import as_instant
from scheduling.core.resources import ResourceRequest
from scheduling.services import given_up

# A job of one node may have said so by its nodes, and then these would contradict another number of GPUs.
ALONE = {"node_count": None, "gpus_per_node": None}


_LEVELS = {"required_level": "required_level", "max_wait_for_level": "max_wait_for_level_s"}


def whole(each: Alternative, asked: ResourceRequest | None) -> str:
    """The change in words, with what these leave out of it."""
    fewer = each.name in ("gpus_at_most", "nodes_at_most", "less_on_fewer_nodes")
    lost = [name for name, value in fields_of(each).items() if name in _LEVELS and value is None] if fewer else []
    if each.name == "without_nvlink" and asked is not None and asked.nvlink_exclusive:
        lost.append("nvlink_exclusive")
    return given_up.whole(each.words, asked=asked.gpu_count if asked else None, gpus=each.request.gpu_count, lost=lost)


def fields_of(each: Alternative) -> dict[str, Any]:
    """The fields of a request that make the change; None for one that is left out."""
    request = each.request
    nodes: dict[str, Any] = {
        "gpu_count": request.gpu_count, "node_count": request.node_count, "gpus_per_node": request.gpus_per_node,
    }  # fmt: skip
    alone = dict[str, Any](ALONE)
    if not request.is_gang:  # one node is one place: there is nothing to hold out for, nor a level to be had
        needless = {name: None for name, said in _LEVELS.items() if getattr(request, said) is not None}
        nodes, alone = nodes | needless, alone | needless
    found: dict[str, dict[str, Any]] = {
        "duration_at_most_s": {"max_duration": each.duration_s},
        "gpus_at_most": nodes if request.is_gang else {"gpu_count": request.gpu_count, **alone},
        "nodes_at_most": nodes,
        "less_on_fewer_nodes": nodes,
        # A job of one node may have said a level that means nothing there; over any nodes there is none.
        "spread": {"gpu_count": request.gpu_count, **ALONE, "allow_span": True, **dict.fromkeys(_LEVELS)},
        "memory_at_most_mib": {"gpu_memory_min": f"{request.gpu_memory_min_mib}MiB"},
        "without_exclusive": {"nvlink_exclusive": False},
        "without_nvlink": {"nvlink_required": False, "nvlink_exclusive": False},
        "without_level": {"required_level": None},
        "without_waiting": {"max_wait_for_level": None},
        "without_rule": {"affinity": {"preferred": [_written(term) for term in request.preferred_terms]}},
        "without_anti_affinity": {"anti_affinity": None},
        "without_with": {"with": None},
        "without_neighbours": {"anti_affinity": None, "with": None},
        "without_group": {"group": None},
        "start_by_at_least_ms": {"start_by": as_instant(each.value) if each.value else None},
    }  # fmt: skip
    rule = each.name.removeprefix("without_group_and_")
    return found[each.name] if rule == each.name else {"group": None, **found[f"without_{rule}"]}


def _written(term: Any) -> dict[str, Any]:
    found = {"key": term.key, "op": term.op, "values": list(term.values), "weight": term.weight}
    return {name: value for name, value in found.items() if value not in (None, [])}
