"""The slow chores' SQL: usage by day, old events, idempotency keys, balances."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, time, timedelta

from django.db import transaction
from django.db.models import Q

from scheduling.models import Allocation, Delivery, Event, IdempotencyKey, Notice, UsageDay
from scheduling.store.clock import to_ms
from scheduling.store.commit import balances
from scheduling.store.journal import TICKS

DAY = timedelta(days=1)


@transaction.atomic
def roll_up(now: datetime, *, days: int = 2) -> int:
    """The last ``days`` days (UTC) of usage equal the allocation intervals that fall in them; returns rows written."""
    first = (now - (days - 1) * DAY).date()
    begin = datetime.combine(first, time.min, tzinfo=UTC)
    sums: dict[tuple[date, str, str, str], float] = defaultdict(float)
    spans = Allocation.objects.filter(Q(released_at__isnull=True) | Q(released_at__gt=begin)).values_list(
        "granted_at", "released_at", "billing", "attempt__job__project__name", "attempt__job__user__username",
        "attempt__job__queue__name",
    )  # fmt: skip
    for granted, released, billing, project, user, queue in spans.iterator(chunk_size=2000):
        start, end = max(granted, begin), released or now
        while start < end:
            until = min(end, datetime.combine(start.date() + DAY, time.min, tzinfo=UTC))
            sums[(start.date(), project, user, queue)] += billing * (to_ms(until) - to_ms(start))
            start = until
    UsageDay.objects.filter(day__gte=first).delete()
    UsageDay.objects.bulk_create(
        UsageDay(day=d, project=p, user=u, queue=q, gpu_ms=round(ms)) for (d, p, u, q), ms in sorted(sums.items())
    )
    return len(sums)


def retain(now: datetime, *, days: int) -> int:
    """Events older than ``days``, and those of :data:`TICKS` older than an hour, are gone; returns how many."""
    old = Event.objects.filter(Q(at__lt=now - days * DAY) | Q(type__in=TICKS, at__lt=now - timedelta(hours=1)))
    # The newest row stays: its id is where every feed's numbering goes on.
    newest = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
    gone, _ = old.filter(id__lt=newest).delete()
    IdempotencyKey.objects.filter(created_at__lt=now - 7 * DAY).delete()
    return gone


def rebuild_balances(now: datetime) -> int:
    """Every balance equals its intervals; returns how many were off by more than a GPU-second."""
    return balances.rebuild(now)


def retain_notices(now: datetime, *, days: int) -> int:
    """Messages that ended more than ``days`` ago are gone with what they told, and what nobody could be told of in that
    time; returns how many messages."""
    past = now - days * DAY
    gone = Delivery.objects.filter(ended_at__lt=past)
    count = gone.count()
    gone.delete()
    Notice.objects.filter(delivery__isnull=True, at__lt=past).delete()
    return count
