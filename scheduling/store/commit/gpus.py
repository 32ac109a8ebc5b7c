"""The states of GPUs: what a report, a registration, an operator or the end of a job does to them.

Each change is guarded by the state it starts from, raises the row's version and is told in the journal, in one
transaction. What is remembered between reports lies in the node's narrow row, so that a report that changes no state
writes that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduling.core import health
from scheduling.core.gpu_checks import read, same_size
from scheduling.core.gpu_record import Cause, pack
from scheduling.core.gpu_return import wants_test
from scheduling.core.gpu_xids import Need
from scheduling.core.lifecycle import GpuState
from scheduling.core.policy import Policy
from scheduling.models import Gpu, Node, NodeLive
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit import closed_for_health
from scheduling.store.commit.drains import HEALTH
from scheduling.store.commit.locks import lock_node
from scheduling.store.commit.ward import ward_of
from scheduling.store.node_names import named

GONE = "its node does not report it any more; retire it if it was taken out"


@dataclass(frozen=True, slots=True)
class Report:
    """A node's message with its samples; ``facts`` are the other columns of its narrow row that it speaks of."""

    boot_id: str
    seq: int
    samples: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a report led to: GPUs to be tested, nodes to ring, and the NVLink groups with a new fault, in words."""

    tests: tuple[str, ...] = ()
    ring: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


def checked(node: str, report: Report, *, now: datetime, grace_s: float, policy: Callable[[], Policy]) -> Judged:
    """The lease is renewed and every GPU judged by the report.

    A GPU that the report does not mention has failed its check. The job on an UNHEALTHY one is asked to leave, again
    and again as long as somebody wants it to run there. A report that others have overtaken renews the lease alone.
    With a fault that only a restart mends the node is drained; with one of NVLink its group gets no new work.
    """
    judged = _checked(node, report, now=now, grace_s=grace_s, policy=policy)
    if judged is None:
        judged = _checked(node, report, now=now, grace_s=grace_s, policy=policy, whole=True)
    return judged or Judged()


# One message is one transaction of its own, so the savepoint would only cost.
@transaction.atomic(savepoint=False)
def _checked(
    node: str, report: Report, *, now: datetime, grace_s: float, policy: Callable[[], Policy], whole: bool = False
) -> Judged | None:
    """None, and nothing is written, where the node itself may be closed or opened: ``whole`` locks it before all else.

    That is rare, and every other report would wait for whoever writes that row.
    """
    if whole:
        lock_node(node)
    ward = ward_of(node, now=now, actor=f"node {node}")
    if ward is None:
        return Judged()
    said = {str(row.get("uuid")): read(row) for row in report.samples}
    if not whole and (ward.live.node.closed_by == HEALTH or any(sample.xids for sample in said.values())):
        return None
    at = to_ms(now)
    tests: list[str] = []
    ring: list[str] = []
    links: dict[str, str] = {}
    broken: list[str] = []
    for gpu in ward.gpus.values():
        known, verdict = ward.judge(gpu, said.get(gpu.uuid), boot_id=report.boot_id, seq=report.seq)
        if not ward.take(gpu, verdict):
            continue
        ring += ward.leave(gpu, answers=verdict.answers, grace_s=grace_s, policy=policy)
        if wants_test(replace(known, state=verdict.state, record=verdict.record), at):
            tests.append(gpu.uuid)
        if verdict.node:
            broken.append(gpu.uuid)
        if verdict.link and gpu.nvlink_group_id:
            links[gpu.nvlink_group_id] = f"GPU {node}/{gpu.index}: {verdict.link}"
            ward.doubt_links(gpu.nvlink_group_id, links[gpu.nvlink_group_id], but=gpu.uuid)
    if whole:
        closed_for_health.settle(ward.live.node, ward.node_change(broken), now=now)
    late = report.seq < ward.live.seq
    ward.keep(**{"last_heartbeat_at": now, **({} if late else report.facts)})
    return Judged(tuple(tests), tuple(ring), links)


@transaction.atomic
def doubt_links(node: str, group: str, words: str, *, now: datetime) -> None:
    """The GPUs that this node has in the NVLink group, in which another node's is at fault, get no new work."""
    ward = ward_of(node, now=now, actor=HEALTH)
    if ward is not None:
        ward.doubt_links(group, words)
        ward.keep()


def others_in(group: str, node: str) -> list[str]:
    """The names of the other nodes with GPUs in the NVLink group, in order."""
    rows = Gpu.objects.filter(nvlink_group_id=group).exclude(node__name=node).order_by("node__name")
    return list(rows.values_list("node__name", flat=True).distinct())


def owners(uuids: Sequence[str]) -> list[str]:
    """The names of the nodes whose GPUs these are by now."""
    return list(Gpu.objects.filter(uuid__in=uuids).values_list("node__name", flat=True).distinct())


