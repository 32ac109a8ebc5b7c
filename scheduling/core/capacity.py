"""Could the pool as installed ever hold this request? The refusals of D14, each with the largest that would pass.

Installed counts, busy or free, healthy or not: health comes back, and a job should not be refused for a blip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduling.core.counts import MAX_GPUS, Counts
from scheduling.core.feasibility import could_hold
from scheduling.core.largest import Rooms, Split, rooms_for
from scheduling.core.limits import as_it_lies, counted, rule_error
from scheduling.core.pool import Pool
from scheduling.core.resources import PLACES, FieldError, ResourceRequest
from scheduling.core.units import gb
from scheduling.core.words import gpus_in_words, nodes_in_words

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
    mismatch = _mismatch(counts, split) if counts.disagree and split else ()
    if split is not None and holds(wanted):
        found = (*mismatch, *partners)
        return Verdict(None if found else _with(wanted, split), found)
    asked = counted(wanted, pool)
    whole = alone.nvlink_exclusive and not wanted.nvlink_exclusive
    too_large = _count_errors(asked, counts, pool, over_nodes=over_nodes, whole=whole)
    refused = [*(too_large or mismatch), *partners]
    if asked.nvlink_exclusive != wanted.nvlink_exclusive:
        refused.append(_no_whole_group())
    if asked.affinity != wanted.affinity:
        less = asked.gpu_memory_min_mib != wanted.gpu_memory_min_mib
        refused.append(rule_error(wanted, pool, apart=less))
    elif wanted.required_terms and not too_large and not holds(asked):
        most = rooms_at_door(pool, asked, over_nodes=over_nodes).most()
        there = f"; at most {gpus_in_words(most)} would be placed there" if most else ""
        refused.append(rule_error(asked, pool, most=there))
    return Verdict(None, tuple(refused))


def _held(wanted: ResourceRequest, split: Split | None, pool: Pool, *, over_nodes: bool) -> bool:
    """Whether the pool as installed could hold the request on these nodes, and a job may lie on so many."""
    if split is None or (pool.nodes and wanted.gpu_memory_min_mib > pool.largest_memory()):
        return False
    request = _with(wanted, split)
    return (over_nodes or not request.is_gang) and (not pool.nodes or could_hold(pool, request))


def _no_whole_group() -> FieldError:
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


def _mismatch(counts: Counts, split: Split) -> tuple[FieldError, ...]:
    product = split.nodes * split.per_node
    message = (
        f"gpu_count must be node_count * gpus_per_node: {counts.gpus} is not {split.nodes} * {split.per_node} = "
        f"{product}; give numbers that agree, or leave one of them out"
    )
    return (FieldError("gpu_count", "mismatch", message, product),)


def _count_errors(
    wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool, whole: bool
) -> tuple[FieldError, ...]:
    """The refusals of counts that no place of this memory and topology could hold, whatever the required rules.

    The limits are of where those rules hold, if they hold anywhere. ``whole``: on one node it would have a whole NVLink
    group.
    """
    bare = replace(wanted, affinity=())
    rooms, asked = rooms_at_door(pool, bare, over_nodes=over_nodes), counts.asked
    ruled = rooms_at_door(pool, wanted, over_nodes=over_nodes)
    limits = ruled if ruled.scopes else rooms
    if asked is None:
        count = counts.gpus or 1
        return (
            () if rooms.split(count) is not None else (_too_many(wanted, count, pool, limits, over_nodes=over_nodes),)
        )
    if rooms.holds(asked.nodes, asked.per_node):
        return ()
    if not rooms.scopes and not counts.any_read:
        return (FieldError("gpu_count", _code(wanted, several=False), _nothing(wanted), 0),)
    if asked.nodes > 1 and not over_nodes:
        return tuple(_on_one_node(wanted, counts, asked, limits.most_per_node(1) if pool.nodes else MAX_GPUS))
    fits = limits.nearest(asked, keep_nodes=counts.per_node is None)
    if whole and fits.nodes == 1:
        single = replace(wanted if ruled.scopes else bare, nvlink_exclusive=True)
        fits = _whole_or_several(fits, limits, rooms_for(pool, single))
    return tuple(_changed(wanted, counts, asked, pool, fits))


def _whole_or_several(fits: Split, rooms: Rooms, alone: Rooms) -> Split:
    """What fits in place of one node where a job of one node must fit ``alone``: less on it, else several nodes."""
    each = min(fits.per_node, alone.most_per_node(1))
    if each:
        return Split(1, each)
    each = min(fits.per_node, rooms.most_per_node(2))
    return Split(rooms.most_nodes(each) if each else 0, each)


def _too_many(wanted: ResourceRequest, count: int, pool: Pool, rooms: Rooms, *, over_nodes: bool) -> FieldError:
    """The refusal of a count whose nodes the scheduler was to choose."""
    bare, most = replace(wanted, affinity=()), rooms.most()
    if not over_nodes and rooms_for(pool, bare).split(count) is not None:
        room = f"{gpus_in_words(count)}{_memory_word(wanted)}"
        message = f"{ONE_NODE_ONLY}, and no node has room for {room}: ask for at most {most}"
        return FieldError("gpu_count", "one_node_only", message, most)
    several = wanted.required_level == "rack" or rooms.most_nodes(1) > 1
    instead = _instead(
        bare, lambda changed: rooms_at_door(pool, changed, over_nodes=over_nodes).split(count) is not None
    )
    told = _count_message(wanted, count, most, several=several) + (instead if most else "")
    if over_nodes and most:
        told += _spread_out(bare, count, pool)
    return FieldError("gpu_count", _code(wanted, several=several), told, most)


def _spread_out(bare: ResourceRequest, count: int, pool: Pool) -> str:
    """Why a count is too many that the pool would hold spread out, as the end of a sentence; nothing where it is not,
    or more is asked for of how they lie."""
    if bare.allow_span or bare.nvlink_required or bare.required_level or bare.max_wait_for_level_s:
        return ""
    spread = rooms_for(pool, replace(bare, allow_span=True)).most()
    if spread < count:
        return ""
    return (
        "; each of its nodes gives as many, but for one that may give fewer: with allow_span, where each gives what it "
        f"has, there is room for {spread}"
    )


def _on_one_node(wanted: ResourceRequest, counts: Counts, asked: Split, most: int) -> Iterator[FieldError]:
    """The refusal of several nodes where only one is taken: the same GPUs on one, or as many as it has."""
    per_node = min(most, counts.per_node or counts.gpus or 1)
    numbers = {
        "gpu_count": (counts.gpus, per_node),
        "node_count": (counts.nodes, 1),
        "gpus_per_node": (counts.per_node, per_node),
    }
    limits = {field: limit for field, (sent, limit) in numbers.items() if sent not in (None, limit)}
    for field, limit in limits.items():
        if not most:
            yield FieldError(field, _code(wanted, several=False), _nothing(wanted), 0)
            continue
        yield FieldError(field, "one_node_only", f"{ONE_NODE_ONLY}: {_ask_for(limits)}", limit)


def _changed(wanted: ResourceRequest, counts: Counts, asked: Split, pool: Pool, fits: Split) -> Iterator[FieldError]:
    """The refusals of the numbers that must change for the nodes that were asked for, to those that fit."""
    instead = _instead(
        replace(wanted, affinity=()), lambda changed: rooms_for(pool, changed).holds(asked.nodes, asked.per_node)
    )
    numbers = {
        "node_count": (counts.nodes, fits.nodes, asked.nodes),
        "gpus_per_node": (counts.per_node, fits.per_node, asked.per_node),
        "gpu_count": (counts.gpus, fits.nodes * fits.per_node, counts.gpus),
    }
    limits = {field: limit for field, (sent, limit, value) in numbers.items() if sent is not None and limit != value}
    for field, limit in limits.items():
        several = asked.nodes > 1 and field != "gpus_per_node"
        told = _message(wanted, asked, fits, limits) + (instead if fits.nodes and fits.per_node else "")
        yield FieldError(field, _code(wanted, several=several), told, limit)


def _ask_for(limits: Mapping[str, int]) -> str:
    """What to ask for instead; of several numbers none helps without the others."""
    told = " and ".join(f"{field} of at most {limit}" for field, limit in limits.items())
    return f"ask for {told}{' together' if len(limits) > 1 else ''}"


def _instead(wanted: ResourceRequest, holds: Callable[[ResourceRequest], bool]) -> str:
    """What to leave out for the same counts to be held, as the end of a sentence; nothing where nothing helps."""
    loose = {
        "required_level": replace(wanted, required_level=None),
        "nvlink_required": replace(wanted, nvlink_required=False, nvlink_exclusive=False),
    }
    names = [name for name, changed in loose.items() if changed != wanted and holds(changed)]
    return "".join(f", or leave {name} out" for name in names)


def _code(wanted: ResourceRequest, *, several: bool) -> str:
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


def _memory_word(wanted: ResourceRequest) -> str:
    return f" with at least {gb(wanted.gpu_memory_min_mib)}" if wanted.gpu_memory_min_mib else ""


def _nothing(wanted: ResourceRequest) -> str:
    what = f"GPUs{_memory_word(wanted)}"
    if wanted.nvlink_required:
        whole = " that lies wholly on one node" if wanted.nvlink_exclusive else ""
        return f"the pool has no NVLink group{whole} with {what}; ask without nvlink_required"
    if wanted.required_level == "nvlink_group":
        return f"the pool has no NVLink group with {what}; ask without required_level"
    return f"the pool has no {what}"


def _count_message(wanted: ResourceRequest, count: int, most: int, *, several: bool) -> str:
    if not most:
        return _nothing(wanted)
    room = f"room for {gpus_in_words(count)}{_memory_word(wanted)}"
    return f"{_lacks(wanted, several=several)} {room}: ask for at most {most}"


def _message(wanted: ResourceRequest, asked: Split, fits: Split, limits: Mapping[str, int]) -> str:
    if not fits.nodes or not fits.per_node:
        return _nothing(wanted)
    lacks, gpus = _lacks(wanted, several=asked.nodes > 1), f"{gpus_in_words(asked.per_node)}{_memory_word(wanted)}"
    if asked.nodes == 1:
        ask = f"ask for at most {fits.per_node}" if len(limits) == 1 else _ask_for(limits)
        return f"{lacks} {gpus}; the largest has {fits.per_node}: {ask}"
    return (
        f"{lacks} {nodes_in_words(asked.nodes)} with {gpus} each; {fits.nodes} with {fits.per_node} would fit: "
        f"{_ask_for(limits)}"
    )


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
