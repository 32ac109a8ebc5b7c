"""The live pages do not need the broker: what they show is in the database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import asyncio, django
django.setup()
from channels.testing import WebsocketCommunicator
from scheduling.feed.consumers import ANONYMOUS, FeedConsumer
answer = asyncio.run(WebsocketCommunicator(FeedConsumer.as_asgi(), "/ws/feed/").connect(timeout=20))
assert answer == (False, ANONYMOUS), answer
"""


def test_a_socket_is_answered_while_the_broker_is_away(tmp_path):
    env = {**os.environ, "EMEP_DATA_DIR": str(tmp_path), "EMEP_BROKER_URL": f"redis+socket://{tmp_path}/nobody.sock"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
