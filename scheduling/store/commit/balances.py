"""What ended allocations cost, per queue, project and user: settled when they end, derivable from the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduling.core.decay import decay, interval
from scheduling.core.ledger import MICRO
from scheduling.models import Allocation, Balance, FairShareSettings, Job, LostWork
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit.lost_work import Stretch, of


def half_life_ms() -> int:
    """The pool's half-life in milliseconds; 0 = none."""
    row = FairShareSettings.objects.values_list("half_life_s", flat=True).first()
    return 1000 * (7 * 86400 if row is None else row)


def entities(job: Job) -> list[tuple[str, str]]:
    """The three ledgers that this job is charged to."""
    project, user = (job.project.name if job.project else ""), (job.user.get_username() if job.user else "")
    return [("queue", job.queue.name if job.queue else ""), ("project", project), ("user", f"{project}/{user}")]


def charge(job: Job, ended: Sequence[Allocation], now: datetime, *, lost: Sequence[Stretch] = ()) -> int:
    """The allocations of one attempt, now ended, are in the job's three balances; returns the undecayed GPU-ms held.

    ``lost``: the stretches of it that are given back (D6).

    It is the core's arithmetic to the last bit, so that a scheduler that was told of the end agrees with one that
    reads the balances.
    """
    if not ended:
        return 0
    half_life, at, start = half_life_ms(), to_ms(now), to_ms(ended[0].granted_at)
    weight = sum(round(a.billing * MICRO) for a in ended) / MICRO
    cost = interval(weight, start, at, at, half_life_ms=half_life)
    for since, until in lost:
        cost -= interval(weight, to_ms(since), to_ms(until), at, half_life_ms=half_life)
    for ledger, key in entities(job):
        row, _ = Balance.objects.select_for_update().get_or_create(
            ledger=ledger, key=key, defaults={"settled_at": now, "gpu_ms": 0.0}
        )
        kept = decay(row.gpu_ms, at - to_ms(row.settled_at), half_life)
        Balance.objects.filter(pk=row.pk).update(gpu_ms=kept + cost, settled_at=now)
    return round(weight * max(0, at - start))


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
    for loss in LostWork.objects.select_related("attempt__job__project", "attempt__job__queue", "attempt__job__user"):
        weight = sum(round(a.billing * MICRO) for a in loss.attempt.allocations.all()) / MICRO
        for since, until in of(loss):
            given = interval(weight, to_ms(since), to_ms(until), at, half_life_ms=half_life)
            for entity in entities(loss.attempt.job):
                true[entity] = true.get(entity, 0.0) - given
    wrong = 0
    for row in Balance.objects.select_for_update():
        right = true.pop((row.ledger, row.key), 0.0)
        wrong += abs(decay(row.gpu_ms, at - to_ms(row.settled_at), half_life) - right) > 1000.0
        Balance.objects.filter(pk=row.pk).update(gpu_ms=right, settled_at=now)
    Balance.objects.bulk_create(
        Balance(ledger=ledger, key=key, gpu_ms=cost, settled_at=now) for (ledger, key), cost in true.items()
    )
    journal.write([journal.Note("balances_rebuilt", "queue", "", message=f"{wrong} were wrong")], now)
    return wrong
