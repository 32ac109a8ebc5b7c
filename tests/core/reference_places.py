"""Where a job lies, the slow way: sets of UUIDs and sorted lists, straight from the rules of placement."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from scheduling.core.lifecycle import GpuState
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.rules import holds

RUNGS = ("nvlink_group", "rack", "all")


class Ground:
    """The installed hardware in canonical order: by node, the loose GPUs and then the groups, small memory first."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.node = {node.name: node for node in pool.nodes}
        slow_first = sorted(pool.nodes, key=lambda node: (node.network_bandwidth_gbps, node.rack_id, node.name))
        self.rank = {node.name: rank for rank, node in enumerate(slow_first)}
        installed = [gpu for gpu in pool.gpus if gpu.state is not GpuState.RETIRED and gpu.node in self.node]
        members = Counter(gpu.nvlink_group_id for gpu in installed if gpu.nvlink_group_id is not None)
        self.group = {gpu.uuid: gpu.nvlink_group_id if members[gpu.nvlink_group_id] > 1 else None for gpu in installed}
        self.gpu = {gpu.uuid: gpu for gpu in installed}
        sizes, self.memory = sorted({gpu.memory_mib for gpu in installed}), dict[str, int]()
        while sizes:
            alike = [size for size in sizes if size <= sizes[0] * 1.1]
            self.memory |= {gpu.uuid: sizes[0] for gpu in installed if gpu.memory_mib in alike}
            sizes = sizes[len(alike) :]
        self.order = sorted(self.gpu, key=self._canonical)
        self.place = {uuid: place for place, uuid in enumerate(self.order)}
        self.cells: dict[tuple[str, str | None], list[str]] = {}
        for uuid in self.order:
            self.cells.setdefault((self.gpu[uuid].node, self.group[uuid]), []).append(uuid)
        self.nodes = [node.name for node in slow_first]
        self.groups = sorted({group for group in self.group.values() if group is not None})
        self.racks = sorted({node.rack_id for node in pool.nodes})

    def _canonical(self, uuid: str) -> tuple[object, ...]:
        gpu, group = self.gpu[uuid], self.group[uuid]
        return (self.rank[gpu.node], group is not None, group or "", self.memory[uuid], gpu.index, uuid)

    def on(self, node: str, among: Collection[str], group: str | None = None) -> list[str]:
        """Those ``among`` these that are on the node (and in the group), in canonical order."""
        cells = [cell for (where, own), cell in self.cells.items() if where == node and group in (None, own)]
        return [uuid for cell in cells for uuid in cell if uuid in among]

    def is_whole_group(self, node: str, group: str | None) -> bool:
        """Whether this cell is an NVLink group that has no GPU elsewhere."""
        return group is not None and [where for where, own in self.cells if own == group] == [node]

    def domain(self, uuid: str, level: str) -> str | None:
        """The place of that level the GPU is in; None where it has none."""
        if level == "node":
            return self.gpu[uuid].node
        return self.group[uuid] if level == "nvlink_group" else self.node[self.gpu[uuid].node].rack_id or None

    def where(self, among: Iterable[str], terms: Sequence[AffinityTerm]) -> set[str]:
        """Those ``among`` these where all the rules hold."""
        return {uuid for uuid in among if all(holds(term, self.pool, self.gpu[uuid]) for term in terms)}


@dataclass(frozen=True)
class Found:
    """The GPUs of a place, node by node in the order of ``nodes``."""

    gpus: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """What is looked for where. ``free`` are the GPUs nobody has and nothing pins, ``able`` those of them that suit.

    ``claimed``: GPUs that others who wait can do without less easily. ``outlasts_ms``: by how long the job would run
    on when all that runs on these GPUs has ended, negative when it ends before; None where that plays no part.
    """

    ground: Ground
    request: ResourceRequest
    policy: Policy
    free: frozenset[str]
    able: frozenset[str]
    claimed: frozenset[str] = frozenset()
    outlasts_ms: Callable[[Sequence[str]], float] | None = None

    @property
    def lines_up(self) -> bool:
        """Whether no NVLink group is so small that single GPUs are at home there: then their ends are to agree."""
        sizes = [len(cell) for (_, group), cell in self.ground.cells.items() if group is not None]
        return self.policy.prefer == "whole_groups" and all(size > max(sizes) / 4 for size in sizes)

    @property
    def is_exclusive(self) -> bool:
        """Whether the job is to have its NVLink group for itself."""
        exclusive = self.policy.nvlink_mode == "exclusive" and self.request.nvlink_required
        return self.request.nvlink_exclusive or exclusive


