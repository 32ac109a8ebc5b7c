"""May it run there? Whether the pool could hold a request at all, and which GPUs take new work."""

from __future__ import annotations

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.placement import fits
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.rules import OPERATORS, holds, label, spelled

__all__ = ["OPERATORS", "could_hold", "holds", "label", "placeable", "spelled"]


def could_hold(pool: Pool, request: ResourceRequest) -> bool:
    """Whether the pool as installed, healthy or not and with nothing running, could hold the request (D14).

    Rules about groups of jobs are left out of account: jobs come and go.
    """
    return fits(empty_room(pool), Wanted(request))


def empty_room(pool: Pool) -> Room:
    """All that is installed, free. Kept with the pool: nothing is ever taken from it."""
    room = pool.kept.get("empty room")
    if not isinstance(room, Room):
        room = Room(pool, usable=frozenset(pool.inventory.gpu_at))
        pool.kept["empty room"] = room
    return room


def placeable(pool: Pool, *, unreachable: frozenset[str] = frozenset()) -> frozenset[str]:
    """The GPUs that may get new work: HEALTHY, on a READY node that is not ``unreachable``; allocated ones included."""
    ready = {node.name for node in pool.nodes if node.state is NodeState.READY} - unreachable
    return frozenset(gpu.uuid for gpu in pool.installed if gpu.state is GpuState.HEALTHY and gpu.node in ready)
