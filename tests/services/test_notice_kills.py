"""A real process dies while it sends: the message is another's after its lease, and arrives with the same ids."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from scheduling.models import Delivery, Notice, Webhook
from scheduling.services import notices, now
from scheduling.store.commit import notice_sending
from tests import builders as b
from tests.services.receiver import receiving

ROOT = Path(__file__).resolve().parents[2]
SENDER = """
import django
django.setup()
from scheduling.services import notices, now
notices.run(now())
"""


def database() -> str:
    """The address of this test's database, for another process."""
    at = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{at['NAME']}"
    who = f"{quote(at['USER'], safe='')}:{quote(at['PASSWORD'] or '', safe='')}"
    return f"postgresql://{who}@{quote(at['HOST'] or '', safe='')}:{at['PORT'] or 5432}/{at['NAME']}"


@pytest.mark.django_db(transaction=True)
def test_what_a_killed_sender_was_sending_is_sent_by_the_next(settings, tmp_path):
    lab = b.lab()
    notices.run(now())
    arrived, go_on = threading.Event(), threading.Event()

    def answer(count: int) -> tuple[int, bytes, dict[str, str]]:
        arrived.set()
        assert count > 1 or go_on.wait(60)
        return 200, b"", {}

    with receiving() as other:
        other.answer = answer
        alice = lab.who["alice"].user_id
        Webhook.objects.create(
            user_id=alice, name="ci", url=other.url, events=["failed"], created_at=b.NOON, since=b.NOON
        )
        run = b.running(lab.who["alice"], lab.models, now=now())
        b.finished(run, "FAILED", exit_code=1, error="out of memory", now=now())
        env = {
            **os.environ, "DATABASE_URL": database(), "EMEP_DATA_DIR": str(tmp_path), "EMEP_WEBHOOK_HTTP": "1",
            "EMEP_WEBHOOK_PORTS": str(other.port), "EMEP_WEBHOOK_NETWORKS": "127.0.0.0/8",
            "DJANGO_SETTINGS_MODULE": "emep_site.settings",
        }  # fmt: skip
        sender = subprocess.Popen([sys.executable, "-c", SENDER], cwd=ROOT, env=env)
        try:
            assert arrived.wait(60)
        finally:
            sender.send_signal(signal.SIGKILL)
            sender.wait(30)
            go_on.set()
        settings.WEBHOOK_HTTP, settings.WEBHOOK_PORTS = True, (other.port,)
        settings.WEBHOOK_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"),)
        notices.run(now())
        assert len(other.got) == 1  # it is the dead one's until its lease ends
        notices.run(now() + notice_sending.LEASE)
    first, second = other.bodies
    assert first == second
    assert (Delivery.objects.get().state, Notice.objects.count()) == ("SENT", 1)
    assert [each["error"] for each in Delivery.objects.get().log] == [notice_sending.LOST, ""]
