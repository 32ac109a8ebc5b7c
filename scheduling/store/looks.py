"""What is there of GPUs, how busy are they, and which are held and idle? One look at the newest samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from scheduling.core.lifecycle import GpuState, NodeState
from scheduling.models import Allocation, AttemptHour, Gpu, IdleStretch, NodeLive, PoolHour
from scheduling.store.clock import to_ms

HOUR = timedelta(hours=1)
OUT = (GpuState.UNHEALTHY, GpuState.QUARANTINED)


@dataclass(frozen=True, slots=True)
class Looking:
    """How one looks. A sample older than ``fresh_s`` seconds tells nothing. What one look finds holds for the time
    since the look before, at most ``gap_s`` seconds. A held GPU below ``idle_percent`` is idle, and is told of when it
    has been so for ``idle_s`` seconds."""

    fresh_s: float
    gap_s: float
    idle_percent: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class _Held:
    allocation: int
    attempt: UUID
    granted_at: datetime


@transaction.atomic
def look(now: datetime, how: Looking) -> int:
    """What was found at ``now`` is added to the hours since the last look; returns how many GPUs are installed.

    The first look of all only says since when one looks.
    """
    newest = PoolHour.objects.select_for_update().order_by("-hour").first()
    gpus = [gpu for gpu in Gpu.objects.select_related("node") if gpu.state != GpuState.RETIRED]
    if newest is None:
        PoolHour.objects.create(hour=_hour(now), since=now, until=now)
    elif newest.until >= now:
        return len(gpus)
    since = now if newest is None else newest.until
    out = sum(gpu.state in OUT or gpu.node.state == NodeState.LOST for gpu in gpus)
    busy, held = _utilization(now, how.fresh_s), _held()
    recent = max(since, now - timedelta(seconds=how.gap_s))
    known = [busy[gpu.uuid] for gpu in gpus if gpu.uuid in busy]
    _pool(since, recent, now, counts=(len(gpus), out), known=known)
    _attempts(recent, now, [(held[gpu.pk], busy[gpu.uuid]) for gpu in gpus if gpu.pk in held and gpu.uuid in busy])
    _idle(now, how, {held[gpu.pk].allocation: busy.get(gpu.uuid) for gpu in gpus if gpu.pk in held})
    return len(gpus)


def _utilization(now: datetime, fresh_s: float) -> dict[str, float]:
    """The utilization in percent, by UUID, of every GPU of which a fresh sample tells it."""
    found: dict[str, float] = {}
    fresh = NodeLive.objects.filter(sampled_at__gt=now - timedelta(seconds=fresh_s)).exclude(
        node__state=NodeState.LOST.value
    )
    samples: Mapping[str, Mapping[str, Any]]
    for samples in fresh.values_list("samples", flat=True):
        for uuid, sample in samples.items():
            value = sample.get("utilization")
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[uuid] = min(100.0, max(0.0, float(value)))
    return found


def _held() -> dict[int, _Held]:
    """What is held now, by the GPU's key."""
    rows = Allocation.objects.filter(released_at__isnull=True).order_by()
    return {
        gpu: _Held(key, attempt, granted)
        for key, gpu, attempt, granted in rows.values_list("pk", "gpu_id", "attempt_id", "granted_at")
    }


def _pool(since: datetime, recent: datetime, now: datetime, *, counts: tuple[int, int], known: Sequence[float]) -> None:
    rows = {row.hour: row for row in PoolHour.objects.filter(hour__gte=_hour(since), hour__lte=now)}
    for start, end in _hours(since, now):
        hour = _hour(start)
        row = rows.setdefault(hour, PoolHour(hour=hour, since=start, until=start))
        row.until = end
        row.installed_ms += counts[0] * _ms(start, end)
        row.out_ms += counts[1] * _ms(start, end)
        seen = _ms(max(start, recent), end)
        row.known_ms += len(known) * seen
        row.busy_ms += round(sum(known) * seen / 100)
    PoolHour.objects.bulk_create(
        rows.values(), update_conflicts=True, unique_fields=["hour"],
        update_fields=["until", "installed_ms", "out_ms", "known_ms", "busy_ms"],
    )  # fmt: skip


def _attempts(recent: datetime, now: datetime, busy: Sequence[tuple[_Held, float]]) -> None:
    more: dict[tuple[UUID, datetime], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for held, percent in busy:
        for start, end in _hours(max(recent, held.granted_at), now):
            sums = more[(held.attempt, _hour(start))]
            sums[0] += _ms(start, end)
            sums[1] += _ms(start, end) * percent / 100
    known = AttemptHour.objects.filter(hour__gte=_hour(recent), hour__lte=now, attempt__in={key[0] for key in more})
    rows = {(row.attempt_id, row.hour): row for row in known}
    for (attempt, hour), (seen, worked) in more.items():
        row = rows.setdefault((attempt, hour), AttemptHour(attempt_id=attempt, hour=hour))
        row.known_ms += round(seen)
        row.busy_ms += round(worked)
    AttemptHour.objects.bulk_create(
        rows.values(), update_conflicts=True, unique_fields=["attempt", "hour"], update_fields=["known_ms", "busy_ms"],
        batch_size=500,
    )  # fmt: skip


def _idle(now: datetime, how: Looking, percents: Mapping[int, float | None]) -> None:
    """Each open stretch goes on to ``now``, or is over; one that was too short to be told of is gone. Begins new ones.

    ``percents``: of every allocation that is held, None where it is not known: then nothing changes until the gap is
    too long.
    """
    over: list[IdleStretch] = []
    going: set[int] = set()
    seen: list[int] = []
    for row in IdleStretch.objects.filter(open=True):
        here = row.allocation_id in percents
        percent = percents.get(row.allocation_id)
        late = now - row.until > timedelta(seconds=how.gap_s)
        if not here or late or (percent is not None and percent >= how.idle_percent):
            over.append(row)
            continue
        going.add(row.allocation_id)
        if percent is not None:
            seen.append(row.pk)
    IdleStretch.objects.filter(pk__in=seen).update(until=now)
    long = {row.pk for row in over if row.until - row.since >= timedelta(seconds=how.idle_s)}
    IdleStretch.objects.filter(pk__in=long).update(open=False)
    IdleStretch.objects.filter(pk__in={row.pk for row in over} - long).delete()
    IdleStretch.objects.bulk_create(
        IdleStretch(allocation_id=allocation, since=now, until=now)
        for allocation, percent in percents.items()
        if percent is not None and percent < how.idle_percent and allocation not in going
    )


def _hours(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The time from ``start`` to ``end``, cut where an hour begins."""
    while start < end:
        until = min(end, _hour(start) + HOUR)
        yield start, until
        start = until


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _ms(start: datetime, end: datetime) -> int:
    return max(0, to_ms(end) - to_ms(start))
