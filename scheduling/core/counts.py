"""How many GPUs, on how many nodes? What a submission says in up to three numbers, and the nodes that follow (D17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.core.fields import Fields, as_whole, shown
from scheduling.core.largest import Rooms, Split
from scheduling.core.resources import FieldError, Limit
from scheduling.core.words import gpus_in_words, names_in_words

NAMES = ("gpu_count", "node_count", "gpus_per_node")
MAX_GPUS = 65_536  # while no node is registered nothing else bounds a count


@dataclass(frozen=True, slots=True)
class Counts:
    """``gpu_count``, ``node_count`` and ``gpus_per_node`` as they were sent; None for one that was not.

    ``unread``: the names of those that are None since they can't be read, or since none says how many GPUs. What is
    wrong with the others is wrong all the same, and the job is refused.
    """

    gpus: int | None
    nodes: int | None
    per_node: int | None
    unread: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return not self.unread

    @property
    def asked(self) -> Split | None:
        """The nodes that were asked for by number; None when the scheduler is to choose how many."""
        if self.gpus is None:
            return Split(self.nodes or 1, self.per_node or 1)
        if self.per_node is not None:
            return Split(self.nodes or max(1, self.gpus // self.per_node), self.per_node)
        return None if self.nodes is None else Split(self.nodes, max(1, self.gpus // self.nodes))

    @property
    def numbers(self) -> tuple[int | None, int | None, int | None]:
        """The numbers of the fields of ``NAMES``, in that order."""
        return self.gpus, self.nodes, self.per_node

    @property
    def any_read(self) -> bool:
        """Whether there is any number at all."""
        return any(self.numbers)

    @property
    def disagree(self) -> bool:
        """Whether the numbers can't all be true: the count is the product (D17)."""
        return self.asked is not None and self.gpus not in (None, self.asked.nodes * self.asked.per_node)

    @property
    def counts_nodes(self) -> bool:
        """Whether a number of nodes was sent, be it one that can't be read."""
        return self.nodes is not None or "node_count" in self.unread

    @property
    def counts_each(self) -> bool:
        """Whether a number of GPUs on each node was sent, be it one that can't be read."""
        return self.per_node is not None or "gpus_per_node" in self.unread

    def at_most(self, limits: Mapping[str, Limit]) -> Counts:
        """The numbers with those limits in place of what was sent that are whole numbers of fields of ``NAMES``."""
        told = {name: limit for name, limit in limits.items() if name in NAMES and isinstance(limit, int) and limit}
        gpus, nodes, per_node = (told.get(name) or sent for name, sent in zip(NAMES, self.numbers, strict=True))
        return Counts(gpus, nodes, per_node, tuple(name for name in self.unread if name not in told))


class Unbounded(Rooms):
    """The rooms while no node is registered: any nodes with no more than ``MAX_GPUS`` in all."""

    def most_per_node(self, nodes: int) -> int:
        """The most GPUs on each of so many nodes."""
        return MAX_GPUS // nodes

    def most_nodes(self, per_node: int) -> int:
        """The most nodes with so many GPUs each."""
        return MAX_GPUS // per_node

    def most(self) -> int:
        """The largest count."""
        return MAX_GPUS

    def of_one_node(self) -> Rooms:
        """One node that has them all."""
        return Rooms(((MAX_GPUS,),))


def read_counts(fields: Fields, *, most: int | None) -> Counts:
    """The numbers that can be read. Of the others nothing is told yet: see :func:`tell_unread`. A number above ``most``
    is one that can't be read."""
    numbers, unread = dict[str, int | None](), list[str]()
    for name in NAMES:
        value = fields.value(name)
        read = as_whole(value)
        numbers[name] = read if isinstance(read, int) and 1 <= read <= (most or read) else None
        if value is not None and numbers[name] is None:
            unread.append(name)
    if fields.value("gpu_count") is None and fields.value("gpus_per_node") is None:
        unread.append("gpu_count")
    gpus, nodes, per_node = numbers.values()
    return Counts(gpus, nodes, per_node, tuple(unread))


def tell_unread(
    fields: Fields, counts: Counts, limits: Mapping[str, int], *, most: int | None, idle: Sequence[str] = ()
) -> None:
    """An error for each number that can't be read, with its limit or without one where none fits.

    ``idle``: the numbers to leave out, all together, as the count is held without them and with none of theirs.
    """
    for name in counts.unread:
        limit = limits.get(name)
        if fields.value(name) is None:
            upto = f"to {limit}" if limit else "up"
            message = f"say how many GPUs the job needs, a whole number from 1 {upto}"
            fields.refuse(name, "required", message, limit)
            continue
        fields.whole(name, default=0, least=1, most=most, told=limit)
        if not limit:
            fields.errors[-1] = replace(fields.errors[-1], limit=None)
        if name in idle:
            fields.errors[-1] = _left_out(fields, name, counts, idle)


def _left_out(fields: Fields, name: str, counts: Counts, idle: Sequence[str]) -> FieldError:
    """The last error, which says to leave the number out."""
    which = "it" if len(idle) == 1 else names_in_words([fields.spelt(each) for each in idle])
    message = (
        f"{name} must be a whole number from 1 up, not {shown(fields.value(name))}, and none goes with "
        f"{gpus_in_words(counts.gpus or 1)}: leave {which} out"
    )
    return replace(fields.errors[-1], message=message, limits=dict.fromkeys(idle))


def largest_beside(counts: Counts, rooms: Rooms) -> dict[str, int]:
    """The largest value of each number that can't be read, which the rooms hold together with the others; empty if
    there are none such."""
    if not counts.unread:
        return {}
    split = _even(counts, rooms) if counts.gpus else _open(counts, rooms)
    if split is None or not split.nodes or not split.per_node or not rooms.holds(split.nodes, split.per_node):
        return {}
    in_all = split.nodes * split.per_node
    if not counts.counts_nodes and not counts.counts_each:
        in_all = rooms.most()
    if counts.gpus not in (None, in_all):
        return {}
    numbers = {"gpu_count": in_all, "node_count": split.nodes, "gpus_per_node": split.per_node}
    return {name: numbers[name] for name in counts.unread}


def _even(counts: Counts, rooms: Rooms) -> Split | None:
    """The count over nodes alike: as they are known, else the most GPUs on each, or the most nodes where that alone is
    to be told."""
    count = counts.gpus or 1
    if counts.nodes or counts.per_node:
        nodes = counts.nodes or count // (counts.per_node or 1)
        return Split(nodes, counts.per_node or count // nodes) if nodes else None
    each = range(1, min(count, rooms.most_per_node(1)) + 1)
    suit = (g for g in (reversed(each) if counts.counts_each else each) if count % g == 0)
    return next((Split(count // g, g) for g in suit if rooms.holds(count // g, g)), None)


def _open(counts: Counts, rooms: Rooms) -> Split | None:
    """The largest nodes, where no count is known: the number of GPUs on each comes first if both are to be told."""
    nodes, per_node = counts.nodes, counts.per_node
    if not nodes and not per_node:
        if counts.counts_nodes and not counts.counts_each:
            nodes = rooms.most_nodes(1)
        else:
            per_node = rooms.most_per_node(1)
    if nodes:
        return Split(nodes, per_node or rooms.most_per_node(nodes))
    return Split(rooms.most_nodes(per_node), per_node) if per_node else None
