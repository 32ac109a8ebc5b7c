"""What ended allocations cost, per queue, project and user: settled when they end, derivable from the intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

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
    """The three ledgers that this job is charged to, in the order in which whoever needs several of them locks them."""
    project, user = (job.project.name if job.project else ""), (job.user.get_username() if job.user else "")
    return [("project", project), ("queue", job.queue.name if job.queue else ""), ("user", f"{project}/{user}")]


def charge(job: Job, ended: Sequence[Allocation], now: datetime, *, lost: Sequence[Stretch] = ()) -> int:
    """The allocations of one attempt, now ended, are in the job's three balances; returns the undecayed GPU-ms held.

    ``lost``: the stretches of it that are given back (D6).

    It is the core's arithmetic to the last bit, so that a scheduler that was told of the end agrees with one that
    reads the balances. Whoever waited for the lock may have read the clock before what was settled last: a balance
    never goes back in time, and what it is charged has faded until then.
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
        settled = max(now, row.settled_at)
        kept = decay(row.gpu_ms, to_ms(settled) - to_ms(row.settled_at), half_life)
        kept += decay(cost, to_ms(settled) - at, half_life)
        Balance.objects.filter(pk=row.pk).update(gpu_ms=kept, settled_at=settled)
    return round(weight * max(0, at - start))


def rebuild(now: datetime) -> int:
    """Every balance equals what the allocation intervals say; returns how many rows were wrong by over 1 GPU-s.

    Nothing is locked while the intervals are read: a balance that was charged meanwhile is left to the next time.
    """
    before = {(row.ledger, row.key): (row.gpu_ms, row.settled_at) for row in Balance.objects.all()}
    now = max([now, *(settled for _, settled in before.values())])
    half_life, at = half_life_ms(), to_ms(now)
    true: dict[tuple[str, str], float] = {}
    ended = Allocation.objects.filter(released_at__isnull=False).select_related(
        "attempt__job__project", "attempt__job__queue", "attempt__job__user"
    )
    for a in ended.iterator(chunk_size=2000):
        assert a.released_at is not None  # noqa: S101  the filter says so
        cost = interval(
            round(a.billing * MICRO) / MICRO, to_ms(a.granted_at), to_ms(a.released_at), at, half_life_ms=half_life
        )
        for entity in entities(a.attempt.job):
            true[entity] = true.get(entity, 0.0) + cost
    for loss in LostWork.objects.select_related("attempt__job__project", "attempt__job__queue", "attempt__job__user"):
        weight = sum(round(a.billing * MICRO) for a in loss.attempt.allocations.all()) / MICRO
        for since, until in of(loss):
            given = interval(weight, to_ms(since), to_ms(until), at, half_life_ms=half_life)
            for entity in entities(loss.attempt.job):
                true[entity] = true.get(entity, 0.0) - given
    return _correct(before, true, now, half_life)


@transaction.atomic
def _correct(
    before: Mapping[tuple[str, str], tuple[float, datetime]],
    true: dict[tuple[str, str], float],
    now: datetime,
    half_life: int,
) -> int:
    """Each balance that is as it was ``before`` is the true one; returns how many were wrong."""
    wrong = 0
    for row in Balance.objects.select_for_update().order_by("ledger", "key"):
        entity, was = (row.ledger, row.key), (row.gpu_ms, row.settled_at)
        right = true.pop(entity, 0.0)
        if before.get(entity) != was:
            continue
        wrong += abs(decay(row.gpu_ms, to_ms(now) - to_ms(row.settled_at), half_life) - right) > 1000.0
        Balance.objects.filter(pk=row.pk).update(gpu_ms=right, settled_at=now)
    # One that is made just now, by the first end of an entity, is right already.
    Balance.objects.bulk_create(
        (Balance(ledger=ledger, key=key, gpu_ms=cost, settled_at=now) for (ledger, key), cost in true.items()),
        ignore_conflicts=True,
    )
    journal.write([journal.Note("balances_rebuilt", "queue", "", message=f"{wrong} were wrong")], now)
    return wrong
