"""What a person is told, and what was sent: choices, webhooks, deliveries. Everybody sees their own alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from scheduling.core.notices import LONG_WAIT_MINUTES, OWN
from scheduling.models import Delivery, NoticeChoice, Webhook


def choices(user_id: int) -> dict[str, Any]:
    """``{address, events, of, long_wait_minutes}`` of the person's e-mail."""
    address = get_user_model().objects.filter(pk=user_id).values_list("email", flat=True).first() or ""
    row = NoticeChoice.objects.filter(pk=user_id).first()
    if row is None:
        return {"address": address, "events": [], "of": OWN, "long_wait_minutes": LONG_WAIT_MINUTES}
    return {
        "address": address,
        "events": row.email_events,
        "of": row.email_of,
        "long_wait_minutes": row.long_wait_minutes,
    }


def webhooks(user_id: int) -> list[dict[str, Any]]:
    """The person's webhooks, the oldest first, without their secrets."""
    return [_shown(row) for row in Webhook.objects.filter(user_id=user_id)]


def webhook(user_id: int, key: UUID) -> dict[str, Any] | None:
    """One of the person's webhooks."""
    row = Webhook.objects.filter(user_id=user_id, pk=key).first()
    return None if row is None else _shown(row)


def _shown(row: Webhook) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "name": row.name,
        "url": row.url,
        "events": row.events,
        "of": row.of,
        "active": row.off_at is None,
        "off_at": row.off_at,
        "off_why": row.off_why,
        "failures": row.failures,
        "created": row.created_at,
    }


def deliveries(webhook: UUID) -> QuerySet[Delivery]:
    """What was sent to the webhook, and is to be."""
    return Delivery.objects.filter(webhook_id=webhook)


def mails(user_id: int, *, limit: int) -> list[dict[str, Any]]:
    """The person's last e-mails, the newest first."""
    rows = Delivery.objects.filter(user_id=user_id, webhook__isnull=True).order_by("-created_at", "-id")
    return delivered(list(rows[:limit]))


def delivered(rows: list[Delivery]) -> list[dict[str, Any]]:
    """Each as REST and pages show it, every try with it."""
    return [
        {
            "id": str(row.pk),
            "state": row.state,
            "test": row.test,
            "events": row.events,
            "created": row.created_at,
            "due": row.due_at,
            "ended": row.ended_at,
            "tries": row.log,
        }
        for row in rows
    ]
