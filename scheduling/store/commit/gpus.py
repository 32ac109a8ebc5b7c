"""The states of GPUs: what a report, a registration, an operator or the end of a job does to them.

Each change is guarded by the state it starts from, raises the row's version and is told in the journal, in one
transaction. What is remembered between reports lies in the node's narrow row, so that a report that changes no state
writes that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from scheduling.core import health
from scheduling.core.gpu_blame import WINDOW_MS, JobFailure, alike
from scheduling.core.gpu_checks import Sample, read, same_size
from scheduling.core.gpu_record import Cause, Known, pack, unpack
from scheduling.core.gpu_return import wants_test
from scheduling.core.gpu_xids import Need
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.policy import Policy
from scheduling.models import Allocation, Attempt, Gpu, Node, NodeLive
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit import closed_for_health
from scheduling.store.commit.drains import HEALTH
from scheduling.store.commit.leaving import Leave, leave
from scheduling.store.fixed import FixedObjects, FixedUpdate

GONE = "its node does not report it any more; retire it if it was taken out"
OUT = (GpuState.UNHEALTHY.value, GpuState.QUARANTINED.value)

_LIVE = FixedObjects(
    lambda node: NodeLive.objects.select_for_update(of=("self",)).select_related("node").filter(node__name=node)
)
_GPUS = FixedObjects(lambda node: Gpu.objects.filter(node=node).order_by("index", "uuid"))

_KEEP = FixedUpdate(lambda node: NodeLive.objects.filter(pk=node))


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


@dataclass
class Ward:
    """The GPUs of one node with what is remembered of them, locked until the transaction ends."""

    live: NodeLive
    gpus: dict[str, Gpu]
    now: datetime
    actor: str
    before: dict[str, Any]

    @cached_property
    def holders(self) -> dict[str, UUID]:
        """The attempt on each GPU that has one. Asked only when there is trouble: every report would pay for it."""
        held = Allocation.objects.filter(gpu__node=self.live.node_id, released_at__isnull=True)
        return dict(held.values_list("gpu__uuid", "attempt_id"))

    def known(self, gpu: Gpu) -> Known:
        """The GPU as it is on record."""
        record = unpack(self.live.health.get(gpu.uuid, {}))
        down = record.cause is Cause.LINK and self._link_down(gpu)
        return Known(GpuState(gpu.state), record, gpu.memory_mib, gpu.uuid in self.holders, down)

    def _link_down(self, gpu: Gpu) -> bool:
        if gpu.nvlink_group_id is None:
            return False
        here = (other for other in self.gpus.values() if other.nvlink_group_id == gpu.nvlink_group_id)
        if any(other.state in OUT and self.live.health.get(other.uuid, {}).get("link") for other in here):
            return True
        rows = Gpu.objects.filter(nvlink_group_id=gpu.nvlink_group_id, state__in=OUT).exclude(node=self.live.node_id)
        return any(far.node.live.health.get(far.uuid, {}).get("link") for far in rows.select_related("node__live"))

    def judge(self, gpu: Gpu, sample: Sample | None, report: Report) -> tuple[Known, health.Verdict]:
        """The GPU as it was, and the verdict on it; whether a job is on it makes no difference to one that is well."""
        at = to_ms(self.now)
        if gpu.state == GpuState.HEALTHY:
            known = Known(GpuState.HEALTHY, unpack(self.live.health.get(gpu.uuid, {})), gpu.memory_mib)
            verdict = health.receive(known, sample, boot_id=report.boot_id, seq=report.seq, now_ms=at)
            if verdict.state is GpuState.HEALTHY:
                return known, verdict
        known = self.known(gpu)
        return known, health.receive(known, sample, boot_id=report.boot_id, seq=report.seq, now_ms=at)

    def take(self, gpu: Gpu, verdict: health.Verdict) -> bool:
        """The row and the journal are as the verdict says; False, and nothing written, when the row had moved on."""
        notes = []
        for taken in verdict.steps:
            source = GpuState(gpu.state)
            if taken.event is not None:
                target = health.advance_gpu(source, taken.event)
                why = "" if target is GpuState.HEALTHY else (verdict.record.reason or taken.words)[:200]
                if target is None or not Gpu.objects.filter(pk=gpu.pk, state=source).update(
                    state=target, why=why, failed_checks=verdict.record.failed, state_since=self.now,
                    version=F("version") + 1,
                ):  # fmt: skip
                    return False
                gpu.state, gpu.why, gpu.version = target.value, why, gpu.version + 1
            notes.append(self._note(gpu, source, taken))
        if gpu.state != GpuState.HEALTHY and verdict.record.reason and gpu.why != verdict.record.reason[:200]:
            gpu.why = verdict.record.reason[:200]
            Gpu.objects.filter(pk=gpu.pk).update(why=gpu.why)
        self.live.health[gpu.uuid] = pack(verdict.record)
        journal.write(notes, self.now)
        return True

    def _note(self, gpu: Gpu, source: GpuState, taken: health.Step) -> journal.Note:
        moved = taken.event is not None
        return journal.Note(
            "gpu_state" if moved else "gpu_health", "gpu", gpu.uuid, actor=self.actor, node=gpu.node.name,
            version=gpu.version, message=f"{gpu.state}: {taken.words}" if moved else taken.words,
            data={"from": source.value, "to": gpu.state, "event": taken.event, "index": gpu.index,
                  **dict(taken.numbers)},
        )  # fmt: skip

    def keep(self, **more: Any) -> None:
        """What is remembered is written, if it has changed; with other columns of that row."""
        changes = more if self.live.health == self.before else {**more, "health": self.live.health}
        if changes:
            _KEEP(self.live.pk, **changes)

    def leave(self, gpu: Gpu, *, answers: bool, grace_s: float, policy: Callable[[], Policy]) -> list[str]:
        """The job on the GPU, if there is one and the GPU is UNHEALTHY, is asked to leave; returns nodes to ring."""
        holder = self.holders.get(gpu.uuid) if gpu.state == GpuState.UNHEALTHY else None
        if holder is None:
            return []
        words = f"GPU {gpu.node.name}/{gpu.index} is failing ({gpu.why})"
        data = {"cause": "gpu", "gpu": gpu.uuid, "gpu_why": gpu.why}
        asked = Leave("health", words, data, grace_s=grace_s, answers=answers, avoid_gpus=(gpu.uuid,))
        return leave(holder, asked, now=self.now, actor=HEALTH, policy=policy())

    def settle(self, broken: Sequence[str] = ()) -> None:
        """The node is closed for GPUs that are ``broken`` from now on until its machine was restarted, and open again
        once none of them is left."""
        node = self.live.node
        if not broken and node.closed_by != HEALTH:
            return
        if node.state == NodeState.READY:  # what it was closed for before, somebody has answered for
            for uuid in self.live.health.keys() - set(broken):
                self.live.health[uuid] = {k: v for k, v in self.live.health[uuid].items() if k != "machine"}
        left, back = [], []
        for gpu in self.gpus.values():
            record = unpack(self.live.health.get(gpu.uuid, {}))
            if record.machine:
                left.append(closed_for_health.Broken(gpu.index, record.machine, record.need is Need.NOTHING))
            elif self.before.get(gpu.uuid, {}).get("machine"):
                back.append(closed_for_health.words_of_return(gpu.index, retired=gpu.state == GpuState.RETIRED))
        closed_for_health.settle(node.pk, left, back, new=bool(broken), now=self.now)

    def doubt_links(self, group: str, words: str, *, but: str = "") -> None:
        """The GPUs of the NVLink group, but for the one with the fault, get no new work until it is mended."""
        for gpu in self.gpus.values():
            if gpu.nvlink_group_id == group and gpu.uuid != but:
                self.take(gpu, health.doubt_link(self.known(gpu), words))


def _ward(node: str, *, now: datetime, actor: str) -> Ward | None:
    live = _LIVE.first(node)
    if live is None:
        return None
    gpus = {gpu.uuid: gpu for gpu in _GPUS(live.node_id)}
    for gpu in gpus.values():
        gpu.node = live.node
    return Ward(live, gpus, now, actor, dict(live.health))


# One message is one transaction of its own, so the savepoint would only cost.
@transaction.atomic(savepoint=False)
def checked(node: str, report: Report, *, now: datetime, grace_s: float, policy: Callable[[], Policy]) -> Judged:
    """The lease is renewed and every GPU judged by the report.

    A GPU that the report does not mention has failed its check. The job on an UNHEALTHY one is asked to leave, again
    and again as long as somebody wants it to run there. A report that others have overtaken renews the lease alone.
    With a fault that only a restart mends the node is drained; with one of NVLink its group gets no new work.
    """
    ward = _ward(node, now=now, actor=f"node {node}")
    if ward is None:
        return Judged()
    said = {str(row.get("uuid")): read(row) for row in report.samples}
    at = to_ms(now)
    tests: list[str] = []
    ring: list[str] = []
    links: dict[str, str] = {}
    broken: list[str] = []
    for gpu in ward.gpus.values():
        known, verdict = ward.judge(gpu, said.get(gpu.uuid), report)
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
    ward.settle(broken)
    late = report.seq < ward.live.seq
    ward.keep(**{"last_heartbeat_at": now, **({} if late else report.facts)})
    return Judged(tuple(tests), tuple(ring), links)


@transaction.atomic
def doubt_links(node: str, group: str, words: str, *, now: datetime) -> None:
    """The GPUs that this node has in the NVLink group, in which another node's is at fault, get no new work."""
    ward = _ward(node, now=now, actor=HEALTH)
    if ward is not None:
        ward.doubt_links(group, words)
        ward.keep()


