"""The verbs of webhooks: made with a secret shown once, changed, tested, sent again, removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.fields import Fields, shown
from scheduling.services import webhook_address, webhook_post
from scheduling.services.notice_choices import events_of, whose
from scheduling.store.commit import webhooks as store
from scheduling.store.queries import notices as queries
from scheduling.store.queries.access import Actor

FIELDS = ("name", "url", "events", "of", "active")
MAX_NAME = 80
MOST = 10
TESTS, TESTS_WITHIN = 5, timedelta(minutes=1)

Errors = tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Secret:
    """A webhook's secret, shown this once."""

    webhook: str
    secret: str


@dataclass(frozen=True, slots=True)
class NotNow:
    """Why it is not done as things stand."""

    code: str
    message: str


def add(actor: Actor, message: Mapping[str, Any], now: datetime) -> Secret | Errors:
    """A new webhook of the actor's, or everything that is wrong with what was sent."""
    fields, made, active = _read(message, before=None)
    if not fields.errors and not active:
        fields.refuse("active", "bad_value", "a new webhook is active: leave active out, or switch it off later")
    if fields.errors:
        return _told(fields)
    key = store.add(actor.user_id, made, now, most=MOST)
    if key is None:
        fields.refuse("", "too_many", f"you have {MOST} webhooks, which is the most: remove one first", MOST)
        return _told(fields)
    return Secret(str(key), webhook_post.secret_of(key, 1))


def change(actor: Actor, webhook: UUID, message: Mapping[str, Any], now: datetime) -> bool | Errors:
    """The webhook is as told, and what is not told stays; False when the actor has no such one."""
    before = queries.webhook(actor.user_id, webhook)
    if before is None:
        return False
    fields, made, active = _read(message, before=before)
    if fields.errors:
        return _told(fields)
    return store.change(actor.user_id, webhook, made, active=active, now=now)


def _read(message: Mapping[str, Any], *, before: Mapping[str, Any] | None) -> tuple[Fields, dict[str, Any], bool]:
    fields = Fields(message)
    fields.refuse_unknown(FIELDS)
    old = before or {"of": "own", "active": True}
    name = _name(fields) if fields.given("name") or before is None else old["name"]
    url = _url(fields) if fields.given("url") or before is None else old["url"]
    events = events_of(fields, "events", least=1) if fields.given("events") or before is None else old["events"]
    of = whose(fields, "of") if fields.given("of") else old["of"]
    active = fields.flag("active", default=old["active"])
    return fields, {"name": name, "url": url, "events": events, "of": of}, bool(active)


def _name(fields: Fields) -> str:
    value = fields.value("name")
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= MAX_NAME or not value.isprintable():
        message = f"name is 1 to {MAX_NAME} printable characters: who is told"
        fields.refuse("name", "required" if value is None else "bad_name", message, MAX_NAME)
        return ""
    return value.strip()


def _url(fields: Fields) -> str:
    value = fields.value("url")
    if not isinstance(value, str) or not value:
        message = f"url is an address like https://ci.example/hooks/emep, not {shown(value)}"
        fields.refuse("url", "required" if value is None else "bad_url", message)
        return ""
    found = webhook_address.target(value)
    if isinstance(found, webhook_address.Refused):
        fields.refuse("url", found.code, found.message, found.limit)
    return value


def _told(fields: Fields) -> Errors:
    return tuple(asdict(error) for error in fields.errors)


def remove(actor: Actor, webhook: UUID) -> bool:
    """Nothing more is sent to it, and its log is gone; False when the actor has no such one."""
    return store.remove(actor.user_id, webhook)


def renew_secret(actor: Actor, webhook: UUID) -> Secret | None:
    """The webhook's new secret; what is sent from now on is signed with it. None when the actor has no such one."""
    number = store.renew_secret(actor.user_id, webhook)
    return None if number is None else Secret(str(webhook), webhook_post.secret_of(webhook, number))


def test(actor: Actor, webhook: UUID, now: datetime) -> UUID | NotNow | None:
    """The id of a test that is sent in a moment, as every message is; None when the actor has no such webhook."""
    found = queries.webhook(actor.user_id, webhook)
    if found is None:
        return None
    if not found["active"]:
        return NotNow("webhook_off", f"the webhook is off ({found['off_why']}): switch it on first")
    made = store.test(actor.user_id, webhook, now, most=TESTS, within=TESTS_WITHIN)
    return made or NotNow("too_many_tests", f"at most {TESTS} tests a minute: wait a minute")


def redeliver(actor: Actor, webhook: UUID, delivery: UUID, now: datetime) -> bool | NotNow | None:
    """The delivery, as it was, is sent again in a moment; None when the actor has no such webhook or delivery."""
    found = queries.webhook(actor.user_id, webhook)
    known = queries.deliveries(webhook).filter(pk=delivery).first() if found else None
    if found is None or known is None:
        return None
    if not found["active"]:
        return NotNow("webhook_off", f"the webhook is off ({found['off_why']}): switch it on first")
    if store.again(webhook, delivery, now):
        return True
    return NotNow("still_waiting", "it is still being tried: it is sent again when that has failed")
