"""The web server waits for slow readers, and static files take no thread from anybody."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from asgiref.sync import iscoroutinefunction
from django.http import HttpResponse
from django.test import AsyncRequestFactory

from emep_site.serve import PacedServer
from emep_site.static_files import StaticFiles
from tests.throwaway import free_port

ROOT = Path(__file__).resolve().parents[2]


def settled(file: Path) -> int:
    """The number in the file once it has not changed for a second."""
    seen, since, deadline = -1, time.monotonic(), time.monotonic() + 60
    while time.monotonic() < deadline:
        now = int(file.read_text() or 0) if file.exists() else 0
        if now != seen:
            seen, since = now, time.monotonic()
        elif seen and time.monotonic() - since > 1:
            return seen
        time.sleep(0.05)
    raise AssertionError(f"never settled, last {seen}")


def connected(port: int, process: subprocess.Popen) -> socket.socket:
    """A connection to the server once it listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server did not come up")


def test_a_slow_download_is_not_kept_in_memory(tmp_path):
    port, sent = free_port(), tmp_path / "sent"
    command = [sys.executable, "-m", "emep_site.serve", "-v", "0", "-p", str(port), "tests.site.slow_app:application"]
    server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "SENT": str(sent)})
    try:
        with connected(port, server) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            # what the kernel's buffers and a chunk or two hold, not the 200 MB that the application would give
            assert settled(sent) < 40
            received = 0
            while piece := client.recv(1 << 20):
                received += len(piece)
        assert received > 200_000_000
        assert sent.read_text() == "200"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def static(settings, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    settings.STATIC_ROOT, settings.WHITENOISE_USE_FINDERS, settings.WHITENOISE_AUTOREFRESH = str(tmp_path), False, False

    async def other(request):
        return HttpResponse("other")

    return StaticFiles(other)


async def test_a_static_file_is_served_under_an_async_server(static):
    answer = await static(AsyncRequestFactory().get("/static/a.txt"))
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (
        200,
        b"hello",
        'text/plain; charset="utf-8"',
    )


async def test_a_file_that_has_not_changed_is_not_sent_again(static):
    first = await static(AsyncRequestFactory().get("/static/a.txt"))
    again = await static(
        AsyncRequestFactory().get("/static/a.txt", headers={"If-Modified-Since": first["Last-Modified"]})
    )
    assert (again.status_code, again.content) == (304, b"")


async def test_everything_else_goes_on_without_a_thread(static):
    assert iscoroutinefunction(static)
    assert (await static(AsyncRequestFactory().get("/jobs/"))).content == b"other"


def test_a_client_that_left_before_its_answer_is_no_fault_of_the_server():
    class Gone:
        """A request of twisted whose connection has been lost."""

        channel = None

        def registerProducer(self, producer, streaming):
            self.channel.registerProducer(producer, streaming)

    server = PacedServer(application=None, endpoints=["tcp:port=0"])
    server.connections = {}
    answer = {"type": "http.response.start", "status": 200, "headers": []}
    assert asyncio.run(server.handle_reply(Gone(), answer)) is None
