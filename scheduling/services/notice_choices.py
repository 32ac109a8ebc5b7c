"""What a person is told by e-mail, and which waits are long to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.fields import Fields, nearest, shown
from scheduling.core.notices import KINDS, OF
from scheduling.services import notice_mail
from scheduling.store.commit import webhooks as store
from scheduling.store.queries import notices as queries
from scheduling.store.queries.access import Actor

FIELDS = ("events", "of", "long_wait_minutes")
MAX_WAIT_MINUTES = 30 * 24 * 60
TESTS, TESTS_WITHIN = 5, timedelta(minutes=1)


def chosen(actor: Actor) -> dict[str, Any]:
    """The actor's choices, with the address and why no e-mail reaches it ("" when it does)."""
    found = queries.choices(actor.user_id)
    return {**found, "why_none": notice_mail.why_none(found["address"])}


def choose(actor: Actor, message: Mapping[str, Any], now: datetime) -> tuple[dict[str, Any], ...]:
    """The choices are as told, and what is not told stays; or everything that is wrong, and nothing has changed."""
    fields = Fields(message)
    fields.refuse_unknown(FIELDS)
    old = queries.choices(actor.user_id)
    events = events_of(fields, "events", least=0) if fields.given("events") else old["events"]
    of = whose(fields, "of") if fields.given("of") else old["of"]
    wait = old["long_wait_minutes"]
    if fields.given("long_wait_minutes"):
        wait = fields.whole("long_wait_minutes", default=wait, least=1, most=MAX_WAIT_MINUTES) or wait
    if fields.errors:
        return tuple(asdict(error) for error in fields.errors)
    store.choose(actor.user_id, events, of, wait, now)
    return ()


def test(actor: Actor, now: datetime) -> UUID | tuple[str, str]:
    """The id of a test e-mail that is sent in a moment, or the code and the words of why there is none."""
    why = chosen(actor)["why_none"]
    if why:
        return "no_email", why
    made = store.test(actor.user_id, None, now, most=TESTS, within=TESTS_WITHIN)
    return made or ("too_many_tests", f"at most {TESTS} tests a minute: wait a minute")


def events_of(fields: Fields, name: str, *, least: int) -> list[str]:
    """The kinds of notices in the field, each once and in their usual order; what is none is refused by its place."""
    value = fields.value(name)
    if not isinstance(value, list) or len(value) < least:
        some = "one or more" if least else "any"
        message = f"{name} is a list of {some} of {', '.join(KINDS)}"
        fields.refuse(name, "required" if value is None else "bad_value", message, KINDS)
        return []
    for place, each in enumerate(value[: 4 * len(KINDS)]):
        if each not in KINDS:
            message = f"there is no event {shown(each)}{nearest(each, KINDS)}: known are {', '.join(KINDS)}"
            fields.refuse(f"{name}.{place}", "unknown_event", message, KINDS)
    return [kind for kind in KINDS if kind in value]


def whose(fields: Fields, name: str) -> str:
    """Of whose jobs: one of :data:`scheduling.core.notices.OF`."""
    value = fields.value(name)
    if value not in OF:
        message = f'{name} is "own" (your jobs) or "projects" (all jobs of your projects), not {shown(value)}'
        fields.refuse(name, "bad_value", message, OF)
        return OF[0]
    return str(value)
