"""Requests in words, for reasons and refusals."""

from __future__ import annotations

from scheduling.core.resources import ResourceRequest
from scheduling.core.units import gb


def gpus_in_words(count: int) -> str:
    """``1 GPU`` or ``n GPUs``."""
    return "1 GPU" if count == 1 else f"{count} GPUs"


def nodes_in_words(count: int) -> str:
    """``1 node`` or ``n nodes``."""
    return "1 node" if count == 1 else f"{count} nodes"


def wanted_in_words(request: ResourceRequest) -> str:
    """What the job needs and where, as the object of a sentence."""
    memory = f" with at least {gb(request.gpu_memory_min_mib)}" if request.gpu_memory_min_mib else ""
    if request.allow_span:
        return f"{gpus_in_words(request.gpu_count)}{memory} anywhere"
    if not request.is_gang:
        whole = ", the whole group for itself" if request.nvlink_exclusive else ""
        return f"{gpus_in_words(request.gpu_count)}{memory} in one {place_word(request)}{whole}"
    rest = f" and {request.remainder} on one more" if request.remainder else ""
    scope = {"rack": " of one rack", "nvlink_group": " of one NVLink group"}.get(request.required_level or "", "")
    if request.nvlink_required:
        scope = " of one NVLink group"
    each = gpus_in_words(request.gpus_per_node)
    return f"{each}{memory} on each of {nodes_in_words(request.node_count)}{rest}{scope}"


def place_word(request: ResourceRequest) -> str:
    """The boundary that a job of one node may not cross."""
    return "NVLink group" if request.nvlink_required else "node"
