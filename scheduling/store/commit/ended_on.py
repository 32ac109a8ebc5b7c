"""What the end of an attempt says of the GPUs that it stood on: failing, still used, or suspect."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from scheduling.core import health
from scheduling.core.gpu_blame import WINDOW_MS, JobFailure, alike
from scheduling.core.gpu_record import Cause, unpack
from scheduling.core.gpu_xids import Need
from scheduling.core.lifecycle import GpuState
from scheduling.models import Allocation, Attempt, Gpu
from scheduling.store.clock import to_ms
from scheduling.store.commit.drains import HEALTH
from scheduling.store.commit.ward import OUT, ward_of


@transaction.atomic
def unclean(attempt_id: UUID, node: str, words: str, *, held: bool, now: datetime) -> None:
    """The attempt's GPUs on the node are QUARANTINED: a process that could not be killed may still use them.

    What is only ``held`` on them in memory comes free without a reboot, and their test sees whether it has.
    """
    ward = ward_of(node, now=now, actor=f"node {node}")
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


def blame(attempt_id: UUID, *, now: datetime) -> list[str]:
    """The GPUs of the failed attempt on which jobs of different people fail alike are SUSPECT; returns which.

    Call it when the attempt's end is committed: each GPU is a transaction of its own, whose node comes before any job.
    """
    its_own = Gpu.objects.filter(allocations__attempt_id=attempt_id, state=GpuState.HEALTHY).select_related("node")
    return [gpu.uuid for gpu in its_own if _suspect(gpu, now)]


def _suspect(gpu: Gpu, now: datetime) -> bool:
    since = now - timedelta(milliseconds=WINDOW_MS)
    rows = Attempt.objects.filter(allocations__gpu=gpu, outcome="FAILED", ended_at__gt=since).order_by("ended_at")
    seen = [
        JobFailure(user or "", to_ms(at), code, error)
        for user, at, code, error in rows.values_list("job__user__username", "ended_at", "exit_code", "error")
        if at is not None
    ]
    blamed = alike(seen, now_ms=to_ms(now), since_ms=to_ms(gpu.state_since) if gpu.state_since else 0)
    if blamed is None:
        return False
    with transaction.atomic():
        ward = ward_of(gpu.node.name, now=now, actor=HEALTH)
        row = ward.gpus.get(gpu.uuid) if ward else None
        if ward is None or row is None:
            return False
        numbers = (("failures", blamed.failures), ("people", blamed.users))
        ward.take(row, health.blame(ward.known(row), blamed.words, numbers))
        ward.keep()
    return True
