"""The GPUs of one node with what is remembered of them: how each is judged, taken in or out, and left by its job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import F

from scheduling.core import health
from scheduling.core.gpu_checks import Sample
from scheduling.core.gpu_record import Cause, Known, pack, unpack
from scheduling.core.gpu_xids import Need
from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.core.policy import Policy
from scheduling.models import Allocation, Gpu, NodeLive
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit import closed_for_health
from scheduling.store.commit.drains import HEALTH
from scheduling.store.commit.leaving import Leave, leave
from scheduling.store.fixed import FixedObjects, FixedUpdate

OUT = (GpuState.UNHEALTHY.value, GpuState.QUARANTINED.value)

_LIVE = FixedObjects(
    lambda node: NodeLive.objects.select_for_update(of=("self",)).select_related("node").filter(node__name=node)
)
_GPUS = FixedObjects(lambda node: Gpu.objects.filter(node=node).order_by("index", "uuid"))

_KEEP = FixedUpdate(lambda node: NodeLive.objects.filter(pk=node))


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

    def judge(self, gpu: Gpu, sample: Sample | None, *, boot_id: str, seq: int) -> tuple[Known, health.Verdict]:
        """The GPU as it was, and the verdict on it; whether a job is on it makes no difference to one that is well."""
        at = to_ms(self.now)
        if gpu.state == GpuState.HEALTHY:
            known = Known(GpuState.HEALTHY, unpack(self.live.health.get(gpu.uuid, {})), gpu.memory_mib)
            verdict = health.receive(known, sample, boot_id=boot_id, seq=seq, now_ms=at)
            if verdict.state is GpuState.HEALTHY:
                return known, verdict
        known = self.known(gpu)
        return known, health.receive(known, sample, boot_id=boot_id, seq=seq, now_ms=at)

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

    def node_change(self, broken: Sequence[str] = ()) -> closed_for_health.Change | None:
        """What becomes of the node: closed for GPUs that are ``broken`` from now on until its machine was restarted,
        and open again once none of them is left."""
        node = self.live.node
        if not broken and node.closed_by != HEALTH:
            return None
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
        return closed_for_health.change(node, left, back, new=bool(broken))

    def settle(self) -> None:
        """The node, whose row is locked, is open again once it is closed for none of its GPUs any more."""
        closed_for_health.settle(self.live.node, self.node_change(), now=self.now)

    def doubt_links(self, group: str, words: str, *, but: str = "") -> None:
        """The GPUs of the NVLink group, but for the one with the fault, get no new work until it is mended."""
        for gpu in self.gpus.values():
            if gpu.nvlink_group_id == group and gpu.uuid != but:
                self.take(gpu, health.doubt_link(self.known(gpu), words))


def ward_of(node: str, *, now: datetime, actor: str) -> Ward | None:
    """The GPUs of the node, its live row locked; None for an unknown node."""
    live = _LIVE.first(node)
    if live is None:
        return None
    gpus = {gpu.uuid: gpu for gpu in _GPUS(live.node_id)}
    for gpu in gpus.values():
        gpu.node = live.node
    return Ward(live, gpus, now, actor, dict(live.health))
