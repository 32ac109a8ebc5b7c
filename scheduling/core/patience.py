"""How long may a job hold out for a better level than the first it could have? And is there one to hold out for?"""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.best_rung import best_rung
from scheduling.core.capacity import ONE_NODE_ONLY, Verdict, judge
from scheduling.core.counts import Counts
from scheduling.core.fields import Fields, shown
from scheduling.core.gangs import ANYWHERE, RACK
from scheduling.core.limits import beside
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.units import parse_duration, parse_memory

FIELD = "max_wait_for_level"
ANY_S = 1  # in place of a duration that can't be read: whether it has an effect is the same for all


def read_patience(fields: Fields) -> int | None:
    """The seconds to hold out, ``ANY_S`` after an error; None where none were asked for."""
    value = fields.value(FIELD)
    if value is None:
        return None
    try:
        return parse_duration(value, FIELD)
    except ValueError as error:
        fields.refuse(FIELD, "bad_duration", f"{error} (not {shown(value)})")
        return ANY_S


def refuse_idle_patience(
    fields: Fields, wanted: ResourceRequest, verdict: Verdict, counts: Counts, pool: Pool, *, over_nodes: bool
) -> None:
    """An error where there is no better level than the one that the job has anyway, so that waiting changes nothing.

    Of a job whose counts or memory are refused that is told of the job with the limits in their place, and, where there
    are none, if it is so with any.
    """
    request, which = verdict.request, "this one"
    memory = next((each.limit for each in fields.errors if each.field == "gpu_memory_min" and each.limit), None)
    if memory is not None:
        wanted = replace(wanted, gpu_memory_min_mib=parse_memory(memory))
    if request is None or memory is not None or not counts.whole:
        asked, told = beside(fields.errors, wanted, counts, pool, over_nodes=over_nodes)
        request = judge(asked, told, pool, over_nodes=over_nodes).request
        which = "one of the size that is accepted"
    idle = why_idle(request, pool) if request else ""
    why = f"{which} {idle}" if idle else ""
    if request is None:
        why = _why_idle_anyway(wanted, over_nodes=over_nodes)
    if why:
        message = f"{FIELD} lets a job of several nodes hold out for a better level, and {why}: leave it out"
        fields.refuse(FIELD, "no_effect", message)


def why_idle(request: ResourceRequest, pool: Pool) -> str:
    """Why there is nothing for it to hold out for, as the end of a sentence about it; nothing where there may be.

    What the pool as installed has no room for is not held out for, so that its worst level may be its best.
    """
    if not request.is_gang:
        return "lies on one node"
    if request.nvlink_required or request.required_level == "nvlink_group":
        return "lies in one NVLink group anyway"
    if not pool.nodes or best_rung(pool, request) < (RACK if request.required_level == "rack" else ANYWHERE):
        return ""
    if request.required_level == "rack":
        return "lies in one rack anyway, as no NVLink group of the pool has room for it"
    return "lies in several racks anyway, as no NVLink group and no rack of the pool has room for it"


def _why_idle_anyway(wanted: ResourceRequest, *, over_nodes: bool) -> str:
    """Why so whatever its counts are."""
    if not over_nodes:
        return ONE_NODE_ONLY
    in_group = wanted.nvlink_required or wanted.required_level == "nvlink_group"
    return "this one lies in one NVLink group anyway" if in_group else ""
