"""One node for a test's jobs of kind command: real agent, keeper and launch, and an HTTP double of the server."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.workers.agent.server import NodeServer, launch_of
from tests.workers.agent.test_whole_node import Node
from tests.workers.agent.waiting import until
from workers.protocol import Timings

# Heartbeat 0.5 s, fence 2.25 s, grace 6 s.
BRISK = Timings().scaled(0.05)


class House:
    """Runs programs as attempts; a checkpoint of one can be resumed by the next."""

    def __init__(self, tmp_path: Path, server: NodeServer, node: Node) -> None:
        self.tmp_path = tmp_path
        self.server = server
        self.node = node
        self.attempts = 0

    def start(self, text: str, *words: str, params: dict[str, Any] | None = None, **launch: Any) -> str:
        """Grant an attempt of the Python program ``text``; its name."""
        self.attempts += 1
        script = self.tmp_path / f"program{self.attempts}.py"
        script.write_text(text)
        return self.grant({"argv": [sys.executable, str(script), *words], **(params or {})}, **launch)

    def grant(self, params: dict[str, Any], kind: str = "command", **launch: Any) -> str:
        """Grant an attempt with these parameters; its name."""
        name = f"a{len(self.server.launches) + 1}"
        document = {"grace_s": 60.0, "remaining_s": 300.0, **launch}
        self.server.grant(launch_of(name, argv=None, kind=kind, params=params, **document))
        return name

    def input_of(self, name: str, source: Path) -> dict[str, Any]:
        """The directory as an artifact that the node may fetch, under this name."""
        files = []
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            content, below = path.read_bytes(), path.relative_to(source).as_posix()
            self.server.inputs[(f"art-{name}", below)] = content
            files.append({"path": below, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
        return {"artifact": f"art-{name}", "as": name, "name": name, "files": files}

    def progressed(self, attempt: str, steps: int = 1) -> None:
        """The server has heard of at least so many steps."""

        def reached() -> bool:
            over = self.server.got("finished", attempt)
            assert not over, (over, self.log(attempt))
            return any(r["step"] >= steps for r in self.server.got("progress", attempt))

        until(reached, f"{steps} steps of {attempt}", 60)

    def preempt(self, attempt: str) -> dict[str, Any]:
        """Ask it to stop for a preemption; its final report."""
        self.server.want(attempt, "stop", "preempt", 60.0)
        return self.end(attempt)

    def end(self, attempt: str) -> dict[str, Any]:
        """Its final report."""
        return until(lambda: self.server.got("finished", attempt), f"the end of {attempt}", 90)[0]

    def checkpoint(self, report: dict[str, Any]) -> dict[str, bytes]:
        """The files of the checkpoint that a report names, by path."""
        return self.server.artifacts[report["checkpoint"]]["bytes"]

    def resume(self, report: dict[str, Any]) -> dict[str, Any]:
        """What a launch document says to resume from the checkpoint that a report names."""
        kept = self.server.artifacts[report["checkpoint"]]
        for path, content in kept["bytes"].items():
            self.server.inputs[(report["checkpoint"], path)] = content
        return {"artifact": report["checkpoint"], "step": report["step"], "files": kept["files"]}

    def output(self, report: dict[str, Any]) -> dict[str, bytes]:
        """The files of the only output, by path."""
        (artifact,) = report["artifacts"]
        return self.server.artifacts[artifact]["bytes"]

    def outputs(self, report: dict[str, Any]) -> list[dict[str, bytes]]:
        """The files of each of its outputs, by path."""
        return [self.server.artifacts[artifact]["bytes"] for artifact in report["artifacts"]]

    def log(self, attempt: str) -> str:
        """Its log as the server holds it."""
        return self.server.logs.get(attempt, b"").decode()


@contextmanager
def house(tmp_path: Path, timings: Timings = BRISK, *more: str) -> Iterator[House]:
    """A node with a running agent; ``more`` are its further settings."""
    with NodeServer(timings) as server:
        node = Node(tmp_path, server)
        try:
            node.start_agent(*more)
            yield House(tmp_path, server, node)
        finally:
            node.close()
