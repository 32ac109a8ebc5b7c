"""The real web server in its own process, on the test's database, for a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from django.db import connection

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


class Server:
    """Daphne on a free port; may be stopped and started again on the same one."""

    def __init__(self, data: Path) -> None:
        self.data = data
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {**os.environ, "EMEP_DATA_DIR": str(data), "EMEP_PORT": str(self.port), "EMEP_URL": self.url,
                    "DJANGO_SETTINGS_MODULE": "emep_site.settings"}  # fmt: skip
        for name in ("DATABASE_URL", "EMEP_BROKER_URL", "EMEP_ARTIFACT_DIR", "DJANGO_ALLOW_ASYNC_UNSAFE"):
            self.env.pop(name, None)
        self.process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        """The static files are collected, and the data directory's database is the test's."""
        (self.data / "emep.sqlite3").symlink_to(connection.settings_dict["NAME"])
        collect = [sys.executable, "manage.py", "collectstatic", "--noinput", "-v0"]
        subprocess.run(collect, cwd=ROOT, env=self.env, check=True)

    def start(self) -> None:
        """The server answers."""
        command = [
            sys.executable,
            "-m",
            "daphne",
            "-b",
            "127.0.0.1",
            "-p",
            str(self.port),
            "emep_site.asgi:application",
        ]
        with (self.data / "daphne.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=log, stderr=log)
        until = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.data / "daphne.log").read_text()[-4000:])
            time.sleep(0.1)

    def stop(self) -> None:
        """The server is gone, and every socket with it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=10)
            self.process = None

    def _answers(self) -> bool:
        try:
            return urlopen(f"{self.url}/healthz", timeout=2).status == 200
        except (URLError, OSError):
            return False
