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
from scheduling.store.fixed import Fixed, FixedUpdate

_ROW = Fixed(lambda: SchedulerState.objects.select_for_update().filter(pk=1).values_list("epoch"))
_RENEWED = FixedUpdate(lambda holder: SchedulerState.objects.filter(pk=1, holder=holder))
_EPOCH = Fixed(lambda holder: SchedulerState.objects.filter(pk=1, holder=holder).values_list("epoch"))
_HELD = Fixed(
    lambda holder, epoch: (
        SchedulerState.objects.select_for_update().filter(pk=1, holder=holder, epoch=epoch).values_list("pk")
    )
)


@dataclass(frozen=True, slots=True)
class Held:
    """The lease as this process holds it."""

    holder: str
    epoch: int


def acquire(holder: str, now: datetime, *, ttl_s: float) -> Held | None:
    """The lease, renewed or newly taken (then with a higher epoch); None while another holder's runs."""
    until = now + timedelta(seconds=ttl_s)
    # Its own is renewed without a transaction: renewed, it is nobody else's for a while, and a holder that was paused
    # for so long in between finds no epoch of its own.
    if _RENEWED(holder, expires_at=until):
        for (epoch,) in _EPOCH(holder):
            return Held(holder, epoch)
    return _take(holder, now, until)


@transaction.atomic
def _take(holder: str, now: datetime, until: datetime) -> Held | None:
    rows = _ROW()
    if not rows:
        SchedulerState.objects.create(pk=1)
    epoch = rows[0][0] if rows else 0
    free = Q(holder="") | Q(expires_at__isnull=True) | Q(expires_at__lte=now)
    taken = SchedulerState.objects.filter(free, pk=1).update(holder=holder, epoch=epoch + 1, expires_at=until)
    return Held(holder, epoch + 1) if taken else None


def leader() -> tuple[str, int]:
    """(who holds the lease, its epoch): "" when nobody does; also one whose lease has run out and that nobody took."""
    return SchedulerState.objects.filter(pk=1).values_list("holder", "epoch").first() or ("", 0)


def still_held(held: Held) -> bool:
    """True while nobody has taken the lease since; to be asked inside the transaction that writes."""
    return bool(_HELD(held.holder, held.epoch))


@transaction.atomic
def release(holder: str) -> None:
    """The lease is free at once, so that a successor need not wait for it to run out."""
    SchedulerState.objects.filter(pk=1, holder=holder).update(holder="", expires_at=None)
