"""One scheduler leads: a lease row whose epoch every tick checks; on PostgreSQL an advisory lock beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from scheduling.models import SchedulerState

ADVISORY_KEY = 0x454D4550  # "EMEP"


@dataclass(frozen=True, slots=True)
class Held:
    """The lease as this process holds it."""

    holder: str
    epoch: int


@transaction.atomic
def acquire(holder: str, now: datetime, *, ttl_s: float) -> Held | None:
    """The lease, renewed or newly taken (then with a higher epoch); None while another holder's runs."""
    if not _advisory_lock():
        return None
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
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock_all()")


def _advisory_lock() -> bool:
    """On PostgreSQL, this session's lock: the server frees it when the process dies. Elsewhere always True."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE locktype = 'advisory' AND classid = 0 AND objid = %s AND pid = pg_backend_pid()",
            [ADVISORY_KEY],
        )
        if cursor.fetchone()[0]:
            return True
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_KEY])
        return bool(cursor.fetchone()[0])
