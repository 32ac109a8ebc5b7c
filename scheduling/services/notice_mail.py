"""E-mail about jobs: whether any is sent, what it says, and one try to send it."""

from __future__ import annotations

import smtplib
import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage

from scheduling.core.notice_words import Mail, Told, mail
from scheduling.store.clock import to_ms
from scheduling.store.commit.notice_sending import Claimed, Tried

NOT_SET = "whoever runs this server has set no mail server (EMEP_EMAIL_URL)"
NO_ADDRESS = "no e-mail address is known of you: ask an admin to enter it at /admin/"
TEST = Mail(
    "EMEP: a test",
    "You asked for this e-mail to see whether e-mail about your jobs arrives. It does; nothing needs to be done.\n",
)


def why_none(address: str) -> str:
    """Why no e-mail reaches this person, and what to do; "" when it does as far as this server knows."""
    if not settings.EMAIL_IS_SENT:
        return NOT_SET
    return "" if address else NO_ADDRESS


def choices_url() -> str:
    """Where a person changes what they are told."""
    return f"{settings.PUBLIC_URL}/account/#notices"


def written(claimed: Claimed) -> Mail:
    """The e-mail's subject and text."""
    if claimed.test:
        return TEST
    return mail([_told(each) for each in claimed.notices], server=settings.PUBLIC_URL, choices=choices_url())


def _told(notice: dict[str, Any]) -> Told:
    data = notice["data"]
    what = data["what"] if data["what"] == "timed_out" else notice["kind"]
    return Told(
        what=what, at_ms=to_ms(notice["at"]), job=notice["name"], kind=notice["job_kind"], project=notice["project"],
        owner=notice["owner"], url=f"{settings.PUBLIC_URL}/jobs/{notice['job_id']}/", why=data["why"],
        waited_s=data.get("waited_s"), set_kind=notice["set_kind"] or "", set_id=str(notice["set_id"] or ""),
    )  # fmt: skip


def send(claimed: Claimed) -> Tried:
    """One try: one e-mail, or none. What the mail server says is told in its first line, without its name."""
    begin = time.monotonic()
    content = written(claimed)
    message = EmailMessage(
        subject=content.subject, body=content.text, to=[claimed.address],
        headers={
            # The same at every try, so that a mail system can tell a second copy.
            "Message-ID": f"<{claimed.id}@{urlsplit(settings.PUBLIC_URL).hostname or 'emep'}>",
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": f"<{choices_url()}>",
        },
    )  # fmt: skip
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as refused:
        code, why = next(iter(refused.recipients.values()), (550, b""))
        return Tried(ok=False, ms=_since(begin), status=code, error=_answer(code, why), final=code >= 500)
    except smtplib.SMTPResponseException as refused:
        told = _answer(refused.smtp_code, refused.smtp_error)
        return Tried(ok=False, ms=_since(begin), status=refused.smtp_code, error=told)
    except (OSError, smtplib.SMTPException) as problem:
        error = f"the mail server could not be asked ({type(problem).__name__}): tell whoever runs this server"
        return Tried(ok=False, ms=_since(begin), error=error)
    return Tried(ok=True, ms=_since(begin))


def _answer(code: int, why: bytes | str) -> str:
    text = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
    return f"the mail server answered {code}" + (f": {line}" if line else "")


def _since(begin: float) -> int:
    return round(1000 * (time.monotonic() - begin))