def others_in(group: str, node: str) -> list[str]:
    """The names of the other nodes with GPUs in the NVLink group, in order."""
    rows = Gpu.objects.filter(nvlink_group_id=group).exclude(node__name=node).order_by("node__name")
    return list(rows.values_list("node__name", flat=True).distinct())


def described(node: Node, gpus: Sequence[Mapping[str, Any]], *, boot_id: str, now: datetime, policy: Policy) -> None:
    """The node's GPU rows match what it registers with, by UUID; call it inside the registration's transaction.

    A new GPU is HEALTHY. One of another size than before, or that is not described any more, is out of service, and
    a job that still holds it is asked to leave; one that an operator retired stays retired.
    """
    actor = f"node {node.name}"
    _adopt_rows(node, gpus, now=now, actor=actor)
    ward = _ward(node.name, now=now, actor=actor)
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
        if size is not None and size != gpu.memory_mib:
            Gpu.objects.filter(pk=gpu.pk).update(memory_mib=size, version=F("version") + 1)
        ward.leave(gpu, answers=False, grace_s=0.0, policy=lambda: policy)
    ward.settle()
    ward.keep()


def _adopt_rows(node: Node, gpus: Sequence[Mapping[str, Any]], *, now: datetime, actor: str) -> None:
    """There is a row of this node for each described GPU, with its place and its group as described."""
    before = {g.uuid: g for g in Gpu.objects.filter(uuid__in=[g["uuid"] for g in gpus])}
    notes = []
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
    journal.write(notes, now)


