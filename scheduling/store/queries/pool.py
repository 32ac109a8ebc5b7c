"""The pool and the queues as the board shows them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import Count, Min

from scheduling.core.gpu_record import EMPTY, Known, unpack
from scheduling.core.gpu_return import outlook
from scheduling.core.health import may_return
from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.words import gpus_in_words, jobs_in_words, names_in_words, nodes_in_words
from scheduling.models import Allocation, Event, Gpu, Job, Node, NodeLive, Nomination, Queue, SchedulerState
from scheduling.models.jobs import LIVE
from scheduling.store.clock import now, to_ms
from scheduling.store.queries.access import Actor
from scheduling.store.queries.kept import KEPT, nominations, told_of_job, who_next
from scheduling.store.queries.standing import UNHEARD, Standing, Stands, idle, standings

LATE_S = 25.0


def pool(
    actor: Actor | None = None, names: Collection[str] | None = None, *, at: datetime | None = None
) -> list[dict[str, Any]]:
    """Every registered node with its GPUs and who holds them, racks and nodes in order; another project's job is
    shown as held without its name. ``names``: of these nodes alone. ``at``: the instant whose windows and silences
    count; now, if None. The number of queries does not depend on how many nodes there are."""
    nodes = Node.objects.filter(registered_at__isnull=False).select_related("live").order_by("rack_id", "name")
    if names is not None:
        nodes = nodes.filter(name__in=names)
    holders = {
        a.gpu_id: a
        for a in Allocation.objects.filter(released_at__isnull=True, gpu__node__in=nodes).select_related(
            "attempt__job__project", "attempt__job__user"
        )
    }
    gpus: dict[int, list[dict[str, Any]]] = {}
    stand, kept = standings(nodes, at or now()), nominations()
    homes = {n.pk: n for n in nodes}
    for g in Gpu.objects.filter(node__in=nodes).exclude(state=GpuState.RETIRED).order_by("index"):
        if g.node_id not in homes:
            continue  # its node has registered since the nodes were read
        home, how = homes[g.node_id], stand[g.node_id].standing
        gpus.setdefault(g.node_id, []).append(
            _gpu(g, home, holders.get(g.pk), actor, standing=how, kept=kept.get(g.uuid))
        )
    return [_node(n, stand[n.pk], gpus.get(n.pk, [])) for n in nodes]


def _node(n: Node, stands: Stands, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    live = getattr(n, "live", None)
    return {
        "name": n.name,
        "state": n.state,
        "standing": stands.standing.value,
        "rack_id": n.rack_id,
        "network_bandwidth_gbps": n.network_bandwidth_gbps,
        "labels": n.labels,
        "address": n.address,
        "agent_version": n.agent_version,
        "simulated": n.simulated,
        "left_out": n.left_out,
        "why": stands.why or None,
        "lost_since": live.last_heartbeat_at if live and n.state == NodeState.LOST else None,
        "drain_by": n.drain_by,
        "registered_at": n.registered_at,
        "last_heartbeat_at": live.last_heartbeat_at if live else None,
        "disk_low": live.disk_low if live else False,
        "version": n.version,
        "gpus": gpus,
    }


def _gpu(
    g: Gpu,
    home: Node,
    held: Allocation | None,
    actor: Actor | None,
    *,
    standing: Standing,
    kept: Nomination | None = None,
) -> dict[str, Any]:
    live = getattr(home, "live", None)
    sample = live.samples.get(g.uuid, {}) if live and standing not in UNHEARD else {}
    return {
        "uuid": g.uuid,
        "index": g.index,
        "model": g.model,
        "memory_mib": g.memory_mib,
        "nvlink_group_id": g.nvlink_group_id,
        "state": g.state,
        "why": g.why or None,
        "since": g.state_since,
        **_health(g, live, busy=held is not None),
        "utilization": sample.get("utilization"),
        "memory_used_mib": sample.get("memory_used_mib"),
        "temperature_c": sample.get("temperature_c"),
        "power_w": sample.get("power_w"),
        "error": sample.get("error"),
        "idle": (idle(g.state, standing) or (KEPT if kept else None)) if held is None else None,
        "busy": held is not None,
        "job": told_of_job(held.attempt.job if held else None, actor),
        **who_next(kept, held, actor),
        "version": g.version,
    }


def _health(g: Gpu, live: NodeLive | None, *, busy: bool) -> dict[str, Any]:
    """Why the GPU is not HEALTHY, and what has to happen before it gets work again, as of its node's newest report."""
    record = unpack(live.health.get(g.uuid, {})) if live else EMPTY
    at = to_ms(live.sampled_at) if live and live.sampled_at else 0
    known = Known(GpuState(g.state), record, g.memory_mib, busy)
    return {"cause": record.cause.value or None, "next": outlook(known, at) or None, "may_return": may_return(known)}


def gpu(uuid: str, actor: Actor | None = None) -> dict[str, Any] | None:
    """One GPU with its node's name, or None."""
    row = Gpu.objects.select_related("node__live").filter(uuid=uuid).first()
    if row is None:
        return None
    held = (
        Allocation.objects.filter(gpu=row, released_at__isnull=True)
        .select_related("attempt__job__project", "attempt__job__user")
        .first()
    )
    how = standings([row.node], now())[row.node_id].standing
    return {"node": row.node.name, **_gpu(row, row.node, held, actor, standing=how, kept=nominations().get(uuid))}


