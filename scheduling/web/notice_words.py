"""What a person is told, and what became of it, in words for the pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from scheduling.core.notices import KINDS, MAX_TRIES, OFF_AFTER
from scheduling.services import notice_choices
from scheduling.store.queries import notices as queries
from scheduling.store.queries.access import Actor
from scheduling.web.wording import amount

KINDS_IN_WORDS = {
    "succeeded": "succeeded",
    "failed": "failed or reached its time limit",
    "cancelled": "was cancelled",
    "preempted": "lost its GPUs and waits again",
    "started": "started after a long wait",
}
WHOSE = (("own", "my jobs"), ("projects", "all jobs of my projects"))
# A state as the icons know it, and what it is called here.
STATES = {
    "WAITING": ("QUEUED", "waiting"),
    "SENT": ("SUCCEEDED", "arrived"),
    "FAILED": ("FAILED", "failed"),
    "DROPPED": ("CANCELLED", "not sent"),
}
MAILS = 5
SOON = timedelta(seconds=30)
TRIES = f"A message is tried up to {MAX_TRIES} times in about 9 hours."


def section(
    actor: Actor, *, mail: Mapping[str, Any] | None = None, hook: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the page Account says of notices; ``mail`` and ``hook`` are the forms as they were posted and refused."""
    chosen = {**notice_choices.chosen(actor), **(mail or {})}
    given = {"events": ["failed"], "of": "own", **(hook or {})}
    return {
        "choices": chosen,
        "mail_kinds": kinds(chosen["events"]),
        "mail_whose": whose(chosen["of"]),
        "mails": [shown(each) for each in queries.mails(actor.user_id, limit=MAILS)],
        "hooks": queries.webhooks(actor.user_id),
        "hook": given,
        "hook_kinds": kinds(given["events"]),
        "hook_whose": whose(given["of"]),
        "told": _told(actor, chosen),
    }


def _told(actor: Actor, chosen: Mapping[str, Any]) -> str:
    """In one sentence, what reaches the person now."""
    active = sum(each["active"] for each in queries.webhooks(actor.user_id))
    mail = "by e-mail" if chosen["events"] and not chosen["why_none"] else ""
    hooks = f"by {amount(active, 'webhook')}" if active else ""
    ways = " and ".join(filter(None, (mail, hooks)))
    return f"You are told {ways}." if ways else "You are told nothing unasked, and have asked for nothing yet."


def kinds(chosen: Collection[str]) -> list[tuple[str, str, bool]]:
    """Each kind of notice, in words, and whether it is chosen."""
    return [(kind, KINDS_IN_WORDS[kind], kind in chosen) for kind in KINDS]


def whose(chosen: str) -> list[tuple[str, str, bool]]:
    """Each answer to: of whose jobs?"""
    return [(key, words, key == chosen) for key, words in WHOSE]


def shown(delivery: Mapping[str, Any]) -> dict[str, Any]:
    """A delivery as the pages show it: its state with an icon, what it tells, and the tries with their times read."""
    icon, called = STATES[delivery["state"]]
    tries = [{**each, "at": datetime.fromisoformat(each["at"])} for each in delivery["tries"]]
    told = "a test" if delivery["test"] else amount(delivery["events"], "event")
    return {
        **delivery,
        "icon": icon,
        "called": called,
        "told": told,
        "tries": tries,
        "last": tries[-1] if tries else None,
    }


def soon(deliveries: Sequence[Mapping[str, Any]], now: datetime) -> bool:
    """Whether one of them is sent in a moment, so that looking again is worth it."""
    return any(each["due"] is not None and each["due"] <= now + SOON for each in deliveries)


def standing(hook: Mapping[str, Any]) -> str:
    """In one sentence, whether the webhook is told."""
    if not hook["active"]:
        return f"Nothing is sent to it: {hook['off_why']}."
    what = " or ".join(KINDS_IN_WORDS[kind] for kind in hook["events"])
    jobs = "one of your jobs" if hook["of"] == "own" else "a job of one of your projects"
    count = hook["failures"]
    last = "" if not count else " The last try did not get through." if count == 1 else _not_through(count)
    return f"It is told when {jobs} {what}.{last}"


def _not_through(count: int) -> str:
    return f" The last {count} tries did not get through; after {OFF_AFTER} in a row it is switched off."
