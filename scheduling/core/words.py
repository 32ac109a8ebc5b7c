"""Requests in words, for reasons and refusals."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.core.instants import as_instant
from scheduling.core.resources import GroupRule, ResourceRequest
from scheduling.core.units import gb

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MAX_NAMED = 3
RUNGS_IN_WORDS = {"nvlink_group": "one NVLink group", "rack": "one rack"}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def gpus_in_words(count: int) -> str:
    """``1 GPU`` or ``n GPUs``."""
    return "1 GPU" if count == 1 else f"{count} GPUs"


def nodes_in_words(count: int) -> str:
    """``1 node`` or ``n nodes``."""
    return "1 node" if count == 1 else f"{count} nodes"


def names_in_words(names: Sequence[str]) -> str:
    """``n1``, ``n1 and n2``, ``n1, n2, n3 and 4 more``: a few by name, and how many more there are."""
    if len(names) > MAX_NAMED + 1:  # one more is as short by its name
        return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def jobs_in_words(count: int) -> str:
    """``1 job`` or ``n jobs``."""
    return "1 job" if count == 1 else f"{count} jobs"


def agree(count: int, one: str, many: str) -> str:
    """The word that goes with so many: ``has`` or ``have``, ``runs`` or ``run``."""
    return one if count == 1 else many


def duration_in_words(seconds: int) -> str:
    """``40 s``, ``9 min``, ``2 h``, ``1 h 30 min``, ``3 d``: exact, without the units of which there is none."""
    parts = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def instant_in_words(instant_ms: int) -> str:
    """``2 Mar 2026, 14:00 UTC``; with seconds where it isn't a whole minute, of which a part counts whole."""
    day, clock = as_instant(-(-instant_ms // 1000) * 1000).rstrip("Z").split("T")
    year, month, number = day.split("-")
    shown = clock.removesuffix(":00")
    return f"{int(number)} {MONTHS[int(month) - 1]} {year}, {shown} UTC"


def level_in_words(rule: GroupRule) -> str:
    """The kind of place that a rule about a group speaks of."""
    return "NVLink group" if rule.level == "nvlink_group" else rule.level


def wanted_in_words(request: ResourceRequest) -> str:
    """What the job needs and where, as the object of a sentence."""
    memory = f" with at least {gb(request.gpu_memory_min_mib)}" if request.gpu_memory_min_mib else ""
    if request.allow_span:
        return f"{gpus_in_words(request.gpu_count)}{memory} anywhere"
    if not request.is_gang:
        whole = ", the whole group for itself" if request.nvlink_exclusive else ""
        return f"{gpus_in_words(request.gpu_count)}{memory} in one {place_word(request)}{whole}"
    rest = f" and {request.remainder} on one more" if request.remainder else ""
    scope = {"rack": " of one rack", "nvlink_group": " of one NVLink group"}.get(request.required_level or "", "")
    if request.nvlink_required:
        scope = " of one NVLink group"
    each = gpus_in_words(request.gpus_per_node)
    return f"{each}{memory} on each of {nodes_in_words(request.node_count)}{rest}{scope}"


def place_word(request: ResourceRequest) -> str:
    """The boundary that a job of one node may not cross."""
    return "NVLink group" if request.nvlink_required else "node"