def find(
    ground: Ground,
    request: ResourceRequest,
    policy: Policy,
    *,
    free: Collection[str],
    eligible: Collection[str],
    rung: str | None = None,
    claimed: Collection[str] = (),
    outlasts_ms: Callable[[Sequence[str]], float] | None = None,
) -> Found | None:
    """The place the rules choose, or None. ``rung``: the only one a gang that holds out for it may lie on."""
    wishes = request.preferred_terms
    for count in range(len(wishes), -1, -1):
        wished = ground.where(eligible, wishes[:count]) & set(free)
        question = Question(
            ground, request, policy, frozenset(free), frozenset(wished), frozenset(claimed), outlasts_ms
        )
        if request.is_gang:
            place = _gang(question, rung)
        else:
            place = _one_node(question) or (_span(question) if request.allow_span else None)
        if place is not None:
            return place
    return None


def tier(ground: Ground, gpus: Sequence[str], need: int) -> float:
    """The smallest memory class of which ``need`` of the GPUs are; infinite when classes must be mixed."""
    sizes = Counter(ground.memory[uuid] for uuid in gpus)
    return min((float(size) for size, count in sizes.items() if count >= need), default=math.inf)


def smallest(ground: Ground, gpus: Sequence[str], need: int) -> list[str]:
    """``need`` of the GPUs of one cell: of the smallest one class that suffices, else mixed; lowest index first."""
    size = tier(ground, gpus, need)
    suited = [uuid for uuid in gpus if size in (ground.memory[uuid], math.inf)]
    return sorted(suited, key=ground.place.__getitem__)[:need]


def _one_node(question: Question) -> Found | None:
    ground, request = question.ground, question.request
    need = request.gpus_per_node
    if question.is_exclusive:
        return _exclusive(question, need)
    options = []
    for (node, group), cell in ground.cells.items():
        gpus = [uuid for uuid in cell if uuid in question.able]
        if len(gpus) < need or (request.nvlink_required and group is None):
            continue
        is_broken = any(uuid not in question.free for uuid in cell)
        largest = max(len(each) for (_, name), each in ground.cells.items() if name is not None or group is None)
        kind = 0 if group is None else 1 if len(cell) <= largest / 4 else 2
        breaks = group is not None and not is_broken and len(cell) > need
        size, memory, rank = (breaks, len(cell) if breaks else 0), tier(ground, gpus, need), ground.rank[node]
        claimed = any(uuid in question.claimed for uuid in cell)
        apart = (0.0, 0.0)
        if question.outlasts_ms is not None and question.lines_up and kind == 2 and not breaks:
            outlasts_ms = question.outlasts_ms(cell)
            apart = (max(0, outlasts_ms), abs(outlasts_ms))
        key: tuple[object, ...] = {
            "whole_groups": (kind, size, claimed, memory, len(gpus), apart, rank, group or ""),
            "smallest_memory": (claimed, memory, kind, size, len(gpus), rank, group or ""),
            "best_fit": (claimed, memory, len(gpus), rank, group or ""),
        }[question.policy.prefer]
        options.append((key, Found(tuple(smallest(ground, gpus, need)), (node,))))
    if options or need == 1 or request.nvlink_required:
        return min(options, key=lambda option: option[0])[1] if options else None
    for node in ground.nodes:
        gpus = ground.on(node, question.able)
        if len(gpus) >= need:
            size = tier(ground, gpus, need)
            suited = [uuid for uuid in gpus if size in (ground.memory[uuid], math.inf)]
            chosen = Found(tuple(_largest_cells_first(question, suited)[:need]), (node,))
            options.append(((size, len(gpus), ground.rank[node]), chosen))
    return min(options, key=lambda option: option[0])[1] if options else None


