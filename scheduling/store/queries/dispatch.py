"""What a node is told: its desired set, and the launch document of an attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import NodeState
from scheduling.models import Artifact, Attempt, AttemptNode, Node
from scheduling.store.fixed import Fixed, FixedValues

_REACHABLE = Fixed(
    lambda name: Node.objects.filter(name=name).exclude(state=NodeState.LOST).order_by().values_list("boot_id")
)
_WANTED = FixedValues(
    lambda node: AttemptNode.objects.filter(
        node__name=node, ended_at__isnull=True, attempt__ended_at__isnull=True
    ).values_list(
        "attempt_id", "attempt__epoch", "attempt__action", "attempt__why", "attempt__stop_by", "ready_at", "started_at"
    )
)
_RANKS = FixedValues(
    lambda attempt: (
        AttemptNode.objects.filter(attempt_id=attempt, attempt__action="run")
        .order_by("rank")
        .values_list("ready_at", "port", "ended_at", "node__address")
    )
)


def boot_id(node: str) -> str | None:
    """The boot id the node registered with; None for an unknown node."""
    return Node.objects.filter(name=node).values_list("boot_id", flat=True).first()


def token_sha256(node: str) -> str | None:
    """The sha256 of the node's token; None for an unknown node."""
    return Node.objects.filter(name=node).values_list("token_sha256", flat=True).first()


def boot_of_reachable(node: str) -> str | None:
    """The boot id the node registered with; None for an unknown one, and for a LOST one, whose work was taken back: it
    must register clean before it gets any."""
    return next((boot for (boot,) in _REACHABLE(node)), None)


def desired(node: str, now: datetime) -> list[dict[str, Any]]:
    """Every live attempt with a part on the node that has not ended, and what is wanted of it.

    ``go`` is there for what waits to start together with other nodes: None until all are ready.
    """
    return [
        {
            "attempt": str(attempt),
            "epoch": epoch,
            "action": action,
            "grace_s": max(0.0, round((stop_by - now).total_seconds(), 3)) if stop_by else 0.0,
            "why": why or None,
            **({"go": meeting_of(attempt)} if ready and not started else {}),
        }
        for attempt, epoch, action, why, stop_by, ready, started in _WANTED(node)
    ]


def meeting_of(attempt_id: UUID) -> dict[str, Any] | None:
    """Where the ranks of the attempt meet, once all its nodes could start and as long as it may: else None."""
    parts = _RANKS(attempt_id)
    if not parts or any(ready is None or ended is not None for ready, _, ended, _ in parts):
        return None
    _, port, _, address = parts[0]
    return {"address": address, "port": port}


def nodes_of(job_id: UUID) -> list[str]:
    """The nodes with a part in the job's live attempt."""
    parts = AttemptNode.objects.filter(attempt__job_id=job_id, attempt__ended_at__isnull=True, ended_at__isnull=True)
    return list(parts.values_list("node__name", flat=True))


def launch(attempt_id: UUID, node: str, *, log_bytes: int, grace_s: float) -> dict[str, Any] | None:
    """The launch document of a claimed, live attempt, as the protocol says."""
    part = (
        AttemptNode.objects.select_related("attempt__job__queue", "attempt__resume")
        .filter(attempt_id=attempt_id, node__name=node, ended_at__isnull=True, attempt__ended_at__isnull=True)
        .first()
    )
    if part is None:
        return None
    attempt, job = part.attempt, part.attempt.job
    # A job that has a whole NVLink group to itself computes on the first of them; the order of rows is the plan's.
    held = attempt.allocations.filter(gpu__node__name=node).order_by("pk").values_list("gpu__index", "gpu__uuid")
    gpus = [uuid for _, uuid in sorted(held[: job.gpus_per_node])]
    wanted = job.spec.get("inputs", [])
    found = {str(a.pk): a for a in Artifact.objects.filter(pk__in=[i["artifact"] for i in wanted])}
    resume = None
    if attempt.resume is not None:
        resume = {"artifact": str(attempt.resume_id), "step": attempt.resume_step, "files": attempt.resume.files}
    return {
        "attempt": str(attempt.pk),
        "epoch": attempt.epoch,
        "number": attempt.number,
        "job": str(job.pk),
        "kind": job.kind,
        "params": job.params,
        "argv": None,
        "env": {},
        "gpus": gpus,
        "node_rank": part.rank,
        "node_count": attempt.nodes.count(),
        "nproc": 1,
        "inputs": [
            {
                "artifact": i["artifact"],
                "as": i["as"],
                "name": i["name"],
                "digest": found[i["artifact"]].digest if i["artifact"] in found else "",
                "files": found[i["artifact"]].files if i["artifact"] in found else [],
            }
            for i in wanted
        ],
        "resume": resume,
        "remaining_s": float(attempt.remaining_s),
        "grace_s": min(grace_s, job.queue.grace_s) if job.queue else grace_s,
        "log_bytes": log_bytes,
    }


def resumes_from(attempt_id: UUID) -> UUID | None:
    """The checkpoint that the attempt begins with; None for none."""
    return Attempt.objects.filter(pk=attempt_id).values_list("resume", flat=True).first()


def resumes_from_damage(attempt_id: UUID) -> bool:
    """Whether the checkpoint that the attempt begins with is known to be damaged."""
    return Attempt.objects.filter(pk=attempt_id, resume__corrupt=True).exists()


def ended_same(attempt_id: UUID, epoch: int, node: str) -> bool:
    """True when the node's part of the attempt ended by a report at this epoch: a repeated ``finished`` is no news."""
    ended = AttemptNode.objects.filter(attempt_id=attempt_id, attempt__epoch=epoch, node__name=node)
    return ended.filter(ended_at__isnull=False).exclude(outcome="LOST").exists()
