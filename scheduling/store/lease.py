"""One scheduler leads: a lease row with an epoch that every commit checks again, on both databases.

No session lock beside it: a leader that is paused (SIGSTOP, a frozen machine) would keep its session and with it the
lock, and no successor could ever take over; the row runs out, and the epoch shuts the old one out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from scheduling.models import SchedulerState


@dataclass(frozen=True, slots=True)
class Held:
    """The lease as this process holds it."""

    holder: str
    epoch: int


@transaction.atomic
def acquire(holder: str, now: datetime, *, ttl_s: float) -> Held | None:
    """The lease, renewed or newly taken (then with a higher epoch); None while another holder's runs."""
    row = SchedulerState.objects.select_for_update().filter(pk=1).first()
    if row is None:
        row = SchedulerState.objects.create(pk=1)
    until = now + timedelta(seconds=ttl_s)
    if row.holder == holder:
        SchedulerState.objects.filter(pk=1).update(expires_at=until)
        return Held(holder, row.epoch)
    free = Q(holder="") | Q(expires_at__isnull=True) | Q(expires_at__lte=now)
    taken = SchedulerState.objects.filter(free, pk=1).update(holder=holder, epoch=row.epoch + 1, expires_at=until)
    return Held(holder, row.epoch + 1) if taken else None


def still_held(held: Held) -> bool:
    """True while nobody has taken the lease since; to be asked inside the transaction that writes."""
    return SchedulerState.objects.select_for_update().filter(pk=1, holder=held.holder, epoch=held.epoch).exists()


@transaction.atomic
def release(holder: str) -> None:
    """The lease is free at once, so that a successor need not wait for it to run out."""
    SchedulerState.objects.filter(pk=1, holder=holder).update(holder="", expires_at=None)