def _exclusive(question: Question, need: int) -> Found | None:
    ground, options = question.ground, []
    for (node, group), cell in ground.cells.items():
        gpus = [uuid for uuid in cell if uuid in question.able]
        if len(gpus) < need or not ground.is_whole_group(node, group) or not question.free >= set(cell):
            continue
        own = smallest(ground, gpus, need)
        key = (len(cell), tier(ground, gpus, need), ground.rank[node], group)
        options.append((key, Found((*own, *(uuid for uuid in cell if uuid not in own)), (node,))))
    return min(options, key=lambda option: option[0])[1] if options else None


def _largest_cells_first(question: Question, gpus: Collection[str]) -> list[str]:
    """These GPUs of one node: of the cell with the most suitable free ones first."""
    ground = question.ground
    cells = [cell for cell in ground.cells.values() if not set(cell).isdisjoint(gpus)]
    cells.sort(key=lambda cell: (-len(question.able & set(cell)), ground.place[cell[0]]))
    return [uuid for cell in cells for uuid in cell if uuid in gpus]


def _span(question: Question) -> Found | None:
    """The fewest nodes: the fullest wholly, until the rest fits in one."""
    ground, rest = question.ground, question.request.gpu_count
    left = {node: ground.on(node, question.able) for node in ground.nodes}
    left = {node: gpus for node, gpus in left.items() if gpus}
    speed = {node: ground.node[node].network_bandwidth_gbps for node in left}
    slowest = _slowest_at_best(
        {node: len(gpus) for node, gpus in left.items()}, rest, lambda nodes: min(speed[node] for node in nodes)
    )
    left = {node: gpus for node, gpus in left.items() if speed[node] >= slowest}
    gpus: list[str] = []
    nodes: list[str] = []
    while rest > 0 and left:
        last = [node for node in left if len(left[node]) >= rest]
        if last:
            node = min(last, key=lambda name: (len(left[name]), ground.rank[name]))
        else:
            node = min(left, key=lambda name: (-len(left[name]), ground.rank[name]))
        taken = _on_node(question, node, min(rest, len(left.pop(node))), None)
        nodes.append(node)
        gpus += taken
        rest -= len(taken)
    return Found(tuple(gpus), tuple(nodes)) if rest == 0 else None


def _slowest_at_best(held: dict[str, int], need: int, slowest: Callable[[tuple[str, ...]], float]) -> float:
    """The bandwidth of the slowest node where it is highest, of all the sets of the fewest places that hold enough."""
    for count in range(1, len(held) + 1):
        sets = [places for places in combinations(sorted(held), count) if sum(held[each] for each in places) >= need]
        if sets:
            return max(slowest(places) for places in sets)
    return 0.0


def best_rung(ground: Ground, request: ResourceRequest, policy: Policy, eligible: Collection[str]) -> str | None:
    """The first rung of the ladder on which the gang could lie if all these GPUs were free; None for none."""
    question = Question(ground, request, policy, frozenset(eligible), frozenset(eligible))
    for rung in _rungs(request):
        if any(_suits(question, counts) for _, counts in _scopes(question, rung)):
            return rung
    return None


def _rungs(request: ResourceRequest) -> tuple[str, ...]:
    if request.nvlink_required or request.required_level == "nvlink_group":
        return RUNGS[:1]
    return RUNGS[:2] if request.required_level == "rack" else RUNGS


def _scopes(question: Question, rung: str) -> list[tuple[str, dict[str, int]]]:
    """The places of a rung by name, each with the suitable free GPUs on its nodes."""
    ground, able = question.ground, question.able
    if rung == "nvlink_group":
        return [(name, {node: len(ground.on(node, able, name)) for node in ground.nodes}) for name in ground.groups]
    racks = [tuple(ground.racks)] if rung == "all" else [(rack,) for rack in ground.racks]
    return [
        (inside[0], {node: len(ground.on(node, able)) for node in ground.nodes if ground.node[node].rack_id in inside})
        for inside in racks
        if inside
    ]


def _suits(question: Question, counts: dict[str, int]) -> bool:
    request = question.request
    full = sum(count >= request.gpus_per_node for count in counts.values())
    some = sum(count >= request.remainder for count in counts.values())
    return full >= request.node_count and (request.remainder == 0 or some >= request.node_count + 1)


