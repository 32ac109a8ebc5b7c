"""The one engine of notices: from the event table to messages, and messages out, in bounded rounds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from scheduling.services import notice_mail, webhook_post
from scheduling.store.clock import to_ms
from scheduling.store.commit import notice_gathering, notice_sending
from scheduling.store.commit.notice_sending import Claimed, Tried
from scheduling.store.upkeep import retain_notices

AT_ONCE = 32
SENDERS = 8
ROUNDS_S = 45.0  # after that the next run goes on
NOBODY = "there is nobody to send it to any more, or nothing in it that they may know of"


def run(now: datetime, *, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """What has happened since the last run is told, and what is due is sent; returns how much.

    Any number may run at a time: a message is one sender's. One that dies in the middle leaves its message to the next
    after :data:`scheduling.store.commit.notice_sending.LEASE`.
    """
    begin = time.monotonic()

    def present() -> datetime:
        return now + timedelta(seconds=time.monotonic() - begin)

    seen = notice_gathering.gather(now)
    every = timedelta(minutes=settings.NOTICE_EVERY_MINUTES)
    made = notice_gathering.bundle(now, join=timedelta(seconds=settings.NOTICE_JOIN_S), every=every)
    sent = failed = 0
    while not stopping() and time.monotonic() - begin < ROUNDS_S:
        claimed = notice_sending.claim(present(), limit=AT_ONCE)
        for each, tried in _sent(claimed, present()):
            if tried is None:
                notice_sending.drop(each, NOBODY, present())
            elif notice_sending.record(each, tried, present()):
                sent, failed = sent + tried.ok, failed + (not tried.ok)
        if len(claimed) < AT_ONCE:
            break
    return {"seen": seen, "made": made, "sent": sent, "failed": failed}


def _sent(claimed: list[Claimed], now: datetime) -> list[tuple[Claimed, Tried | None]]:
    """Each with what came of it, several at a time; None where there was nothing to send, or nobody to send it to."""
    worth = [each for each in claimed if each.address and (each.test or each.notices)]
    if not worth:
        return [(each, None) for each in claimed]
    with ThreadPoolExecutor(max_workers=min(SENDERS, len(worth)), thread_name_prefix="notices") as pool:
        tries = dict(zip((each.id for each in worth), pool.map(lambda each: _try(each, now), worth), strict=True))
    return [(each, tries.get(each.id)) for each in claimed]


def _try(claimed: Claimed, now: datetime) -> Tried:
    """One try. It uses no database: it runs beside others."""
    if claimed.post is None:
        return notice_mail.send(claimed) if settings.EMAIL_IS_SENT else Tried(False, 0, error=notice_mail.NOT_SET)
    body = json.dumps(content(claimed), separators=(",", ":"), ensure_ascii=False).encode()
    secret = webhook_post.secret_of(claimed.post, claimed.secret_number)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "EMEP-webhook/1",
        "X-EMEP-Delivery": str(claimed.id),
        "X-EMEP-Signature": webhook_post.signature(secret, to_ms(now) // 1000, body),
    }
    return webhook_post.post(claimed.address, body, headers)


def content(claimed: Claimed) -> dict[str, Any]:
    """What a webhook is sent: the same at every try of a delivery."""
    events = [_event(each) for each in claimed.notices]
    if claimed.test:
        told = f"a test that {claimed.username} asked for"
        events = [{"id": f"test-{claimed.id}", "type": "test", "at": claimed.created_at.isoformat(), "message": told}]
    return {"delivery": str(claimed.id), "webhook": str(claimed.post), "events": events}


def _event(notice: dict[str, Any]) -> dict[str, Any]:
    data = notice["data"]
    job = {
        "id": str(notice["job_id"]),
        "name": notice["name"],
        "kind": notice["job_kind"],
        "project": notice["project"],
        "user": notice["owner"],
        "queue": notice["queue"],
        "priority": notice["priority"],
        "gpu_count": notice["gpus"],
        "state": data["to"],
        "pipeline": str(notice["set_id"]) if notice["set_kind"] == "pipeline" else None,
        "sweep": str(notice["set_id"]) if notice["set_kind"] == "sweep" else None,
        "url": f"{settings.PUBLIC_URL}/jobs/{notice['job_id']}/",
    }
    return {
        "id": str(notice["event"]),
        "type": notice["kind"],
        "at": notice["at"].isoformat(),
        "message": data["why"],
        "waited_s": data.get("waited_s"),
        "job": job,
    }


def retain(now: datetime) -> int:
    """Messages that were done with longer ago than EMEP_NOTICE_RETENTION_DAYS are gone; returns how many."""
    return retain_notices(now, days=settings.NOTICE_RETENTION_DAYS)
