"""Which resources are asked for, and how may they lie? The part of a submission that decides where it can run."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.affinity import read_affinity
from scheduling.core.capacity import ONE_NODE_ONLY, judge, rooms_at_door
from scheduling.core.counts import MAX_GPUS, Counts, Unbounded, largest_beside, read_counts, tell_unread
from scheduling.core.fields import Fields, as_whole, nearest, shown
from scheduling.core.largest import Rooms
from scheduling.core.limits import as_it_lies, beside, memory_errors, most_memory, with_rules_apart
from scheduling.core.neighbours import read_neighbours
from scheduling.core.patience import read_patience, refuse_idle_patience
from scheduling.core.policy import Policy, QueuePolicy
from scheduling.core.pool import Pool
from scheduling.core.resources import RUNGS, FieldError, ResourceRequest
from scheduling.core.rule_advice import with_advice
from scheduling.core.units import TooMuch, as_memory, parse_duration, parse_memory


def read_resources(
    fields: Fields, policy: Policy, pool: Pool, *, queue: QueuePolicy | None, over_nodes: bool = True
) -> ResourceRequest | None:
    """The resources asked for, or None; whatever can be judged is judged even when something else is wrong.

    ``over_nodes``: whether jobs that lie on several nodes are taken. When they aren't, no limit names more than one
    node has.
    """
    counts = read_counts(fields, most=None if pool.nodes else MAX_GPUS)
    wanted, exclusive = _wanted(fields, policy, counts, queue=queue, over_nodes=over_nodes)
    lies = as_it_lies(wanted, counts, over_nodes=over_nodes)
    memory = _memory(fields, lies, pool)
    if memory:
        fields.errors += memory_errors(memory, lies, pool)
    wanted = replace(wanted, gpu_memory_min_mib=memory or 0)
    verdict = judge(wanted, counts, pool, over_nodes=over_nodes)
    for error in verdict.errors:
        fields.refuse(error.field, error.code, error.message, error.limit)
    _tell_unread(fields, wanted, counts, pool, over_nodes=over_nodes, exclusive=exclusive)
    if memory is None:
        _tell_memory_that_goes_with(fields, wanted, counts, pool, over_nodes=over_nodes)
    advised = with_advice(fields.errors, wanted, counts, pool, over_nodes=over_nodes)
    fields.errors = [_as_sent(fields, error) for error in with_rules_apart(advised)]
    if wanted.max_wait_for_level_s is not None:
        refuse_idle_patience(fields, wanted, verdict, counts, pool, over_nodes=over_nodes)
    if verdict.request is None or not counts.whole:
        return None
    return replace(verdict.request, nvlink_exclusive=exclusive)


def _wanted(
    fields: Fields, policy: Policy, counts: Counts, *, queue: QueuePolicy | None, over_nodes: bool
) -> tuple[ResourceRequest, bool]:
    """All that is asked for but the counts and the memory, and whether a whole NVLink group was asked for by name: the
    policy may give one to whoever needs NVLink."""
    nvlink = fields.flag("nvlink_required", default=False)
    exclusive = _exclusive(fields, nvlink)
    if exclusive and _is_on_several(counts):
        _refuse_whole_on_several(fields)
        exclusive = False
    needed = nvlink or exclusive  # a whole group is only given with true, so one that can't be read counts as that
    near, apart = read_neighbours(fields)
    wanted = ResourceRequest(
        gpu_count=1,
        nvlink_required=bool(needed),
        nvlink_exclusive=bool(needed) and (exclusive or policy.nvlink_mode == "exclusive"),
        required_level=_rung(fields),
        max_duration_s=_duration(fields, policy, queue) or 1,
        affinity=read_affinity(fields),
        allow_span=_spread(fields, over_nodes=over_nodes),
        max_wait_for_level_s=read_patience(fields),
        near=near,
        apart=apart,
    )
    return wanted, exclusive


def _as_sent(fields: Fields, error: FieldError) -> FieldError:
    """The error with the fields of its limits as the sender spells them."""
    return replace(error, limits={fields.spelt(name): limit for name, limit in (error.limits or {}).items()} or None)


def _tell_unread(
    fields: Fields, wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool, exclusive: bool
) -> None:
    """The numbers that can't be read, each with the largest that goes with all that has been told of the others.

    Where whole groups are the rule of the pool, several nodes come first, which share them; ``exclusive``: one was
    asked for, and that one node is.
    """
    asked, told = beside(fields.errors, wanted, counts, pool, over_nodes=over_nodes)
    shared = replace(asked, nvlink_exclusive=asked.nvlink_exclusive and (exclusive or not over_nodes))
    for tried in (shared, asked):
        limits = largest_beside(told, _rooms(tried, pool, over_nodes=over_nodes))
        if limits and as_it_lies(asked, told.at_most(limits), over_nodes=over_nodes) == tried:
            break
    idle = () if limits or not _is_held_without(asked, told, pool, over_nodes=over_nodes) else told.unread
    tell_unread(fields, told, limits, most=None if pool.nodes else MAX_GPUS, idle=idle)


def _is_held_without(asked: ResourceRequest, told: Counts, pool: Pool, *, over_nodes: bool) -> bool:
    """Whether the count is held without the numbers that can't be read."""
    return told.gpus is not None and judge(asked, told, pool, over_nodes=over_nodes).request is not None


def _rooms(asked: ResourceRequest, pool: Pool, *, over_nodes: bool) -> Rooms:
    """What such a job may have, of the nodes of the pool or while there is none."""
    if pool.nodes:
        return rooms_at_door(pool, asked, over_nodes=over_nodes)
    rooms = Unbounded(())
    return rooms if over_nodes and not asked.nvlink_exclusive else rooms.of_one_node()


