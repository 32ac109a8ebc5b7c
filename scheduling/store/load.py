"""Rows become a snapshot, in a number of queries that does not depend on how many there are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from scheduling.core.decay import decay, interval
from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.policy import DEFAULT_POLICY, Level, Policy, PreemptRule, QueuePolicy
from scheduling.core.pool import Gpu as CoreGpu
from scheduling.core.pool import Node as CoreNode
from scheduling.core.pool import Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.snapshot import LiveAttempt, NodeLease, Snapshot, Usage, WaitingJob
from scheduling.models import (
    Allocation,
    Attempt,
    Availability,
    Balance,
    BillingWeight,
    FairShareSettings,
    Gpu,
    Job,
    Membership,
    Node,
    NodeLive,
    PreemptionRule,
    Project,
    Queue,
)
from scheduling.models.jobs import LIVE
from scheduling.store.clock import to_ms


def policy_of() -> Policy:
    """The policy as the admin has set it; waits are scaled as the settings say."""
    queues = []
    for q in Queue.objects.prefetch_related("levels"):
        levels = tuple(Level(level.name, level.value) for level in q.levels.all())
        queues.append(
            QueuePolicy(
                q.name, q.weight, levels, default_level=q.default_level, grace_s=q.grace_s,
                default_max_duration_s=q.default_max_duration_s, max_duration_cap_s=q.max_duration_cap_s,
            )
        )  # fmt: skip
    rules = PreemptionRule.objects.values_list(
        "preemptor__queue__name", "preemptor__name", "victim__queue__name", "victim__name"
    )
    scale = settings.TIME_SCALE
    half_life = FairShareSettings.objects.values_list("half_life_s", flat=True).first()
    return replace(
        DEFAULT_POLICY,
        queues=tuple(queues),
        preemption=tuple(PreemptRule(*row) for row in rules),
        project_weights=dict(Project.objects.values_list("name", "weight")),
        user_weights={
            (p, u): w for p, u, w in Membership.objects.values_list("project__name", "user__username", "weight")
        },
        billing=billing_weights(),
        half_life_s=float(DEFAULT_POLICY.half_life_s if half_life is None else half_life),
        retry=replace(
            DEFAULT_POLICY.retry,
            backoff_s=DEFAULT_POLICY.retry.backoff_s * scale,
            backoff_cap_s=DEFAULT_POLICY.retry.backoff_cap_s * scale,
        ),
        lease_s=DEFAULT_POLICY.lease_s * scale,
        claim_s=DEFAULT_POLICY.claim_s * scale,
    )


def billing_weights() -> dict[str, float]:
    """The billing weight of each GPU model that has one."""
    return dict(BillingWeight.objects.values_list("gpu_model", "weight"))


def pool_of() -> Pool:
    """Every node that has registered, and every GPU. A node that is leaving or short of disk takes no new work."""
    closed = set(NodeLive.objects.filter(Q(leaving=True) | Q(disk_low=True)).values_list("node_id", flat=True))
    nodes = []
    for n in Node.objects.filter(registered_at__isnull=False):
        state = NodeState(n.state)
        if n.pk in closed and state is NodeState.READY:
            state = NodeState.CORDONED
        nodes.append(CoreNode(n.name, n.rack_id, n.network_bandwidth_gbps, state, _labels(n.labels), n.simulated))
    gpus = (
        CoreGpu(
            g.uuid, g.node.name, g.index, g.model, g.memory_mib, g.nvlink_group_id, GpuState(g.state), _labels(g.labels)
        )
        for g in Gpu.objects.select_related("node")
    )
    return Pool(tuple(nodes), tuple(gpus))


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(k), str(v)) for k, v in labels.items()))


def snapshot(now: datetime) -> Snapshot:
    """Everything one decision may know, as plain values that cannot reach the database again."""
    policy = policy_of()
    half_life = int(policy.half_life_s * 1000)
    live, open_spans = _live(now)
    return Snapshot(
        now_ms=to_ms(now),
        policy=policy,
        pool=pool_of(),
        waiting=tuple(_waiting()),
        live=live,
        leases=_leases(now),
        usage=_usage(open_spans, to_ms(now), half_life),
    )


_WAITING = (
    "id", "queue__name", "level__name", "level__value", "project__name", "user__username", "submitted_at",
    "gpu_count", "node_count", "gpus_per_node", "gpu_memory_min_mib", "nvlink_required", "nvlink_exclusive",
    "max_duration_s", "affinity", "ran_ms", "eligible_at", "avoid",
)  # fmt: skip


def _waiting() -> Iterable[WaitingJob]:
    rows = Job.objects.filter(state=JobState.QUEUED).values_list(*_WAITING)
    for (id_, queue, level, value, project, user, submitted, count, nodes, per_node, mib, nvlink, exclusive,
         duration, affinity, ran_ms, eligible, avoid) in rows.iterator(chunk_size=2000):  # fmt: skip
        yield WaitingJob(
            id=str(id_), queue=queue, level=level, level_value=value, project=project, user=user,
            submitted_ms=to_ms(submitted),
            request=ResourceRequest(
                gpu_count=count, node_count=nodes, gpus_per_node=per_node, gpu_memory_min_mib=mib,
                nvlink_required=nvlink, nvlink_exclusive=exclusive, max_duration_s=duration,
                affinity=terms(affinity),
            ),
            remaining_s=max(1, duration - ran_ms // 1000),
            eligible_at_ms=to_ms(eligible) if eligible else 0,
            avoid_gpus=frozenset(avoid.get("gpus", ())),
            avoid_nodes=frozenset(avoid.get("nodes", ())),
        )  # fmt: skip


def terms(stored: Iterable[dict[str, object]]) -> tuple[AffinityTerm, ...]:
    """Affinity terms from their stored form."""
    return tuple(
        AffinityTerm(key=t["key"], op=t["op"], values=tuple(t["values"]), weight=t["weight"], required=t["required"])  # type: ignore[arg-type]
        for t in stored
    )


def _live(now: datetime) -> tuple[tuple[LiveAttempt, ...], list[tuple[tuple[str, str, str], float, int]]]:
    """The live attempts, and for each open allocation (its entities, its billing weight, its start)."""
    spans: list[tuple[tuple[str, str, str], float, int]] = []
    held: dict[object, list[str]] = {}
    rows = Allocation.objects.filter(released_at__isnull=True).values_list(
        "attempt_id", "gpu__uuid", "granted_at", "billing", "attempt__job__queue__name",
        "attempt__job__project__name", "attempt__job__user__username",
    )  # fmt: skip
    for attempt, uuid, granted, billing, queue, project, user in rows:
        held.setdefault(attempt, []).append(uuid)
        spans.append(((queue, project, user), billing, to_ms(granted)))
    parts = (
        Attempt.objects.filter(ended_at__isnull=True, job__state__in=LIVE)
        .values_list(
            "id", "job_id", "epoch", "number", "job__queue__name", "job__project__name", "job__user__username",
            "nodes__node__name", "job__state", "granted_at", "nodes__claimed_at", "started_at", "remaining_s",
            "job__infra_failures", "nodes__rank",
        )
        .order_by("id", "nodes__rank")
    )  # fmt: skip
    live = []
    at = to_ms(now)
    for (id_, job, epoch, number, queue, project, user, node, state, granted, claimed, started, remaining, failures,
         rank) in parts:  # fmt: skip
        if rank:
            continue
        used = max(0, at - to_ms(started)) // 1000 if started else 0
        live.append(
            LiveAttempt(
                attempt=str(id_), job=str(job), epoch=epoch, number=number, queue=queue, project=project, user=user,
                gpus=tuple(sorted(held.get(id_, ()))), node=node or "", state=JobState(state),
                granted_ms=to_ms(granted),
                claimed_ms=to_ms(claimed) if claimed else None, started_ms=to_ms(started) if started else None,
                remaining_s=max(0, remaining - used), infra_failures=failures,
            )
        )  # fmt: skip
    return tuple(live), spans


def _usage(open_spans: list[tuple[tuple[str, str, str], float, int]], at: int, half_life: int) -> Usage:
    queue: dict[str, float] = {}
    project: dict[str, float] = {}
    user: dict[tuple[str, str], float] = {}
    for ledger, key, gpu_ms, settled in Balance.objects.values_list("ledger", "key", "gpu_ms", "settled_at"):
        kept = decay(gpu_ms, at - to_ms(settled), half_life)
        if ledger == "user":
            owner, _, name = key.partition("/")
            user[(owner, name)] = user.get((owner, name), 0.0) + kept
        else:
            target = queue if ledger == "queue" else project
            target[key] = target.get(key, 0.0) + kept
    for (q, p, u), weight, start in open_spans:
        cost = interval(weight, start, at, at, half_life_ms=half_life)
        queue[q] = queue.get(q, 0.0) + cost
        project[p] = project.get(p, 0.0) + cost
        user[(p, u)] = user.get((p, u), 0.0) + cost
    return Usage(_whole(queue), _whole(project), {k: math.floor(v + 0.5) for k, v in user.items()})


def _whole(amounts: dict[str, float]) -> dict[str, int]:
    return {key: math.floor(value + 0.5) for key, value in amounts.items()}


def _leases(now: datetime) -> tuple[NodeLease, ...]:
    """The lease of every node that has registered; silence counts only while heartbeats could be accepted (D21)."""
    window = Availability.objects.values_list("since", "last_seen_at").first()
    scale = settings.TIME_SCALE
    at = to_ms(now)
    accepting = window is not None and at - to_ms(window[1]) <= 10_000 * scale
    leases = []
    for name, boot, last in NodeLive.objects.values_list("node__name", "node__boot_id", "last_heartbeat_at"):
        if last is None:
            continue
        since = max(to_ms(last), to_ms(window[0])) if window else at
        leases.append(NodeLease(name, boot, to_ms(last), max(0, at - since) if accepting else 0))
    return tuple(leases)
