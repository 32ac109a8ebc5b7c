"""More nodes for a house: agents of their own beside those of the set, which nobody restarts when they are killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from tests.journeys.house import ROOT, House, gone, until


@dataclass
class Agent:
    """A node: its agent's process, and everything that descends from it or writes into its directory."""

    name: str
    home: Path
    process: subprocess.Popen

    def family(self) -> list[psutil.Process]:
        """The agent, its keeper and its jobs, however far they went."""
        found = []
        for each in psutil.process_iter(["environ", "cmdline"]):
            words = [*(each.info["cmdline"] or ()), (each.info["environ"] or {}).get("EMEP_JOB_FILE", "")]
            if any(word.startswith(str(self.home)) for word in words):
                found.append(each)
        return found

    def die(self) -> None:
        """Everything of the node is gone at once, as when its power fails: none of it sees another one die first."""
        while left := [each for each in self.family() if not gone([each])]:
            for deed in (psutil.Process.suspend, psutil.Process.kill):
                for each in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        deed(each)
            self.process.wait()
            until(lambda left=left: gone(left), f"{self.name} is dead")


@contextmanager
def agents(up: House, names: list[str], *, gpus: int, labels: dict[str, str] | None = None) -> Iterator[list[Agent]]:
    """These nodes have joined the house, each with so many simulated GPUs of one NVLink group."""
    made = []
    try:
        for name in names:
            made.append(_started(up, name, gpus, labels or {}))
        until(lambda: _ready(up) >= set(names), f"{names} are ready")
        yield made
    finally:
        for agent in made:
            agent.die()


def _ready(up: House) -> set[str]:
    return {node["name"] for node in up.client("admin").get("/pool/").json()["nodes"] if node["state"] == "READY"}


def _started(up: House, name: str, gpus: int, labels: dict[str, str]) -> Agent:
    home = up.home / "nodes" / name
    home.mkdir(parents=True)
    add = [sys.executable, "manage.py", "addnode", name]
    token = subprocess.run(add, cwd=ROOT, env=up.env, check=True, capture_output=True, text=True).stdout
    (home / "token").write_text(token.strip())
    described = [
        {"uuid": f"GPU-SIM-{name}-{n}", "model": "SIM H100 80GB", "memory": "76294MiB", "nvlink_group_id": f"{name}-nv"}
        for n in range(gpus)
    ]
    (home / "gpus.yaml").write_text(yaml.safe_dump({"node": {"rack_id": "r3", "labels": labels}, "gpus": described}))
    command = [
        sys.executable, "-m", "workers", "agent", "--state", str(home / "state"), "--server", up.url, "--node", name,
        "--token-file", str(home / "token"), "--gpus", f"simulated:{home / 'gpus.yaml'}", "--bell", "poll",
        "--address", "127.0.0.1",
    ]  # fmt: skip
    with (home / "agent.log").open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ) | up.env, stdout=out, stderr=out)
    return Agent(name, home, process)
