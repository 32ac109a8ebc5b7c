"""Does a node take new work, and if not, why? One answer for the board, a node's page and REST."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.words import agree, gpus_in_words, instant_in_words
from scheduling.models import Node, Window
from scheduling.store.clock import past_in_words, to_ms
from scheduling.store.queries.silence import Silence, silences


class Standing(StrEnum):
    """What keeps new work away from a node; of several the one that comes first here."""

    LOST = "LOST"
    SILENT = "SILENT"
    DRAINING = "DRAINING"
    CORDONED = "CORDONED"
    LEAVING = "LEAVING"
    CLOSED = "CLOSED"
    LOW_DISK = "LOW_DISK"
    RESERVED = "RESERVED"
    READY = "READY"


LOST_WORDS = "it has not been heard of for its whole lease, and its work was taken back"
# Of such a node nothing is known but what was.
UNHEARD = (Standing.LOST, Standing.SILENT)
_DOES = {
    Standing.DRAINING: "takes no new work and is being emptied",
    Standing.CORDONED: "takes no new work; what runs on it goes on",
    Standing.LEAVING: "takes no new work, since its agent is shutting down",
    Standing.CLOSED: "takes no new work, since a window closes it",
    Standing.LOW_DISK: "takes no new work, since its disk is nearly full",
    Standing.RESERVED: "takes new work of one project only, which has reserved it",
    Standing.READY: "takes work",
}
_IDLE = {
    Standing.LOST: "its node is lost",
    Standing.SILENT: "its node is silent",
    Standing.DRAINING: "its node is draining",
    Standing.CORDONED: "its node is cordoned",
    Standing.LEAVING: "its node is leaving",
    Standing.CLOSED: "its node is closed",
    Standing.LOW_DISK: "its node: low disk",
    Standing.RESERVED: "its node is reserved",
}


@dataclass(frozen=True, slots=True)
class Stands:
    """How a node stands, and ``why`` it takes no new work, every reason in words; "" for one that is READY.

    Whose a reservation is, and the name of a window, is not told: not everybody may know of the project.
    """

    standing: Standing
    why: str = ""


def standings(nodes: Iterable[Node], now: datetime) -> dict[int, Stands]:
    """How each of the nodes stands at ``now``, by its key. The nodes have their ``live``."""
    closing: dict[int, list[tuple[bool, datetime]]] = {}
    active = Window.objects.filter(start__lte=now, end__gt=now, nodes__isnull=False).order_by()
    for key, project, end in active.values_list("nodes__pk", "project_id", "end"):
        closing.setdefault(key, []).append((project is not None, end))
    silent = silences(now)
    return {n.pk: _stands(n, closing.get(n.pk, []), silent.get(n.name)) for n in nodes}


def idle(gpu_state: str, standing: Standing) -> str:
    """Why a GPU that no job holds gets no new work; "" for one that is free."""
    if standing in UNHEARD:
        return _IDLE[standing]
    if gpu_state != GpuState.HEALTHY:
        return "no new work" if gpu_state == GpuState.SUSPECT else "out of service"
    return _IDLE.get(standing, "")


def sentence(node: Mapping[str, Any]) -> str:
    """The node in one sentence: whether it takes work, and how its GPUs are as far as that is known."""
    name, standing, gpus = node["name"], Standing(node["standing"]), node["gpus"]
    if standing in UNHEARD:
        does = "is lost" if standing is Standing.LOST else "takes no new work, since it is silent"
        return f"{name} {does}: what its {gpus_in_words(len(gpus))} {agree(len(gpus), 'does', 'do')} is not known."
    good = sum(g["state"] == GpuState.HEALTHY for g in gpus)
    busy = sum(bool(g["busy"]) for g in gpus)
    drained = standing is Standing.DRAINING and not busy
    does = "is drained: nothing runs on it" if drained else _DOES[standing]
    return f"{name} {does}: {good} of {gpus_in_words(len(gpus))} healthy, {busy} busy."


def _stands(n: Node, windows: list[tuple[bool, datetime]], silent: Silence | None) -> Stands:
    live = getattr(n, "live", None)
    lost = n.state == NodeState.LOST
    reasons: list[tuple[Standing, str]] = []
    if lost:
        reasons.append((Standing.LOST, LOST_WORDS))
    elif silent is not None:
        reasons.append((Standing.SILENT, f"it has not been heard of since {past_in_words(silent.since)}"))
    if closed := n.closed if lost else n.state.replace(NodeState.READY, ""):
        # One that is lost stays closed when it comes back.
        why = f"{closed.lower()}: {n.why}" if lost and n.why else n.why
        reasons.append((Standing(closed), f"{why}{_by_then(n.drain_by)}"))
    if live and live.leaving and not lost:
        reasons.append((Standing.LEAVING, "its agent is shutting down"))
    if ends := [end for reserved, end in windows if not reserved]:
        reasons.append((Standing.CLOSED, f"a window closes it to all jobs until {_when(max(ends))}"))
    if live and live.disk_low and not lost:
        reasons.append((Standing.LOW_DISK, "its disk is nearly full"))
    if ends := [end for reserved, end in windows if reserved]:
        whom = "to all jobs but those of the project that has reserved it"
        reasons.append((Standing.RESERVED, f"a window closes it {whom} until {_when(max(ends))}"))
    if not reasons:
        return Stands(Standing.READY)
    return Stands(reasons[0][0], "; ".join(words for _, words in reasons if words))


def _by_then(deadline: datetime | None) -> str:
    """Until when what runs on it may stay, as the end of the reason."""
    return f"; what still runs on {_when(deadline)} is asked to save and moves to other nodes" if deadline else ""


def _when(moment: datetime) -> str:
    return instant_in_words(to_ms(moment))
