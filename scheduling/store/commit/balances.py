"""What ended allocations cost, per queue, project and user: settled when they end, derivable from the intervals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from scheduling.core.decay import decay, interval
from scheduling.models import Allocation, Balance, FairShareSettings, Job
from scheduling.store.clock import to_ms


def half_life_ms() -> int:
    """The pool's half-life in milliseconds; 0 = none."""
    row = FairShareSettings.objects.values_list("half_life_s", flat=True).first()
    return 1000 * (7 * 86400 if row is None else row)


def entities(job: Job) -> list[tuple[str, str]]:
    """The three ledgers that this job is charged to."""
    project, user = (job.project.name if job.project else ""), (job.user.get_username() if job.user else "")
    return [("queue", job.queue.name if job.queue else ""), ("project", project), ("user", f"{project}/{user}")]


def charge(job: Job, ended: Iterable[Allocation], now: datetime) -> int:
    """The ended allocations are in the job's three balances; returns the undecayed GPU-ms charged."""
    half_life, at = half_life_ms(), to_ms(now)
    spans = [(a.billing, to_ms(a.granted_at), to_ms(now)) for a in ended]
    cost = sum(interval(w, start, end, at, half_life_ms=half_life) for w, start, end in spans)
    for ledger, key in entities(job):
        row, _ = Balance.objects.select_for_update().get_or_create(
            ledger=ledger, key=key, defaults={"settled_at": now, "gpu_ms": 0}
        )
        kept = decay(row.gpu_ms, at - to_ms(row.settled_at), half_life)
        Balance.objects.filter(pk=row.pk).update(gpu_ms=round(kept + cost), settled_at=now)
    return sum(round(w * (end - start)) for w, start, end in spans)


def rebuild(now: datetime) -> int:
    """Every balance equals what the allocation intervals say; returns how many rows were wrong by over 1 GPU-s."""
    half_life, at = half_life_ms(), to_ms(now)
    true: dict[tuple[str, str], float] = {}
    ended = Allocation.objects.filter(released_at__isnull=False).select_related(
        "attempt__job__project", "attempt__job__queue", "attempt__job__user"
    )
    for a in ended.iterator(chunk_size=2000):
        assert a.released_at is not None  # noqa: S101  the filter says so
        cost = interval(a.billing, to_ms(a.granted_at), to_ms(a.released_at), at, half_life_ms=half_life)
        for entity in entities(a.attempt.job):
            true[entity] = true.get(entity, 0.0) + cost
    wrong = 0
    for row in Balance.objects.select_for_update():
        right = true.pop((row.ledger, row.key), 0.0)
        wrong += abs(decay(row.gpu_ms, at - to_ms(row.settled_at), half_life) - right) > 1000.0
        Balance.objects.filter(pk=row.pk).update(gpu_ms=round(right), settled_at=now)
    Balance.objects.bulk_create(
        Balance(ledger=ledger, key=key, gpu_ms=round(cost), settled_at=now) for (ledger, key), cost in true.items()
    )
    return wrong