def described(node: Node, gpus: Sequence[Mapping[str, Any]], *, boot_id: str, now: datetime, policy: Policy) -> None:
    """The node's GPU rows match what it registers with, by UUID; call it inside the registration's transaction, with
    the live rows of the GPUs' ``owners`` locked.

    A new GPU is HEALTHY. One of another size than before, or that is not described any more, or has come here from
    another node under a job, is out of service, and a job that still holds it is asked to leave; one that an operator
    retired stays retired.
    """
    actor = f"node {node.name}"
    moved = _adopt_rows(node, gpus, now=now, actor=actor)
    ward = ward_of(node.name, now=now, actor=actor)
    assert ward is not None  # noqa: S101  the registration made its row
    sizes = {g["uuid"]: g["memory_mib"] for g in gpus}
    for gpu in ward.gpus.values():
        known = ward.known(gpu)
        known = replace(known, record=health.registered(known.record, boot_id))
        ward.live.health[gpu.uuid] = pack(known.record)
        size = sizes.get(gpu.uuid)
        if gpu.state == GpuState.RETIRED:
            if size is not None and known.record.cause is not Cause.OPERATOR:
                ward.take(gpu, health.readmit(known, "its node reports it again"))
        elif size is None:
            ward.take(gpu, health.take_out(known, Cause.GONE, GONE, need=Need.NOTHING, now_ms=to_ms(now)))
        elif not same_size(size, gpu.memory_mib):
            words = f"it reports {size} MiB of memory and had {gpu.memory_mib} MiB"
            out = health.take_out(known, Cause.CHECKS, words, need=Need.OPERATOR, now_ms=to_ms(now))
            ward.take(gpu, out)
        elif gpu.uuid in moved and gpu.uuid in ward.holders:
            words = f"it has moved here from {moved[gpu.uuid]} while a job held it"
            ward.take(gpu, health.take_out(known, Cause.GONE, words, need=Need.NOTHING, now_ms=to_ms(now)))
        if size is not None and size != gpu.memory_mib:
            Gpu.objects.filter(pk=gpu.pk).update(memory_mib=size, version=F("version") + 1)
        ward.leave(gpu, answers=False, grace_s=0.0, policy=lambda: policy)
    ward.settle()
    ward.keep()


def _adopt_rows(node: Node, gpus: Sequence[Mapping[str, Any]], *, now: datetime, actor: str) -> dict[str, str]:
    """There is a row of this node for each described GPU, with its place and its group as described. Returns where
    those that were another node's come from."""
    known = Gpu.objects.select_related("node").filter(uuid__in=[g["uuid"] for g in gpus])
    before = {g.uuid: g for g in known}
    notes, came = [], {}
    for g in gpus:
        old = before.get(g["uuid"])
        place = {"node": node, "index": g["index"], "model": g["model"], "nvlink_group_id": g["nvlink_group_id"]}
        if old is None:
            Gpu.objects.create(uuid=g["uuid"], memory_mib=g["memory_mib"], state_since=now, **place)
            notes.append(
                journal.Note("gpu_state", "gpu", g["uuid"], node=node.name, actor=actor,
                             message=f"HEALTHY: {g['model']} has joined", data={"to": "HEALTHY", "index": g["index"]})
            )  # fmt: skip
            continue
        Gpu.objects.filter(pk=old.pk).update(**place)
        if old.node_id != node.pk:
            _bring_along(old, node)
            came[old.uuid] = named(old.node.name)
            moved = f"{g['model']} has moved from {named(old.node.name)} to {named(node.name)}, which reports it now"
            notes += [
                journal.Note("gpu_moved", "gpu", g["uuid"], node=where, actor=actor, message=moved,
                             data={"from": old.node.name, "to": node.name, "index": g["index"]})
                for where in (old.node.name, node.name)
            ]  # fmt: skip
    journal.write(notes, now)
    return came


def _bring_along(gpu: Gpu, node: Node) -> None:
    """What is remembered of a GPU that has moved to another node is remembered there."""
    was = NodeLive.objects.filter(node=gpu.node_id).first()
    here = NodeLive.objects.filter(node=node).first()
    if was is None or here is None or gpu.uuid not in was.health:
        return
    kept = was.health.pop(gpu.uuid)
    NodeLive.objects.filter(pk=was.pk).update(health=was.health)
    NodeLive.objects.filter(pk=here.pk).update(health={**here.health, gpu.uuid: kept})


@transaction.atomic
def operate(uuid: str, verb: str, *, now: datetime, actor: str, message: str) -> tuple[bool, str] | None:
    """(lawful, state) after ``return`` or ``retire``; None for an unknown GPU. Nobody retires one under a job."""
    name = Gpu.objects.filter(uuid=uuid).values_list("node__name", flat=True).first()
    if name is not None:
        lock_node(name)
    ward = ward_of(name, now=now, actor=actor) if name else None
    gpu = ward.gpus.get(uuid) if ward else None
    if ward is None or gpu is None:
        return None
    known = ward.known(gpu)
    verdict = health.retire(known, message) if verb == "retire" else health.readmit(known, message)
    if verdict is None:
        return False, gpu.state
    taken = ward.take(gpu, verdict)
    ward.settle()
    ward.keep()
    return taken, gpu.state
