"""How is it told that counts are more than there is room for? The code, the sentence, and what to ask for instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduling.core.largest import Split
from scheduling.core.resources import Limit, ResourceRequest
from scheduling.core.units import gb
from scheduling.core.words import gpus_in_words, names_in_words, nodes_in_words


def ask_for(limits: Mapping[str, Limit]) -> str:
    """What to ask for instead; of several numbers none helps without the others."""
    told = names_in_words([f"{field} of at most {limit}" for field, limit in limits.items()])
    return f"ask for {told}{' together' if len(limits) > 1 else ''}"


def instead_of(wanted: ResourceRequest, holds: Callable[[ResourceRequest], bool]) -> str:
    """What to leave out for the same counts to be held, as the end of a sentence; nothing where nothing helps."""
    loose = {
        "required_level": replace(wanted, required_level=None),
        "nvlink_required": replace(wanted, nvlink_required=False, nvlink_exclusive=False),
    }
    names = [name for name, changed in loose.items() if changed != wanted and holds(changed)]
    return "".join(f", or leave {name} out" for name in names)


def code_of(wanted: ResourceRequest, *, several: bool) -> str:
    """The code of the refusal: which boundary is too small. ``several``: nodes, or GPUs over them."""
    if wanted.nvlink_required or wanted.required_level == "nvlink_group":
        return "no_nvlink_group"
    return "no_capacity" if several or wanted.allow_span else "no_node"


def _lacks(wanted: ResourceRequest, *, several: bool) -> str:
    """Which boundary is too small, as the beginning of a sentence."""
    if wanted.nvlink_required or wanted.required_level == "nvlink_group":
        return "no NVLink group has"
    if several or wanted.allow_span:
        return "no rack has" if wanted.required_level == "rack" else "the pool doesn't have"
    return "no node has"


def memory_word(wanted: ResourceRequest) -> str:
    """The memory of each GPU, as it follows their number; nothing where any will do."""
    return f" with at least {gb(wanted.gpu_memory_min_mib)}" if wanted.gpu_memory_min_mib else ""


def nothing_there(wanted: ResourceRequest) -> str:
    """That there is no such GPU at all, and what to ask without."""
    what = f"GPUs{memory_word(wanted)}"
    if wanted.nvlink_required:
        whole = " that lies wholly on one node" if wanted.nvlink_exclusive else ""
        return f"the pool has no NVLink group{whole} with {what}; ask without nvlink_required"
    if wanted.required_level == "nvlink_group":
        return f"the pool has no NVLink group with {what}; ask without required_level"
    return f"the pool has no {what}"


def count_message(wanted: ResourceRequest, count: int, most: int, *, several: bool) -> str:
    """That there is no room for so many GPUs, and the most there is room for."""
    if not most:
        return nothing_there(wanted)
    room = f"room for {gpus_in_words(count)}{memory_word(wanted)}"
    return f"{_lacks(wanted, several=several)} {room}: ask for at most {most}"


def nodes_message(wanted: ResourceRequest, asked: Split, fits: Split, limits: Mapping[str, int]) -> str:
    """That the nodes that were asked for are not there, those that would fit, and the numbers to ask for."""
    if not fits.nodes or not fits.per_node:
        return nothing_there(wanted)
    lacks, gpus = _lacks(wanted, several=asked.nodes > 1), f"{gpus_in_words(asked.per_node)}{memory_word(wanted)}"
    if asked.nodes == 1:
        ask = f"ask for at most {fits.per_node}" if len(limits) == 1 else ask_for(limits)
        return f"{lacks} {gpus}; the largest has {fits.per_node}: {ask}"
    return (
        f"{lacks} {nodes_in_words(asked.nodes)} with {gpus} each; {fits.nodes} with {fits.per_node} would fit: "
        f"{ask_for(limits)}"
    )
