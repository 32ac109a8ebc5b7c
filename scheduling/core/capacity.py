"""Could the pool as installed ever hold this request? The refusals of D14, each with the largest that would pass.

Installed counts, busy or free, healthy or not: health comes back, and a job should not be refused for a blip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.core.counts import MAX_GPUS, NAMES, Counts
from scheduling.core.feasibility import could_hold
from scheduling.core.largest import Rooms, Split, rooms_for
from scheduling.core.limits import as_it_lies, counted, rule_error
from scheduling.core.pool import Pool
from scheduling.core.refusal_words import (
    ask_for,
    code_of,
    count_message,
    instead_of,
    memory_word,
    nodes_message,
    nothing_there,
)
from scheduling.core.resources import PLACES, FieldError, ResourceRequest
from scheduling.core.words import gpus_in_words

ONE_NODE_ONLY = "a job of this kind lies on one node"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The request on the nodes it is to have, or why there is none."""

    request: ResourceRequest | None
    errors: tuple[FieldError, ...] = ()


def rooms_at_door(pool: Pool, request: ResourceRequest, *, over_nodes: bool) -> Rooms:
    """The rooms for such requests where jobs over several nodes are taken, or (``over_nodes`` false) are not."""
    rooms = rooms_for(pool, request)
    return rooms if over_nodes else rooms.of_one_node()


def judge(wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool = True) -> Verdict:
    """The request with its counts, if the pool could ever hold it; while no node is registered it always could (D14).

    ``wanted`` says everything but the counts. What is wrong with each of memory, counts, rules and places to be near
    is told at once: a memory that no GPU has is its own refusal, so here it counts as the largest there is, and rules
    that leave nothing are refused beside the counts, which are judged without them. Unless ``over_nodes``, what lies on
    several nodes is refused too, and the limits that are told are those of one node. A whole NVLink group is of one
    node, so that a job over several is judged without.
    """
    alone, wanted = wanted, as_it_lies(wanted, counts, over_nodes=over_nodes)

    def holds(asked: ResourceRequest) -> bool:
        return _held(asked, _split(asked, counts, pool, over_nodes=over_nodes), pool, over_nodes=over_nodes)

    partners = tuple(_partner_errors(wanted, pool))
    split = _split(wanted, counts, pool, over_nodes=over_nodes)
    mismatch = _mismatch(alone, counts, split, pool, over_nodes=over_nodes) if counts.disagree and split else ()
    if split is not None and holds(wanted):
        found = (*mismatch, *partners)
        return Verdict(None if found else _with(wanted, split), found)
    asked = counted(wanted, pool)
    whole = alone.nvlink_exclusive and not wanted.nvlink_exclusive
    too_large = _count_errors(asked, counts, pool, over_nodes=over_nodes, whole=whole)
    refused = [*(too_large or mismatch), *partners]
    if asked.nvlink_exclusive != wanted.nvlink_exclusive:
        refused.append(no_whole_group())
    if asked.affinity != wanted.affinity:
        less = asked.gpu_memory_min_mib != wanted.gpu_memory_min_mib
        refused.append(rule_error(wanted, pool, apart=less))
    elif wanted.required_terms and not too_large and not holds(asked):
        refused.append(rule_error(asked, pool))
    return Verdict(None, tuple(refused))


def largest_there(wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool) -> dict[str, int]:
    """The numbers that must change for the counts to be held where the required rules and the memory are, each with the
    largest that goes with the others; one is 0 where nothing is there."""
    lies, asked = as_it_lies(wanted, counts, over_nodes=over_nodes), counts.asked
    if asked is None:
        return {"gpu_count": rooms_at_door(pool, lies, over_nodes=over_nodes).most()}
    whole = wanted.nvlink_exclusive and not lies.nvlink_exclusive
    return _changes(counts, _fitting(lies, counts, asked, pool, over_nodes=over_nodes, whole=whole))


def _held(wanted: ResourceRequest, split: Split | None, pool: Pool, *, over_nodes: bool) -> bool:
    """Whether the pool as installed could hold the request on these nodes, and a job may lie on so many."""
    if split is None or (pool.nodes and wanted.gpu_memory_min_mib > pool.largest_memory()):
        return False
    request = _with(wanted, split)
    return (over_nodes or not request.is_gang) and (not pool.nodes or could_hold(pool, request))