def _gang(question: Question, only: str | None) -> Found | None:
    ground, request = question.ground, question.request
    sizes = sorted({ground.memory[uuid] for uuid in ground.gpu})
    passes = [[size] for size in sizes] if len(sizes) == 1 else [*([size] for size in sizes), sizes]
    for memory in passes:
        able = frozenset(uuid for uuid in question.able if ground.memory[uuid] in memory)
        limited = Question(ground, request, question.policy, question.free, able)
        for rung in _rungs(request) if only is None else [only]:
            place = _on_rung(limited, rung)
            if place is not None:
                return place
    return None


def _on_rung(question: Question, rung: str) -> Found | None:
    suiting = [(name, counts) for name, counts in _scopes(question, rung) if _suits(question, counts)]
    if not suiting:
        return None
    ground, need, wanted = question.ground, question.request.gpus_per_node, question.request.node_count
    remainder = question.request.remainder
    bandwidth = {name: node.network_bandwidth_gbps for name, node in ground.node.items()}

    def ok(counts: dict[str, int]) -> list[str]:
        return [node for node, count in counts.items() if count >= need]

    def in_rack(nodes: list[str], counts: dict[str, int]) -> list[str]:
        return sorted(nodes, key=lambda node: (-bandwidth[node], counts[node], ground.rank[node]))

    if rung == "nvlink_group":
        name, counts = min(suiting, key=lambda scope: (sum(scope[1].values()), scope[0]))
        nodes = sorted(ok(counts), key=lambda node: (counts[node], ground.rank[node]))[:wanted]
        return _filled(question, nodes, counts, group=name)
    if rung == "rack":

        def preference(scope: tuple[str, dict[str, int]]) -> tuple[float, int, str]:
            name, counts = scope
            full = in_rack(ok(counts), counts)[:wanted]
            rest = [bandwidth[node] for node, count in counts.items() if count >= remainder > 0 and node not in full]
            bottleneck = min([bandwidth[node] for node in full] + ([max(rest)] if rest else []))
            return (-bottleneck, len(ok(counts)) - wanted, name)

        _, counts = min(suiting, key=preference)
        return _filled(question, in_rack(ok(counts), counts)[:wanted], counts)
    ((_, counts),) = suiting
    racks: dict[str, list[str]] = {}
    for node in ok(counts):
        racks.setdefault(ground.node[node].rack_id, []).append(node)
    slowest = _slowest_at_best(
        {rack: len(inside) for rack, inside in racks.items()},
        wanted,
        lambda names: sorted((bandwidth[node] for rack in names for node in racks[rack]), reverse=True)[wanted - 1],
    )
    fast = {rack: [node for node in inside if bandwidth[node] >= slowest] for rack, inside in racks.items()}
    racks = {rack: inside for rack, inside in fast.items() if inside}
    nodes = []
    while len(nodes) < wanted:
        rest = wanted - len(nodes)
        enough = [rack for rack in racks if len(racks[rack]) >= rest]
        if enough:
            rack = min(enough, key=lambda name: (len(racks[name]), name))
        else:
            rack = min(racks, key=lambda name: (-len(racks[name]), name))
        nodes += in_rack(racks.pop(rack), counts)[:rest]
    return _filled(question, nodes, counts)


def _filled(question: Question, nodes: list[str], counts: dict[str, int], group: str | None = None) -> Found:
    """The GPUs on the chosen nodes, and the node of the remainder."""
    ground, request = question.ground, question.request
    parts = [(node, request.gpus_per_node) for node in nodes]
    if request.remainder:
        racks = {ground.node[node].rack_id for node in nodes}
        others = [node for node in counts if node not in nodes and counts[node] >= request.remainder]
        place = ground.node
        last = min(
            others,
            key=lambda n: (place[n].rack_id not in racks, -place[n].network_bandwidth_gbps, counts[n], ground.rank[n]),
        )
        parts.append((last, request.remainder))
    gpus = [uuid for node, need in parts for uuid in _on_node(question, node, need, group)]
    return Found(tuple(gpus), tuple(node for node, _ in parts))


def _on_node(question: Question, node: str, need: int, group: str | None) -> list[str]:
    ground = question.ground
    gpus = ground.on(node, question.able, group)
    cells = [[uuid for uuid in cell if uuid in gpus] for (where, _), cell in ground.cells.items() if where == node]
    enough = [cell for cell in cells if len(cell) >= need]
    if enough:
        return min(enough, key=lambda cell: (len(cell), ground.place[cell[0]]))[:need]
    return _largest_cells_first(question, gpus)[:need]
