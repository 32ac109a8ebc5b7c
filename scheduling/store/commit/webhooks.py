"""The rows of choices and webhooks, written for the person whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F

from scheduling.models import Delivery, Notice, NoticeChoice, Webhook
from scheduling.store.commit.notice_sending import end_waiting

CHANGED = "the webhook was changed before it got through"
SWITCHED_OFF = "its owner switched it off"


def choose(user_id: int, events: Sequence[str], of: str, long_wait_minutes: int, now: datetime) -> None:
    """The person is told this by e-mail from now on; what waits to be told and is not asked for any more is not."""
    row = NoticeChoice.objects.filter(pk=user_id).first()
    # Whoever was told before goes on being told: what happened just now may not have been looked at yet.
    since = row.since if row is not None and row.email_events else now
    NoticeChoice.objects.update_or_create(
        pk=user_id,
        defaults={"email_events": list(events), "email_of": of, "long_wait_minutes": long_wait_minutes, "since": since},
    )
    waiting = Notice.objects.filter(user_id=user_id, webhook__isnull=True, delivery__isnull=True)
    waiting.exclude(kind__in=events).delete()
    if of == "own":
        waiting.exclude(job__user_id=user_id).delete()


@transaction.atomic
def add(user_id: int, fields: Mapping[str, Any], now: datetime, *, most: int) -> UUID | None:
    """The new webhook's id; None when the person has ``most`` already."""
    get_user_model().objects.select_for_update().filter(pk=user_id).first()  # two at a time are counted one by one
    if Webhook.objects.filter(user_id=user_id).count() >= most:
        return None
    return Webhook.objects.create(user_id=user_id, created_at=now, since=now, **fields).pk


@transaction.atomic
def change(user_id: int, webhook: UUID, fields: Mapping[str, Any], *, active: bool, now: datetime) -> bool:
    """The webhook is as given; False when the person has no such one. Switched on again, it begins anew: what happened
    meanwhile is not told. What waits for another address than the new one is not sent to it."""
    row = Webhook.objects.select_for_update().filter(pk=webhook, user_id=user_id).first()
    if row is None:
        return False
    changes: dict[str, Any] = dict(fields)
    if active and row.off_at is not None:
        changes |= {"off_at": None, "off_why": "", "failures": 0, "since": now}
    elif not active and row.off_at is None:
        changes |= {"off_at": now, "off_why": SWITCHED_OFF}
        end_waiting(row.pk, SWITCHED_OFF, now)
    if row.url != fields["url"]:
        changes |= {"failures": 0, "since": now}
        end_waiting(row.pk, CHANGED, now)
    Webhook.objects.filter(pk=row.pk).update(**changes)
    return True


def remove(user_id: int, webhook: UUID) -> bool:
    """The webhook is gone, with its log; False when the person has no such one."""
    return bool(Webhook.objects.filter(pk=webhook, user_id=user_id).delete()[0])


def renew_secret(user_id: int, webhook: UUID) -> int | None:
    """The number of the webhook's new secret, from now on the only one; None when the person has no such webhook."""
    row = Webhook.objects.filter(pk=webhook, user_id=user_id)
    if not row.update(secret_number=F("secret_number") + 1):
        return None
    return row.values_list("secret_number", flat=True).first()


@transaction.atomic
def test(user_id: int, webhook: UUID | None, now: datetime, *, most: int, within: timedelta) -> UUID | None:
    """The id of a test that is due, to the webhook or by e-mail (None); None after ``most`` tests ``within`` a time."""
    get_user_model().objects.select_for_update().filter(pk=user_id).first()
    lately = Delivery.objects.filter(user_id=user_id, test=True, created_at__gt=now - within)
    if lately.count() >= most:
        return None
    return Delivery.objects.create(user_id=user_id, webhook_id=webhook, test=True, created_at=now, due_at=now).pk


def again(webhook: UUID, delivery: UUID, now: datetime) -> bool:
    """The delivery, which was done with, is due again with all its tries; False when it waits or is not there."""
    done = Delivery.objects.filter(pk=delivery, webhook_id=webhook).exclude(state=Delivery.WAITING)
    return bool(done.update(state=Delivery.WAITING, due_at=now, ended_at=None, tries=0, claimed_until=None))