def no_whole_group() -> FieldError:
    """The refusal of a whole NVLink group where none lies on one node."""
    message = (
        "no NVLink group lies wholly on one node, so none can be taken whole; ask without nvlink_exclusive, or "
        "without nvlink_required where whole groups are the rule of the pool"
    )
    return FieldError("nvlink_exclusive", "no_nvlink_group", message)


def _split(wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool) -> Split | None:
    """The nodes that were asked for, else the fewest that hold the count; without any node it is taken for one."""
    if counts.asked is not None:
        return counts.asked
    count = counts.gpus or 1
    return rooms_at_door(pool, wanted, over_nodes=over_nodes).split(count) if pool.nodes else Split(1, count)


def _with(wanted: ResourceRequest, split: Split) -> ResourceRequest:
    """The request with its counts. What concerns several nodes is dropped from a job of one."""
    several = split.nodes > 1 or split.remainder > 0
    in_group = wanted.nvlink_required or (not several and wanted.required_level == "nvlink_group")
    return replace(
        wanted,
        gpu_count=split.nodes * split.per_node + split.remainder,
        node_count=split.nodes,
        gpus_per_node=split.per_node,
        remainder=split.remainder,
        nvlink_required=in_group,
        required_level=wanted.required_level if several else None,
        max_wait_for_level_s=wanted.max_wait_for_level_s if several else None,
        allow_span=wanted.allow_span and split.per_node > 1,
    )


def _mismatch(
    wanted: ResourceRequest, counts: Counts, split: Split, pool: Pool, *, over_nodes: bool
) -> tuple[FieldError, ...]:
    """The refusal of a count that the other numbers contradict, in the words of those that were sent. To leave another
    out is told where the count alone would be held."""
    product = split.nodes * split.per_node
    if counts.nodes is not None and counts.per_node is not None:
        message = (
            f"gpu_count must be node_count * gpus_per_node: {counts.gpus} is not {split.nodes} * {split.per_node} = "
            f"{product}; give numbers that agree, or leave gpu_count out"
        )
    else:
        freely = Counts(counts.gpus, None, None)
        alone = _held(wanted, _split(wanted, freely, pool, over_nodes=over_nodes), pool, over_nodes=over_nodes)
        by, number = ("node_count", counts.nodes) if counts.nodes else ("gpus_per_node", counts.per_node)
        message = (
            f"gpu_count must be a multiple of {by}, which is {number}: ask for {product} instead of {counts.gpus}"
            f"{f', or leave {by} out' if alone else ''}"
        )
    return (FieldError("gpu_count", "mismatch", message, product),)


def _count_errors(
    wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool, whole: bool
) -> tuple[FieldError, ...]:
    """The refusals of counts that no place of this memory and topology could hold, whatever the required rules.

    What is told instead is of where those rules hold, if they hold anywhere. ``whole``: on one node it would have a
    whole NVLink group.
    """
    bare = replace(wanted, affinity=())
    rooms, asked = rooms_at_door(pool, bare, over_nodes=over_nodes), counts.asked
    if asked is None and rooms.split(counts.gpus or 1) is not None:
        return ()
    if asked is not None and rooms.holds(asked.nodes, asked.per_node):
        return ()
    if asked is not None and not rooms.scopes and not counts.any_read:
        return (FieldError("gpu_count", code_of(wanted, several=False), nothing_there(wanted), 0),)
    there = wanted if rooms_at_door(pool, wanted, over_nodes=over_nodes).scopes else bare
    if asked is None:
        return (_too_many(there, counts.gpus or 1, pool, over_nodes=over_nodes),)
    fits = _fitting(there, counts, asked, pool, over_nodes=over_nodes, whole=whole)
    if asked.nodes > 1 and not over_nodes:
        return tuple(_on_one_node(there, counts, fits))
    return tuple(_changed(there, counts, asked, pool, fits))


def _fitting(
    wanted: ResourceRequest, counts: Counts, asked: Split, pool: Pool, *, over_nodes: bool, whole: bool
) -> Split:
    """The largest nodes in place of those that were asked for which the request could lie on."""
    rooms = rooms_at_door(pool, wanted, over_nodes=over_nodes)
    if asked.nodes > 1 and not over_nodes:
        most = rooms.most_per_node(1) if pool.nodes else MAX_GPUS
        return Split(1, min(most, counts.per_node or counts.gpus or 1))
    fits = rooms.nearest(asked, keep_nodes=counts.per_node is None)
    if whole and fits.nodes == 1:
        return _whole_or_several(fits, rooms, rooms_for(pool, replace(wanted, nvlink_exclusive=True)))
    return fits


