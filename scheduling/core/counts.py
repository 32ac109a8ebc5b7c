"""How many GPUs, on how many nodes? What a submission says in up to three numbers, and the nodes that follow (D17)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.fields import Fields, as_whole
from scheduling.core.largest import Rooms, Split

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
    def disagree(self) -> bool:
        """Whether the numbers can't all be true: the count is the product (D17)."""
        return self.asked is not None and self.gpus not in (None, self.asked.nodes * self.asked.per_node)


def read_counts(fields: Fields, rooms: Rooms | None) -> Counts:
    """The numbers, ``whole`` or after an error. ``rooms`` tell the largest that fit; None while there is no node."""
    gpus, nodes, per_node = (_plain(fields.value(name)) for name in NAMES)
    sent = Counts(gpus, nodes, per_node)
    given = tuple(fields.value(name) is not None for name in NAMES)
    told = (None, None, None) if rooms is None else _largest(rooms, sent, given)
    most = MAX_GPUS if rooms is None else None
    read = [
        fields.whole(name, default=0, least=1, most=most, told=limit or None)
        for name, limit in zip(NAMES, told, strict=True)
    ]
    whole = None not in read
    if not given[0] and not given[2]:
        limit = most or told[0] or None
        upto = f"to {limit}" if limit else "up"
        message = f"say how many GPUs the job needs, a whole number from 1 {upto}"
        fields.refuse("gpu_count", "required", message, limit)
        whole = False
    gpus, nodes, per_node = (value or None for value in read)
    return Counts(gpus, nodes, per_node, whole)


def _plain(value: object) -> int | None:
    """The whole number from 1 up that the value is, to see what else would fit with it; None for anything else."""
    read = as_whole(value)
    return read if isinstance(read, int) and read > 0 else None


def _largest(rooms: Rooms, sent: Counts, given: tuple[bool, ...]) -> tuple[int, int, int]:
    """The largest value of each field that fits with the others as they were sent, 0 for none."""
    gpus, nodes, per_node = sent.gpus, sent.nodes, sent.per_node
    if gpus is not None and not given[2]:
        counts = range(min(gpus, rooms.most_nodes(1)), 0, -1)
        most_nodes = next((n for n in counts if gpus % n == 0 and rooms.holds(n, gpus // n)), 0)
    else:
        most_nodes = rooms.most_nodes(per_node or (rooms.most_per_node(nodes or 1) if given[2] else 1))
    if gpus is not None and not given[1]:
        counts = range(min(gpus, rooms.most_per_node(1)), 0, -1)
        most_per_node = next((g for g in counts if gpus % g == 0 and rooms.holds(gpus // g, g)), 0)
    else:
        most_per_node = rooms.most_per_node(nodes or 1)
    if given[1] and given[2]:
        return (nodes or most_nodes) * (per_node or most_per_node), most_nodes, most_per_node
    if given[1]:
        in_all = (nodes or most_nodes) * rooms.most_per_node(nodes or most_nodes) if nodes or most_nodes else 0
    elif given[2]:
        in_all = (per_node or most_per_node) * rooms.most_nodes(per_node or most_per_node or 1)
    else:
        in_all = rooms.most()
    return in_all, most_nodes, most_per_node
