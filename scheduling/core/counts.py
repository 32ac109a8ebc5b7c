"""How many GPUs, on how many nodes? What a submission says in up to three numbers, and the nodes that follow (D17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduling.core.fields import Fields, as_whole
from scheduling.core.largest import Rooms, Split
from scheduling.core.resources import Limit

NAMES = ("gpu_count", "node_count", "gpus_per_node")
MAX_GPUS = 65_536  # while no node is registered nothing else bounds a count


@dataclass(frozen=True, slots=True)
class Counts:
    """``gpu_count``, ``node_count`` and ``gpus_per_node`` as they were sent; None for one that was not.

    ``whole``: nothing is missing. Else one could not be read, or none says how many GPUs: what is wrong with the others
    is wrong all the same, and the job is refused.
    """

    gpus: int | None
    nodes: int | None
    per_node: int | None
    whole: bool = True

    @property
    def asked(self) -> Split | None:
        """The nodes that were asked for by number; None when the scheduler is to choose how many."""
        if self.gpus is None:
            return Split(self.nodes or 1, self.per_node or 1)
        if self.per_node is not None:
            return Split(self.nodes or max(1, self.gpus // self.per_node), self.per_node)
        return None if self.nodes is None else Split(self.nodes, max(1, self.gpus // self.nodes))

    @property
    def any_read(self) -> bool:
        """Whether there is any number at all."""
        return bool(self.gpus or self.nodes or self.per_node)

    @property
    def disagree(self) -> bool:
        """Whether the numbers can't all be true: the count is the product (D17)."""
        return self.asked is not None and self.gpus not in (None, self.asked.nodes * self.asked.per_node)

    def at_most(self, limits: Mapping[str, Limit]) -> Counts:
        """The numbers with those limits in place of what was sent that are whole numbers of fields of ``NAMES``."""
        told = (limits.get(name) for name in NAMES)
        gpus, nodes, per_node = (limit if isinstance(limit, int) and limit else None for limit in told)
        return Counts(gpus or self.gpus, nodes or self.nodes, per_node or self.per_node)


def read_counts(fields: Fields, rooms: Rooms | None, *, most: int | None, over_nodes: bool = True) -> Counts:
    """The numbers, ``whole`` or after an error. ``rooms`` tell the largest that fit, None that nothing bounds them;
    what is above ``most`` is refused here. ``over_nodes``: whether a job may lie on several nodes."""
    gpus, nodes, per_node = (_plain(fields.value(name)) for name in NAMES)
    sent = Counts(gpus, nodes, per_node)
    given = tuple(fields.value(name) is not None for name in NAMES)
    told = _product(sent, given) if rooms is None else _largest(rooms, sent, given, over_nodes=over_nodes)
    read = [_number(fields, name, most, limit) for name, limit in zip(NAMES, told, strict=True)]
    whole = None not in read
    if not given[0] and not given[2]:
        limit = told[0] or most
        upto = f"to {limit}" if limit else "up"
        message = f"say how many GPUs the job needs, a whole number from 1 {upto}"
        fields.refuse("gpu_count", "required", message, limit)
        whole = False
    gpus, nodes, per_node = (value or None for value in read)
    return Counts(gpus, nodes, per_node, whole)


def _number(fields: Fields, name: str, most: int | None, limit: int) -> int | None:
    """The number, 0 where none was sent, None after an error. ``limit``: the largest that fits, 0 if none does, and
    then the error has no limit."""
    read = fields.whole(name, default=0, least=1, most=most, told=limit or None)
    if read is None and not limit:
        fields.errors[-1] = replace(fields.errors[-1], limit=None)
    return read


def _plain(value: object) -> int | None:
    """The whole number from 1 up that the value is, to see what else would fit with it; None for anything else."""
    read = as_whole(value)
    return read if isinstance(read, int) and read > 0 else None


def _product(sent: Counts, given: tuple[bool, ...]) -> tuple[int, int, int]:
    """The value of each field that is true beside the others as they were sent, while no node bounds them otherwise."""
    whole = sent.gpus or MAX_GPUS
    by_each = max(1, whole // (sent.per_node or 1)) if given[1] or sent.per_node else 1
    nodes = sent.nodes or by_each
    per_node = sent.per_node or max(1, whole // (nodes if given[1] else 1))
    return (nodes * per_node if given[1] or given[2] else MAX_GPUS), nodes, per_node


def _largest(rooms: Rooms, sent: Counts, given: tuple[bool, ...], *, over_nodes: bool) -> tuple[int, int, int]:
    """The largest value of each field that fits with the others as they were sent, 0 for none."""
    gpus, nodes, per_node = sent.gpus, sent.nodes, sent.per_node
    # What is too large is told so with a limit, and the others must fit that one.
    asked = sent.asked
    if gpus and asked and rooms.scopes and not rooms.holds(asked.nodes, asked.per_node):
        fits = rooms.nearest(asked, keep_nodes=per_node is None)
        if not over_nodes and asked.nodes > 1:
            fits = Split(1, min(rooms.most_per_node(1), per_node or gpus))
        return fits.nodes * fits.per_node, fits.nodes, fits.per_node
    if gpus and asked is None:
        gpus = min(gpus, rooms.most())
    if gpus is None and not rooms.holds(nodes or 1, per_node or 1):
        fits = rooms.nearest(Split(nodes or 1, per_node or 1), keep_nodes=per_node is None)
        nodes, per_node = nodes and fits.nodes, per_node and fits.per_node
    if gpus is not None and not given[2]:
        counts = range(min(gpus, rooms.most_nodes(1)), 0, -1)
        most_nodes = next((n for n in counts if gpus % n == 0 and rooms.holds(n, gpus // n)), 0)
    else:
        most_nodes = rooms.most_nodes(per_node or (rooms.most_per_node(nodes or 1) if given[2] else 1))
        if gpus and per_node:
            most_nodes = min(most_nodes, max(1, gpus // per_node))
    if gpus is not None and not given[1]:
        counts = range(min(gpus, rooms.most_per_node(1)), 0, -1)
        most_per_node = next((g for g in counts if gpus % g == 0 and rooms.holds(gpus // g, g)), 0)
    else:
        most_per_node = rooms.most_per_node(nodes or 1)
        if gpus and nodes:
            most_per_node = min(most_per_node, max(1, gpus // nodes))
    if gpus and given[1] and given[2] and not (nodes or per_node):
        counts = range(min(gpus, rooms.most_per_node(1)), 0, -1)
        most_per_node = next((g for g in counts if gpus % g == 0 and rooms.holds(gpus // g, g)), 0)
        most_nodes = gpus // most_per_node if most_per_node else 0
    if given[1] and given[2]:
        return (nodes or most_nodes) * (per_node or most_per_node), most_nodes, most_per_node
    if given[1]:
        in_all = (nodes or most_nodes) * rooms.most_per_node(nodes or most_nodes) if nodes or most_nodes else 0
    elif given[2]:
        in_all = (per_node or most_per_node) * rooms.most_nodes(per_node or most_per_node or 1)
    else:
        in_all = rooms.most()
    return in_all, most_nodes, most_per_node