def _bring_along(gpu: Gpu, node: Node) -> None:
    """What is remembered of a GPU that has moved to another node is remembered there."""
    was = NodeLive.objects.select_for_update().filter(node=gpu.node_id).first()
    here = NodeLive.objects.select_for_update().filter(node=node).first()
    if was is None or here is None or gpu.uuid not in was.health:
        return
    kept = was.health.pop(gpu.uuid)
    NodeLive.objects.filter(pk=was.pk).update(health=was.health)
    NodeLive.objects.filter(pk=here.pk).update(health={**here.health, gpu.uuid: kept})


@transaction.atomic
def unclean(attempt_id: UUID, node: str, words: str, *, held: bool, now: datetime) -> None:
    """The attempt's GPUs on the node are QUARANTINED: a process that could not be killed may still use them.

    What is only ``held`` on them in memory comes free without a reboot, and their test sees whether it has.
    """
    ward = _ward(node, now=now, actor=f"node {node}")
    if ward is None:
        return
    need = Need.NOTHING if held else Need.REBOOT
    its_own = set(Allocation.objects.filter(attempt_id=attempt_id).values_list("gpu_id", flat=True))
    for gpu in ward.gpus.values():
        if gpu.pk in its_own:
            known = replace(ward.known(gpu), busy=False)
            ward.take(gpu, health.take_out(known, Cause.UNCLEAN, words, need=need, now_ms=to_ms(now)))
    ward.keep()


def failing(attempt_id: UUID) -> list[tuple[str, str]]:
    """``(UUID, "GPU n1/2 was failing (why)")`` of the attempt's GPUs that are out of service for what was found on
    them: not for a process that could not be killed, which is the process's affair."""
    rows = Gpu.objects.filter(allocations__attempt_id=attempt_id, state__in=OUT).select_related("node__live")
    found = []
    for gpu in rows.order_by("node__name", "index"):
        if unpack(gpu.node.live.health.get(gpu.uuid, {})).cause is not Cause.UNCLEAN:
            found.append((gpu.uuid, f"GPU {gpu.node.name}/{gpu.index} was failing ({gpu.why})"))
    return found


@transaction.atomic
def blame(attempt_id: UUID, *, now: datetime) -> list[str]:
    """The GPUs of the failed attempt on which jobs of different people fail alike are SUSPECT; returns which."""
    since = now - timedelta(milliseconds=WINDOW_MS)
    suspects = []
    for gpu in Gpu.objects.filter(allocations__attempt_id=attempt_id, state=GpuState.HEALTHY).select_related("node"):
        rows = Attempt.objects.filter(allocations__gpu=gpu, outcome="FAILED", ended_at__gt=since).order_by("ended_at")
        seen = [
            JobFailure(user or "", to_ms(at), code, error)
            for user, at, code, error in rows.values_list("job__user__username", "ended_at", "exit_code", "error")
            if at is not None
        ]
        blamed = alike(seen, now_ms=to_ms(now), since_ms=to_ms(gpu.state_since) if gpu.state_since else 0)
        if blamed is None:
            continue
        ward = _ward(gpu.node.name, now=now, actor="health")
        row = ward.gpus.get(gpu.uuid) if ward else None
        if ward is None or row is None:
            continue
        numbers = (("failures", blamed.failures), ("people", blamed.users))
        ward.take(row, health.blame(ward.known(row), blamed.words, numbers))
        ward.keep()
        suspects.append(gpu.uuid)
    return suspects


@transaction.atomic
def operate(uuid: str, verb: str, *, now: datetime, actor: str, message: str) -> tuple[bool, str] | None:
    """(lawful, state) after ``return`` or ``retire``; None for an unknown GPU. Nobody retires one under a job."""
    name = Gpu.objects.filter(uuid=uuid).values_list("node__name", flat=True).first()
    ward = _ward(name, now=now, actor=actor) if name else None
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
