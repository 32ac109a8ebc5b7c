"""What is installed, what is closed for a time, and whom the server hears of: rows become values."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Func, Model, Q, QuerySet, Value

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.pool import Gpu as CoreGpu
from scheduling.core.pool import Node as CoreNode
from scheduling.core.pool import Pool
from scheduling.core.snapshot import NodeLease, SilenceGuard
from scheduling.core.snapshot import Window as CoreWindow
from scheduling.models import Availability, Gpu, Node, NodeLive, SchedulerState, Window
from scheduling.store.clock import to_ms
from scheduling.store.fixed import Fixed, FixedValues
from scheduling.store.queries.windows import RESERVED

_CLOSED = FixedValues(
    lambda: (
        NodeLive.objects.filter(Q(leaving=True) | Q(disk_low=True))
        .order_by("node_id")
        .values_list("node_id", "leaving")
    )
)


def _counted(model: type[Model], which: int) -> QuerySet[Any, tuple[Any, ...]]:
    counts = [
        Func(F(field), function=function) for function, field in (("COUNT", "pk"), ("MAX", "pk"), ("SUM", "version"))
    ]
    return model._default_manager.order_by().values_list(Value(which), *counts)


_INVENTORY = Fixed(lambda: _counted(Node, 0).union(_counted(Gpu, 1), all=True))
_LEASES = FixedValues(lambda: NodeLive.objects.values_list("node__name", "node__boot_id", "last_heartbeat_at"))
_ACCEPTING = FixedValues(lambda: Availability.objects.order_by("pk").values_list("since", "last_seen_at")[:1])
_SILENCE = FixedValues(
    lambda: SchedulerState.objects.order_by("pk").values_list("silence_confirmed_at", "silence_guard")[:1]
)


def pool_of() -> Pool:
    """Every node that has registered, and every GPU. A node that is leaving or short of disk takes no new work."""
    closed = {key: "its agent is leaving" if leaving else "short of disk" for key, leaving in _CLOSED()}
    nodes = []
    for n in Node.objects.filter(registered_at__isnull=False):
        state = NodeState(n.state)
        why = closed.get(n.pk, "") if state is NodeState.READY else ""
        nodes.append(
            CoreNode(
                n.name, n.rack_id, n.network_bandwidth_gbps, NodeState.CORDONED if why else state, _labels(n.labels),
                n.simulated, why,
            )
        )  # fmt: skip
    gpus = (
        CoreGpu(
            g.uuid, g.node.name, g.index, g.model, g.memory_mib, g.nvlink_group_id, GpuState(g.state), _labels(g.labels)
        )
        for g in Gpu.objects.select_related("node").order_by("node__name", "index")
    )
    return Pool(tuple(nodes), tuple(gpus))


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(k), str(v)) for k, v in labels.items()))


def inventory_mark() -> tuple[object, ...]:
    """Equal as long as :func:`pool_of` gives the same pool: whoever changes a node or a GPU raises its version."""
    return (*sorted(_INVENTORY()), *_CLOSED())


def windows(now: datetime) -> tuple[CoreWindow, ...]:
    """The windows that have not ended. One that is a project's has no name of its own here: it stands in the reasons
    of others' jobs, whose readers may not know of it."""
    return _windows(Q(end__gt=now))


def windows_in(since: datetime, until: datetime) -> tuple[CoreWindow, ...]:
    """The windows that touch these days."""
    return _windows(Q(end__gt=since, start__lt=until))


def _windows(which: Q) -> tuple[CoreWindow, ...]:
    rows = Window.objects.filter(which).select_related("project").prefetch_related("nodes")
    return tuple(
        CoreWindow(
            RESERVED if w.project else w.name, tuple(sorted(n.name for n in w.nodes.all())), to_ms(w.start),
            to_ms(w.end), w.project.name if w.project else None,
        )
        for w in rows
    )  # fmt: skip


def silence(now: datetime, *, lease_s: float) -> tuple[SilenceGuard, bool]:
    """Whom the last tick guarded of those who fell silent together, and whether an operator has said since that they
    are gone: within the last lease. By then each of them is lost, and whoever falls silent later is guarded again."""
    confirmed_at, kept = next(iter(_SILENCE()), (None, {}))
    guard = SilenceGuard(kept.get("nodes", {}), kept.get("until_ms"))
    return guard, confirmed_at is not None and confirmed_at > now - timedelta(seconds=lease_s)


def leases(now: datetime) -> tuple[NodeLease, ...]:
    """The lease of every node that has registered; silence counts only while heartbeats could be accepted (D21)."""
    window = next(iter(_ACCEPTING()), None)
    scale = settings.TIME_SCALE
    at = to_ms(now)
    accepting = window is not None and at - to_ms(window[1]) <= 10_000 * scale
    found = []
    for name, boot, last in _LEASES():
        if last is None:
            continue
        since = max(to_ms(last), to_ms(window[0])) if window else at
        found.append(NodeLease(name, boot, to_ms(last), max(0, at - since) if accepting else 0))
    return tuple(found)