def _changes(counts: Counts, fits: Split) -> dict[str, int]:
    """The numbers that were sent and are others on the nodes that fit."""
    numbers = zip(NAMES, counts.numbers, (fits.nodes * fits.per_node, fits.nodes, fits.per_node), strict=True)
    return {name: limit for name, sent, limit in numbers if sent not in (None, limit)}


def _whole_or_several(fits: Split, rooms: Rooms, alone: Rooms) -> Split:
    """What fits in place of one node where a job of one node must fit ``alone``: less on it, else several nodes."""
    each = min(fits.per_node, alone.most_per_node(1))
    if each:
        return Split(1, each)
    each = min(fits.per_node, rooms.most_per_node(2))
    return Split(rooms.most_nodes(each) if each else 0, each)


def _too_many(there: ResourceRequest, count: int, pool: Pool, *, over_nodes: bool) -> FieldError:
    """The refusal of a count whose nodes the scheduler was to choose, for which there is no room ``there``."""
    rooms = rooms_at_door(pool, there, over_nodes=over_nodes)
    most = rooms.most()
    if not over_nodes and rooms_for(pool, there).split(count) is not None:
        room = f"{gpus_in_words(count)}{memory_word(there)}"
        message = f"{ONE_NODE_ONLY}, and no node has room for {room}: ask for at most {most}"
        return FieldError("gpu_count", "one_node_only", message, most)
    several = there.required_level == "rack" or rooms.most_nodes(1) > 1
    instead = instead_of(
        there, lambda changed: rooms_at_door(pool, changed, over_nodes=over_nodes).split(count) is not None
    )
    told = count_message(there, count, most, several=several) + (instead if most else "")
    if over_nodes and most:
        told += _spread_out(there, count, pool)
    return FieldError("gpu_count", code_of(there, several=several), told, most)


def _spread_out(there: ResourceRequest, count: int, pool: Pool) -> str:
    """Why a count is too many that there is room for spread out, as the end of a sentence; nothing where there is none,
    or more is asked for of how they lie."""
    if there.allow_span or there.nvlink_required or there.required_level or there.max_wait_for_level_s:
        return ""
    spread = rooms_for(pool, replace(there, allow_span=True)).most()
    if spread < count:
        return ""
    return (
        "; each of its nodes gives as many, but for one that may give fewer: with allow_span, where each gives what it "
        f"has, there is room for {spread}"
    )


def _on_one_node(wanted: ResourceRequest, counts: Counts, fits: Split) -> Iterator[FieldError]:
    """The refusal of several nodes where only one is taken: the same GPUs on one, or as many as it has."""
    limits = _changes(counts, fits)
    for field, limit in limits.items():
        if not fits.per_node:
            yield FieldError(field, code_of(wanted, several=False), nothing_there(wanted), 0)
            continue
        yield FieldError(field, "one_node_only", f"{ONE_NODE_ONLY}: {ask_for(limits)}", limit)


def _changed(there: ResourceRequest, counts: Counts, asked: Split, pool: Pool, fits: Split) -> Iterator[FieldError]:
    """The refusals of the numbers that must change for the nodes that were asked for, to those that fit ``there``."""
    instead = instead_of(there, lambda changed: rooms_for(pool, changed).holds(asked.nodes, asked.per_node))
    limits = _changes(counts, fits)
    for field, limit in limits.items():
        several = asked.nodes > 1 and field != "gpus_per_node"
        told = nodes_message(there, asked, fits, limits) + (instead if fits.nodes and fits.per_node else "")
        yield FieldError(field, code_of(there, several=several), told, limit)


def _partner_errors(wanted: ResourceRequest, pool: Pool) -> Iterator[FieldError]:
    """A refusal of being near a group in a kind of place that no installed GPU is in."""
    near = wanted.near
    if near is None or not pool.nodes:
        return
    present = {"node": True, "nvlink_group": bool(pool.by_group), "rack": any(node.rack_id for node in pool.nodes)}
    if present[near.level]:
        return
    known = tuple(level for level in PLACES if present[level])
    what = "NVLink groups" if near.level == "nvlink_group" else "racks with a name"
    message = f"the pool has no {what}, so nothing can be near another job in one; with.level may be {', '.join(known)}"
    yield FieldError("with.level", "unsatisfiable_rule", message, known)
