"""The upload that docs/artifacts.md shows runs as it stands there, by curl, against the server's views."""

from __future__ import annotations

import os
import re
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from django.test import Client

from scheduling.api import uploads
from scheduling.models import Artifact
from scheduling.services import artifacts
from tests import builders as b
from tests.api.calls import token, world

pytestmark = pytest.mark.django_db

PAGE = (Path(__file__).parents[2] / "docs" / "artifacts.md").read_text()


class Server(BaseHTTPRequestHandler):
    """Answers what curl asks, in the thread of the test, which sees the test's database."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = {"Authorization": self.headers["Authorization"]}
        answer = Client().generic(self.command, self.path, body, self.headers["Content-Type"], headers=told)
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_PUT = do_POST

    def log_message(self, *said: object) -> None:
        """Nothing is said."""


def test_what_is_shown_stores_the_file(tmp_path: Path) -> None:
    w, content = world(node=False), b.tensors(7)
    (tmp_path / "model.safetensors").write_bytes(content)
    shown = re.search(r"```sh\n(.*?)```", PAGE, re.S).group(1).replace("64M", "64")  # several parts of a small file
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        server.timeout = 0.05
        env = {**os.environ, "TOKEN": token(w.who["alice"]), "EMEP_URL": f"http://127.0.0.1:{server.server_port}"}
        with subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", shown], cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as run:  # fmt: skip
            while run.poll() is None:
                server.handle_request()
            said = run.communicate()[0]
    assert run.returncode == 0, said
    made = Artifact.objects.get(name="tiny")
    assert (str(made.pk) in said, made.size, made.kind, len(list(tmp_path.glob("part.*"))) > 2) == (
        True, len(content), "model", True
    )  # fmt: skip


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"at most {uploads.MAX_PART // 2**20} MiB" in PAGE
    assert f"at most {artifacts.MAX_FILES:,} files" in PAGE