def queues(now: datetime) -> list[dict[str, Any]]:
    """The queues with, per level, how many wait and run, and how long the oldest has waited (seconds)."""
    waiting = {
        (q, level): (n, oldest)
        for q, level, n, oldest in Job.objects.filter(state=JobState.QUEUED)
        .values_list("queue__name", "level__name")
        .annotate(n=Count("id"), oldest=Min("submitted_at"))
    }
    running = {
        (q, level): n
        for q, level, n in Job.objects.filter(state__in=LIVE)
        .values_list("queue__name", "level__name")
        .annotate(n=Count("id"))
    }
    rows = []
    for q in Queue.objects.prefetch_related("levels"):
        levels = []
        for level in q.levels.all():
            n, oldest = waiting.get((q.name, level.name), (0, None))
            levels.append(
                {"name": level.name, "value": level.value, "waiting": n,
                 "running": running.get((q.name, level.name), 0),
                 "oldest_wait_s": round((now - oldest).total_seconds(), 1) if oldest else None}
            )  # fmt: skip
        rows.append(
            {
                "name": q.name,
                "weight": q.weight,
                "default_level": q.default_level,
                "default_max_duration": q.default_max_duration_s,
                "max_duration_cap": q.max_duration_cap_s,
                "never_without_checkpoint": q.never_without_checkpoint,
                "levels": levels,
                "waiting": sum(level["waiting"] for level in levels),
                "running": sum(level["running"] for level in levels),
            }
        )
    return rows


def scheduler(now: datetime) -> dict[str, Any]:
    """The scheduler's last tick: its age and length, who leads, and its alarms."""
    row = SchedulerState.objects.first()
    if row is None or row.last_tick_at is None:
        return {"last_tick_at": None, "age_s": None, "last_tick_ms": None, "holder": None, "epoch": 0, "alarms": []}
    return {
        "last_tick_at": row.last_tick_at,
        "age_s": round((now - row.last_tick_at).total_seconds(), 1),
        "last_tick_ms": round(row.last_tick_ms, 1),
        "holder": row.holder or None,
        "epoch": row.epoch,
        "alarms": row.alarms,
    }


def headline(nodes: list[dict[str, Any]], queue_rows: list[dict[str, Any]], tick: dict[str, Any], now: datetime) -> str:
    """The board's one sentence: is the pool healthy and busy, and what waits?"""
    gpus = [g for n in nodes for g in n["gpus"]]
    if not nodes:
        return "No node has registered yet: start an agent to add its GPUs."
    sick = sum(g["state"] != GpuState.HEALTHY for g in gpus)
    out = [n["name"] for n in nodes if n["standing"] not in (Standing.READY, Standing.RESERVED)]
    busy, waiting = sum(g["busy"] for g in gpus), sum(q["waiting"] for q in queue_rows)
    kept = sum(g["kept_until"] is not None and not g["busy"] for g in gpus)
    parts = [f"{busy} of {gpus_in_words(len(gpus))} busy", f"{jobs_in_words(waiting)} waiting"]
    if kept:
        parts.insert(1, f"{kept} kept for jobs that start next")
    if sick:
        parts.append(f"{gpus_in_words(sick)} out of service")
    if out:
        parts.append(f"{nodes_in_words(len(out))} not in service ({names_in_words(out)})")
    if tick["age_s"] is None or tick["age_s"] > LATE_S:
        parts.append("the scheduler is not ticking")
    return f"{', '.join(parts)}."


def retired(name: str) -> list[dict[str, Any]]:
    """The GPUs of the node that count as installed no more, by index."""
    rows = Gpu.objects.filter(node__name=name, state=GpuState.RETIRED).select_related("node__live").order_by("index")
    how = standings({g.node for g in rows}, now())
    return [_gpu(g, g.node, None, None, standing=how[g.node_id].standing) for g in rows]


def node_events(name: str, limit: int = 100, *, gpu: str | None = None) -> list[dict[str, Any]]:
    """The newest events of the node and its GPUs, or of one of them, newest first."""
    rows = Event.objects.filter(object__in=["node", "gpu"], node=name).order_by("-id")
    rows = (rows.filter(object="gpu", object_id=gpu) if gpu else rows)[:limit]
    return [
        {"seq": e.pk, "at": e.at, "type": e.type, "actor": e.actor, "object": e.object, "object_id": e.object_id,
         "message": e.message, "data": e.data}
        for e in rows
    ]  # fmt: skip


def sampled_after(moment: datetime) -> list[str]:
    """The names of the nodes whose newest sample came after ``moment``."""
    return list(NodeLive.objects.filter(sampled_at__gt=moment).values_list("node__name", flat=True))


def heard_after(moment: datetime) -> list[str]:
    """The names of the nodes that were heard of after ``moment``."""
    return list(NodeLive.objects.filter(last_heartbeat_at__gt=moment).values_list("node__name", flat=True))


def limits() -> dict[str, Any]:
    """What the pool could hold at most, for the form: memory, GPUs in one NVLink group, GPUs on one node."""
    from_rows = Gpu.objects.exclude(state=GpuState.RETIRED)
    groups = from_rows.exclude(nvlink_group_id=None).values("nvlink_group_id").annotate(n=Count("id"))
    per_node = from_rows.values("node").annotate(n=Count("id"))
    memory = sorted(set(from_rows.values_list("memory_mib", flat=True)))
    return {
        "gpus": from_rows.count(),
        "largest_group": max((g["n"] for g in groups if g["n"] > 1), default=0),
        "largest_node": max((g["n"] for g in per_node), default=0),
        "memory_mib": memory,
        "models": sorted(set(from_rows.values_list("model", flat=True))),
    }
