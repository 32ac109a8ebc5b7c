"""What does a gang hold out for? The best rung of the ladder that the pool as installed ever has for it (D18)."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.feasibility import empty_room
from scheduling.core.gangs import ANYWHERE, GROUP, RACK
from scheduling.core.placement import find
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Wanted


def best_rung(pool: Pool, request: ResourceRequest) -> int:
    """The best rung on which all of its GPUs could lie, were the whole pool free and healthy."""
    for rung, level in ((GROUP, "nvlink_group"), (RACK, "rack")):
        if find(empty_room(pool), Wanted(replace(request, required_level=level))) is not None:
            return rung
    return ANYWHERE
