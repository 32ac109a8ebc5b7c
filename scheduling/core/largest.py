"""What is the largest that would fit the empty pool? Counted per node, in each boundary that a job may not cross."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from scheduling.core.pool import Gpu, Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.rules import holds


@dataclass(frozen=True, slots=True)
class Split:
    """A count of GPUs over nodes: ``per_node`` on each of ``nodes``, and ``remainder`` on one more."""

    nodes: int
    per_node: int
    remainder: int = 0


@dataclass(frozen=True)
class Rooms:
    """How many suiting GPUs each node has: one tuple a boundary, the largest node first, none empty.

    Of n nodes with at least g each there are enough exactly when the n-th largest has g, so every question here is a
    look at one place of a tuple. What fits is closed downwards: a job with one GPU, or one node, less fits too.
    """

    scopes: tuple[tuple[int, ...], ...]

    def of_one_node(self) -> Rooms:
        """The rooms for jobs that may lie on one node only: the largest node of each boundary."""
        return Rooms(tuple(sorted({sizes[:1] for sizes in self.scopes}, reverse=True)))

    def holds(self, nodes: int, per_node: int) -> bool:
        """Whether some boundary has ``nodes`` nodes with ``per_node`` each."""
        return per_node <= self.most_per_node(nodes)

    def most_per_node(self, nodes: int) -> int:
        """The most GPUs a node that as many as ``nodes`` nodes of one boundary have; 0 when there aren't so many."""
        return max((sizes[nodes - 1] for sizes in self.scopes if len(sizes) >= nodes), default=0)

    def most_nodes(self, per_node: int) -> int:
        """The most nodes of one boundary with ``per_node`` GPUs each."""
        return max((bisect_right(sizes, -per_node, key=lambda size: -size) for sizes in self.scopes), default=0)

    def nearest(self, asked: Split, *, keep_nodes: bool) -> Split:
        """The largest that fits and keeps one of the two numbers, the nodes first or the GPUs on each; else the smaller
        of both."""
        nodes, per_node = self.most_nodes(asked.per_node), self.most_per_node(asked.nodes)
        if per_node and (keep_nodes or not nodes):
            return Split(asked.nodes, per_node)
        if nodes:
            return Split(nodes, asked.per_node)
        largest = self.most_per_node(1)
        return Split(self.most_nodes(largest) if largest else 0, largest)

    def most(self) -> int:
        """The largest count that :meth:`split` finds nodes for."""
        return max((self._most_of(sizes) for sizes in self.scopes), default=0)

    @staticmethod
    def _most_of(sizes: tuple[int, ...]) -> int:
        return max([sizes[0], *(nodes * large + small for nodes, (large, small) in enumerate(pairwise(sizes), 1))])

    def split(self, count: int) -> Split | None:
        """``count`` GPUs over the fewest nodes: evenly if it divides by them, else full nodes and a rest; or None."""
        if not 1 <= count <= self.most():
            return None
        fewest = -(-count // self.most_per_node(1))
        for nodes in range(fewest, max(len(sizes) for sizes in self.scopes) + 1):
            if count % nodes == 0 and self.holds(nodes, count // nodes):
                return Split(nodes, count // nodes)
            full = max((self._full(sizes, count, nodes) for sizes in self.scopes), default=0)
            if full:
                return Split(nodes - 1, full, count - (nodes - 1) * full)
        return None

    @staticmethod
    def _full(sizes: tuple[int, ...], count: int, nodes: int) -> int:
        """The most GPUs on all but one of ``nodes`` nodes such that the rest, which is less, fits the last; or 0."""
        if nodes < 2 or len(sizes) < nodes:
            return 0
        full = min(sizes[nodes - 2], (count - 1) // (nodes - 1))
        rest = count - (nodes - 1) * full
        return full if rest < full and rest <= sizes[nodes - 1] else 0


def rooms_for(pool: Pool, request: ResourceRequest) -> Rooms:
    """The rooms of what is installed for a request of this memory, rules and topology, whatever its counts."""
    bare = replace(request, gpu_count=1, node_count=1, gpus_per_node=1, remainder=0, max_duration_s=1)
    name = f"rooms for {bare}"
    kept = pool.kept.get(name)
    if not isinstance(kept, Rooms):
        kept = pool.kept[name] = _counted(pool, bare)
    return kept


def _counted(pool: Pool, request: ResourceRequest) -> Rooms:
    suited = _suited(pool, request)
    if request.allow_span:
        return _rooms([len(suited)])
    if request.nvlink_exclusive:
        among = {gpu.uuid for gpu in suited}
        whole = (cell for cell in pool.cells if cell.group is not None and cell.whole_group)
        return _rooms(*([sum(gpu.uuid in among for gpu in cell.gpus)] for cell in whole))
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for gpu in suited:
        for scope in _scopes(pool, request, gpu):
            counts[scope][gpu.node] += 1
    return _rooms(*(nodes.values() for nodes in counts.values()))


def _rooms(*scopes: Iterable[int]) -> Rooms:
    ordered = (tuple(sorted((size for size in sizes if size > 0), reverse=True)) for sizes in scopes)
    # Boundaries alike answer alike: one of each is enough.
    return Rooms(tuple(sorted({sizes for sizes in ordered if sizes}, reverse=True)))


def _scopes(pool: Pool, request: ResourceRequest, gpu: Gpu) -> Iterator[tuple[str, str]]:
    """The boundaries around the GPU in one of which a job of this request must lie wholly."""
    if not request.nvlink_required and request.required_level is None:
        yield "pool", ""
        return
    group = pool.group_of(gpu)
    if group is not None:
        yield "nvlink_group", group
    # Whoever wants one rack is content with one NVLink group, the better rung of D18.
    if request.required_level == "rack" and not request.nvlink_required:
        yield "rack", pool.node_by_name[gpu.node].rack_id


def _suited(pool: Pool, request: ResourceRequest) -> list[Gpu]:
    """The installed GPUs with the memory and on which the required rules hold, which is asked once for equal ones."""
    terms, known = request.required_terms, dict[Hashable, bool]()
    found = []
    for gpu in pool.installed:
        if gpu.memory_mib < request.gpu_memory_min_mib:
            continue
        if terms:
            key = (gpu.node, gpu.model, gpu.nvlink_group_id, gpu.labels)
            if key not in known:
                known[key] = all(holds(term, pool, gpu) for term in terms)
            if not known[key]:
                continue
        found.append(gpu)
    return found
