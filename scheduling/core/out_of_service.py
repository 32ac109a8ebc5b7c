"""Which nodes keep back GPUs that would suit a request, and why each of them does."""

from __future__ import annotations

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Gpu, Node
from scheduling.core.room import Room, Wanted
from scheduling.core.words import MAX_NAMED, gpus_in_words, nodes_in_words

_NODES = {NodeState.CORDONED: "cordoned", NodeState.DRAINING: "draining", NodeState.LOST: "lost"}
_STATES = (GpuState.SUSPECT, GpuState.UNHEALTHY, GpuState.QUARANTINED)


def out_of_service(room: Room, wanted: Wanted) -> str:
    """``Out of service: n1 (cordoned), n2 (1 GPU unhealthy).``: the nodes in canonical order, a few by name.

    ``room`` has what takes work. Empty when all that suits does.
    """
    inventory, eligible = room.inventory, room.view(wanted).eligible
    out: dict[int, list[Gpu]] = {}
    for cell, mask in enumerate(eligible):
        gpus = inventory.gpus_in(cell, mask & ~room.usable[cell])
        if gpus and (inventory.group_of[cell] or not wanted.nvlink):
            out.setdefault(inventory.node_of[cell], []).extend(inventory.gpus[gpu] for gpu in gpus)
    if not out:
        return ""
    named = [f"{inventory.nodes[node].name} ({_why(inventory.nodes[node], gpus)})" for node, gpus in out.items()]
    if len(named) > MAX_NAMED + 1:  # one more is as short by its name
        rest = nodes_in_words(len(named) - MAX_NAMED).replace(" ", " more ", 1)
        return f"Out of service: {', '.join(named[:MAX_NAMED])} and {rest}."
    return f"Out of service: {', '.join(named)}."


def _why(node: Node, gpus: list[Gpu]) -> str:
    """Why these GPUs of the node take no work: for what the node is, or for what they are themselves."""
    if node.closed_by:
        return node.closed_by
    if node.state is not NodeState.READY:
        return _NODES[node.state]
    if any(gpu.state is GpuState.HEALTHY for gpu in gpus):
        return "not heard of for a while"
    counts = [(state, sum(gpu.state is state for gpu in gpus)) for state in _STATES]
    (first, word), *more = [(count, state.lower()) for state, count in counts if count]
    return ", ".join([f"{gpus_in_words(first)} {word}", *(f"{count} {state}" for count, state in more)])