def _exclusive(fields: Fields, nvlink: bool | None) -> bool:
    """Whether a whole NVLink group is asked for, for all that is known of ``nvlink_required``."""
    exclusive = fields.flag("nvlink_exclusive", default=False)
    if exclusive and nvlink is False:
        message = "nvlink_exclusive takes a whole NVLink group, so nvlink_required must be true with it"
        fields.refuse("nvlink_exclusive", "needs_nvlink", message)
    return bool(exclusive) and nvlink is not False


def _is_on_several(counts: Counts) -> bool:
    return counts.asked is not None and counts.asked.nodes > 1


def _refuse_whole_on_several(fields: Fields) -> None:
    message = (
        "nvlink_exclusive takes a whole NVLink group of one node, which a job over several nodes can't have; "
        "leave it out, or ask for one node"
    )
    fields.refuse("nvlink_exclusive", "one_node_only", message)


def _spread(fields: Fields, *, over_nodes: bool) -> bool:
    """Whether the GPUs may lie on any nodes; what binds them together can't be asked for beside it."""
    if not fields.flag("allow_span", default=False):
        return False
    if not over_nodes and as_whole(fields.value("gpu_count")) != 1:  # it goes, whatever contradicts it
        message = f"allow_span lets the GPUs lie on several nodes, and {ONE_NODE_ONLY}; leave it out"
        fields.refuse("allow_span", "one_node_only", message)
        return False
    contradicted = False
    for name, wanted in (
        ("node_count", fields.value("node_count") is not None and as_whole(fields.value("node_count")) != 1),
        ("gpus_per_node", fields.value("gpus_per_node") is not None),
        ("nvlink_required", fields.value("nvlink_required") is True),
        ("nvlink_exclusive", fields.value("nvlink_exclusive") is True),
        ("required_level", fields.value("required_level") is not None),
        ("max_wait_for_level", fields.value("max_wait_for_level") is not None),
    ):
        if wanted:
            which = f"allow_span lets the GPUs lie on any nodes, which {fields.spelt(name)} contradicts"
            counted = name in ("node_count", "gpus_per_node") and fields.value("gpu_count") is None
            message = f"{which}; leave {'allow_span out, or ask by gpu_count alone' if counted else 'one out'}"
            fields.refuse("allow_span", "contradiction", message)
            contradicted = True
    return not contradicted


def _rung(fields: Fields) -> str | None:
    value = fields.value("required_level")
    if value is None or value in RUNGS:
        return value if isinstance(value, str) else None
    message = f"required_level must be {' or '.join(RUNGS)}, not {shown(value)}{nearest(value, RUNGS)}"
    fields.refuse("required_level", "unknown_level", message, RUNGS)
    return None


def _memory(fields: Fields, wanted: ResourceRequest, pool: Pool) -> int | None:
    """The memory asked for in MiB, 0 for any, None for what can't be read; of what is beyond all bounds the most there
    is for such a request. Each error has that as its limit."""
    value = fields.value("gpu_memory_min")
    if value is None:
        return 0
    try:
        return parse_memory(value, "gpu_memory_min")
    except ValueError as error:
        most = as_memory(most_memory(wanted, pool)) if pool.installed else None
        if most and isinstance(error, TooMuch):
            message = f"gpu_memory_min must be at most {most}, which the largest GPUs have, not {shown(value)}"
            fields.refuse("gpu_memory_min", "no_such_memory", message, most)
            return most_memory(wanted, pool)
        upto = f"; at most {most}" if most else ""
        fields.refuse("gpu_memory_min", "bad_memory", f"{error}{upto} (not {shown(value)})", most)
        return None


def _tell_memory_that_goes_with(
    fields: Fields, wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool
) -> None:
    """The limit of a memory that can't be read is the most with which the counts fit, or what is told instead."""
    asked, told = beside(fields.errors, wanted, counts, pool, over_nodes=over_nodes)
    for size in reversed(pool.inventory.memory_sizes):
        if judge(replace(asked, gpu_memory_min_mib=size), told, pool, over_nodes=over_nodes).request is not None:
            break
    else:
        return
    for place, error in enumerate(fields.errors):
        most, fits = error.limit, as_memory(size)
        if error.code == "bad_memory" and isinstance(most, str) and most != fits:
            message = error.message.replace(f"at most {most}", f"at most {fits} beside the counts")
            fields.errors[place] = replace(error, limit=fits, message=message)


def _duration(fields: Fields, policy: Policy, queue: QueuePolicy | None) -> int | None:
    """The seconds that it may run, or None after an error. Of a queue there is not, what no queue allows is told."""
    value = fields.value("max_duration")
    if value is None:
        return queue.default_max_duration_s if queue else None
    cap = queue.max_duration_cap_s if queue else max(each.max_duration_cap_s for each in policy.queues)
    where = f"queue {queue.name}" if queue else "any queue"
    try:
        seconds = parse_duration(value, fields.spelt("max_duration"))
    except ValueError as error:
        if isinstance(error, TooMuch):
            message = f"max_duration may be at most {cap} seconds in {where}, not {shown(value)}: ask for less"
            fields.refuse("max_duration", "above_cap", message, cap)
            return None
        fields.refuse("max_duration", "bad_duration", f"{error}; up to {cap} seconds (not {shown(value)})", cap)
        return None
    if seconds > cap:
        message = (
            f"max_duration may be at most {cap} seconds in {where}, and {shown(value)} counts as {seconds} "
            "seconds: ask for less"
        )
        fields.refuse("max_duration", "above_cap", message, cap)
        return None
    return seconds
