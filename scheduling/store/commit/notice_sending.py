"""Messages that are due: taken by one sender at a time, and what became of each try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from scheduling.core.notices import MAX_TRIES, OFF_AFTER, backoff_s
from scheduling.models import Delivery, Membership, Notice, Webhook

# Longer than any try may take: after it whoever had taken the message is dead.
LEASE = timedelta(minutes=2)
LOST = "the process that was sending it died; it may have arrived"
OFF = "the webhook was switched off before it got through"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that is this sender's until its lease ends. ``post`` is None for an e-mail."""

    id: UUID
    tries: int
    user: int
    username: str
    address: str
    post: UUID | None
    secret_number: int
    test: bool
    created_at: datetime
    notices: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a try. ``ok``: it got through; ``final``: it would not the next time either; ``gone``: the address
    says that it is to be told no more."""

    ok: bool
    ms: int
    status: int | None = None
    answer: str = ""
    error: str = ""
    final: bool = False
    gone: bool = False

    def entry(self, at: datetime) -> dict[str, Any]:
        """The line of the log."""
        return {"at": at.isoformat(), "status": self.status, "ms": self.ms, "answer": self.answer, "error": self.error}


def claim(now: datetime, *, limit: int) -> list[Claimed]:
    """At most ``limit`` messages that are due, the oldest first, now this sender's.

    A try counts from here on, so that a message which kills its sender is not tried for ever.
    """
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
    due = Delivery.objects.filter(free, state=Delivery.WAITING, due_at__lte=now).order_by("due_at", "id")
    taken = []
    for row in due[:limit]:
        log = _with_the_lost(row)
        if row.tries >= MAX_TRIES:
            _give_up(row.pk, row.tries, log, now)
            continue
        guard = Delivery.objects.filter(free, pk=row.pk, tries=row.tries, state=Delivery.WAITING)
        if guard.update(claimed_until=now + LEASE, tries=F("tries") + 1, log=log):
            taken.append(row.pk)
    rows = Delivery.objects.filter(pk__in=taken).select_related("user", "webhook").order_by("due_at", "id")
    return [_claimed(row) for row in rows]


def _with_the_lost(row: Delivery) -> list[dict[str, Any]]:
    """The log, with a line for a try of which nobody told how it went."""
    if row.claimed_until is None:
        return list(row.log)
    return [
        *row.log,
        {"at": (row.claimed_until - LEASE).isoformat(), "status": None, "ms": None, "answer": "", "error": LOST},
    ]


def _give_up(key: UUID, tries: int, log: list[dict[str, Any]], now: datetime) -> None:
    Delivery.objects.filter(pk=key, tries=tries, state=Delivery.WAITING).update(
        state=Delivery.FAILED, due_at=None, claimed_until=None, ended_at=now, log=log
    )


def _claimed(row: Delivery) -> Claimed:
    hook = row.webhook
    return Claimed(
        id=row.pk, tries=row.tries, user=row.user_id, username=row.user.get_username(),
        address=(row.user.email if row.user.is_active else "") if hook is None else hook.url,
        post=None if hook is None else hook.pk, secret_number=0 if hook is None else hook.secret_number,
        test=row.test, created_at=row.created_at, notices=_notices(row),
    )  # fmt: skip


def _notices(row: Delivery) -> tuple[dict[str, Any], ...]:
    """What it tells, without the jobs of which its reader may not know any more."""
    if not row.user.is_active:
        return ()
    known = Notice.objects.filter(delivery=row)
    if not row.user.is_superuser:
        known = known.filter(job__project__in=Membership.objects.filter(user_id=row.user_id).values("project"))
    columns = {
        "name": F("job__name"), "job_kind": F("job__kind"), "project": F("job__project__name"),
        "owner": F("job__user__username"), "queue": F("job__queue__name"), "priority": F("job__level__name"),
        "set_kind": F("job__member_of__kind"), "set_id": F("job__member_of_id"), "gpus": F("job__gpu_count"),
    }  # fmt: skip
    rows: Iterable[Any] = known.order_by("event").values("event", "kind", "at", "data", "job_id", **columns)
    return tuple(rows)


@transaction.atomic
def record(claimed: Claimed, tried: Tried, now: datetime) -> bool:
    """The try is in the log, and the message is sent, due again, or given up; False, and nothing changed, where another
    has taken it since."""
    row = Delivery.objects.select_for_update().filter(pk=claimed.id, tries=claimed.tries, state=Delivery.WAITING)
    found = row.first()
    if found is None:
        return False
    changes: dict[str, Any] = {"log": [*found.log, tried.entry(now)], "claimed_until": None}
    if tried.ok or tried.final or tried.gone or claimed.tries >= MAX_TRIES:
        state = Delivery.SENT if tried.ok else Delivery.FAILED
        changes |= {"state": state, "due_at": None, "ended_at": now}
    else:
        changes["due_at"] = now + timedelta(seconds=backoff_s(str(claimed.id), claimed.tries))
    row.update(**changes)
    if claimed.post is not None:
        _count(claimed.post, tried, now)
    return True


def drop(claimed: Claimed, why: str, now: datetime) -> None:
    """There is nobody to send it to any more, or nothing in it that they may know of."""
    row = Delivery.objects.filter(pk=claimed.id, tries=claimed.tries, state=Delivery.WAITING)
    for found in row:
        log = [*found.log, Tried(ok=False, ms=0, error=why).entry(now)]
        row.update(state=Delivery.DROPPED, due_at=None, claimed_until=None, ended_at=now, log=log)


def _count(hook: UUID, tried: Tried, now: datetime) -> None:
    """Tries in a row that did not get through are counted; after too many nothing more is sent there."""
    row = Webhook.objects.filter(pk=hook)
    if tried.ok:
        row.filter(failures__gt=0).update(failures=0)
        return
    row.update(failures=F("failures") + 1)
    failures = row.values_list("failures", flat=True).first() or 0
    if tried.gone:
        _switch_off(hook, "the address answered 410: it is to be told no more", now)
    elif failures >= OFF_AFTER:
        _switch_off(hook, f"{failures} tries in a row did not get through; the last: {tried.error}"[:400], now)


def _switch_off(hook: UUID, why: str, now: datetime) -> None:
    if not Webhook.objects.filter(pk=hook, off_at__isnull=True).update(off_at=now, off_why=why):
        return
    end_waiting(hook, OFF, now)


def end_waiting(hook: UUID, why: str, now: datetime) -> None:
    """What waits for the webhook is not sent; it may be asked for again."""
    Notice.objects.filter(webhook=hook, delivery__isnull=True).delete()
    entry: Mapping[str, Any] = Tried(ok=False, ms=0, error=why).entry(now)
    for each in Delivery.objects.filter(webhook=hook, state=Delivery.WAITING):
        Delivery.objects.filter(pk=each.pk, tries=each.tries, state=Delivery.WAITING).update(
            state=Delivery.FAILED, due_at=None, claimed_until=None, ended_at=now, log=[*each.log, entry]
        )
