"""When could a blocked job start at the earliest, and where: every GPU's release time, sorted, in every place."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import WaitingJob

from .reference_places import Ground, smallest

OVERDUE_MS = 60_000


@dataclass(frozen=True)
class Pin:
    """GPUs that are closed from ``start_ms`` until ``end_ms``; a ``project``, or the ``owner``, may use them all the
    same."""

    start_ms: float
    end_ms: float
    gpus: frozenset[str]
    project: str | None = None
    is_window: bool = False
    owner: str | None = None

    def closes(self, project: str) -> bool:
        """Whether it is closed for jobs of the project."""
        return not (self.is_window and self.project == project)

    def blocks(self, now_ms: int, job: WaitingJob) -> bool:
        """Whether the job would meet it if it started now."""
        if self.owner == job.id or not self.closes(job.project):
            return False
        return self.start_ms < now_ms + job.remaining_s * 1000 and now_ms < self.end_ms


@dataclass(frozen=True)
class Earliest:
    """The first instant (ms; infinite for never) at which the job could start, and on which GPUs."""

    start_ms: float
    gpus: tuple[str, ...]


NEVER = Earliest(math.inf, ())


def after_pins(release: float, uuid: str, pins: Sequence[Pin], *, now_ms: int, duration_ms: int, project: str) -> float:
    """When the GPU is free for a job of that duration, given when its holder leaves it."""
    ready = max([release, *(pin.end_ms for pin in pins if not pin.is_window and uuid in pin.gpus)])
    windows = [pin for pin in pins if pin.is_window and uuid in pin.gpus and pin.closes(project)]
    for window in sorted(windows, key=lambda pin: pin.start_ms):
        if max(ready, now_ms) + duration_ms > window.start_ms and ready < window.end_ms:
            ready = window.end_ms
    return ready


@dataclass(frozen=True)
class Outlook:
    """What is asked: ``ready`` has the instant of every GPU of the pool, ``eligible`` those that suit."""

    ground: Ground
    request: ResourceRequest
    ready: Mapping[str, float]
    eligible: Collection[str]
    rack_patience_ms: int

    def first(self, gpus: Collection[str], need: int) -> tuple[float, list[str]]:
        """When ``need`` of the GPUs are free, and which: the first ones in canonical order that are free by then."""
        instants = sorted(self.ready[uuid] for uuid in gpus)
        if len(instants) < need or instants[need - 1] == math.inf:
            return math.inf, []
        return instants[need - 1], self.by(gpus, need, instants[need - 1])

    def by(self, gpus: Collection[str], need: int, instant: float) -> list[str]:
        """The first ``need`` of the GPUs, in canonical order, that are free by the instant."""
        ready = [uuid for uuid in gpus if self.ready[uuid] <= instant]
        return sorted(ready, key=lambda uuid: self.ground.place[uuid])[:need]


def earliest(outlook: Outlook, *, is_exclusive: bool, only_rung: str | None = None) -> Earliest:
    """The earliest start over all places the job may lie in."""
    ground, request, eligible = outlook.ground, outlook.request, outlook.eligible
    if request.is_gang:
        return _gang(outlook, only_rung)
    need = request.gpus_per_node
    if request.allow_span:
        return Earliest(*_tupled(outlook.first(eligible, request.gpu_count)))
    options: list[tuple[float, int, list[str]]] = []
    if is_exclusive:
        for place, ((node, group), cell) in enumerate(ground.cells.items()):
            own = [uuid for uuid in cell if uuid in eligible]
            if ground.is_whole_group(node, group) and len(own) >= need:
                chosen = smallest(ground, own, need)
                rest = [uuid for uuid in cell if uuid not in chosen]
                options.append((max(outlook.ready[uuid] for uuid in cell), place, chosen + rest))
    elif request.nvlink_required:
        for place, ((_, group), cell) in enumerate(ground.cells.items()):
            if group is not None:
                start, gpus = outlook.first([uuid for uuid in cell if uuid in eligible], need)
                options.append((start, place, gpus))
    else:
        for place, node in enumerate(ground.nodes):
            start, gpus = outlook.first(ground.on(node, eligible), need)
            options.append((start, place, gpus))
    start, _, gpus = min(options, default=(math.inf, 0, []))
    return Earliest(*_tupled((start, gpus)))


def _tupled(found: tuple[float, list[str]]) -> tuple[float, tuple[str, ...]]:
    return found[0], tuple(found[1])


def _gang(outlook: Outlook, only: str | None) -> Earliest:
    ground, request = outlook.ground, outlook.request
    if request.nvlink_required or request.required_level == "nvlink_group" or only == "nvlink_group":
        options = [(*_scope(outlook, ground.nodes, group), group) for group in ground.groups]
        start, gpus, _ = min(options, key=lambda option: (option[0], option[2]), default=(math.inf, [], ""))
        return Earliest(start, tuple(gpus))
    everywhere, everything = _scope(outlook, ground.nodes, None)
    racks = [
        (*_scope(outlook, [node for node in ground.nodes if ground.node[node].rack_id == rack], None), rack)
        for rack in ground.racks
    ]
    in_rack, gpus, _ = min(racks, key=lambda option: (option[0], option[2]), default=(math.inf, [], ""))
    if "rack" in (request.required_level, only) or in_rack <= everywhere + outlook.rack_patience_ms:
        return Earliest(in_rack, tuple(gpus))
    return Earliest(everywhere, tuple(everything))


def _scope(outlook: Outlook, nodes: Collection[str], group: str | None) -> tuple[float, list[str]]:
    """When enough of these nodes have enough GPUs, and those of the first nodes that have them by then."""
    ground, request = outlook.ground, outlook.request
    inside = {node: ground.on(node, outlook.eligible, group) for node in nodes}

    def when(name: str, need: int) -> float:
        return outlook.first(inside[name], need)[0]

    full, rest = request.gpus_per_node, request.remainder
    times = sorted(when(name, full) for name in nodes)
    if len(times) < request.node_count + bool(rest):
        return math.inf, []
    start = times[request.node_count - 1]
    if rest:
        start = max(start, sorted(when(name, rest) for name in nodes)[request.node_count])
    if start == math.inf:
        return math.inf, []
    by_rank = sorted(nodes, key=lambda name: ground.rank[name])
    chosen = [name for name in by_rank if when(name, full) <= start][: request.node_count]
    gpus = [uuid for name in chosen for uuid in outlook.by(inside[name], full, start)]
    if rest:
        last = next(name for name in by_rank if name not in chosen and when(name, rest) <= start)
        gpus += outlook.by(inside[last], rest, start)
    return start, gpus
