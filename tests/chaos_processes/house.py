"""A house of chaos: every process of a cluster on this machine, on PostgreSQL, with a host and a wire for each node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import IsolationLevel

from emep_site.embedded import broker, programs
from tests import throwaway
from tests.chaos_processes.database import SUPERUSER, Database
from tests.chaos_processes.disk import Disk
from tests.chaos_processes.network import Network
from tests.chaos_processes.node import Node, wait_until
from tests.chaos_processes.programs import Program, Programs, Say
from tests.checker import check, evidence, truth
from tests.checker.witness import Witness
from tests.journeys.house import ROOT

TEMPLATE = "emep_template"
INSIDE = (Path(__file__).parent / "inside", Path(truth.__file__).parent / "inside")
STORE = "768m"
STANDBY = "standby"  # a second scheduler: one of the two leads
KEPT = ("secret_key", "demo.json", "static")


def environment(home: Path, database: str) -> dict[str, str]:
    """What every process of the server and every agent of a house is told."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("EMEP_")}
    paths = [str(path) for path in (*INSIDE, ROOT)]
    return env | {
        "DJANGO_SETTINGS_MODULE": "emep_site.settings", "DATABASE_URL": database, "EMEP_DATA_DIR": str(home),
        "EMEP_ARTIFACT_DIR": str(home / "artifacts"),
        "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def prepare(database: Database, home: Path, nodes: Sequence[str]) -> None:
    """``home`` and the database ``TEMPLATE`` are as a fresh house needs them: tables, people, models, nodes."""
    home.mkdir(parents=True)
    database.create(TEMPLATE)
    env = environment(home, database.url(TEMPLATE))
    made = subprocess.run(
        [sys.executable, "-m", "tests.chaos_processes.preparing", *nodes], cwd=ROOT, env=env, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode != 0:
        raise RuntimeError(f"a house could not be prepared: {made.stdout}{made.stderr}")


class House:
    """Its processes run while it is entered; ``say`` is told what happens, in words."""

    def __init__(
        self, home: Path, database: Database, name: str, *, nodes: Sequence[str], mounts: bool,
        network: Network | None, scale: float, throttle_s: float, say: Say,
    ) -> None:  # fmt: skip
        self.home, self.database, self.name, self.network, self.say = home, database, name, network, say
        self.names, self._mounts, self.scale, self._throttle_s = tuple(nodes), mounts, scale, throttle_s
        self.programs = Programs(say)
        self.web, self.broker_port = throwaway.free_port(), throwaway.free_port()
        self.truth = home / "truth"
        self.nodes: dict[str, Node] = {}
        self.store = Disk(home / "artifacts", STORE, mounts=mounts)
        self.demo: dict[str, Any] = {}
        self._witness = Witness(self.truth)

    def start(self, prepared: Path) -> None:
        """All nodes are ready to work."""
        self._copy(prepared)
        self._witness.__enter__()
        env = environment(self.home, self.database.url(self.name)) | {
            "EMEP_PORT": str(self.web), "EMEP_ALLOWED_HOSTS": self.network.server if self.network else "",
            "EMEP_BROKER_URL": f"redis://127.0.0.1:{self.broker_port}/0",
            "EMEP_TIME_SCALE": str(self.scale), "EMEP_MERGE_THROTTLE_S": str(self._throttle_s),
            truth.DIRECTORY: str(self.truth),
        }  # fmt: skip
        server = broker.binary()
        if server is None:
            raise throwaway.Missing("valkey")
        keeps_nothing = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", str(self.broker_port)]
        commands: dict[str, Sequence[str | Path]] = {"broker": [server, *keeps_nothing]}
        chosen = programs.of(base=ROOT, host="127.0.0.1", port=self.web, broker=None, nodes=[], grace_s=0.0)
        commands |= {program.name: program.command for program in chosen}
        commands[STANDBY] = commands["scheduler"]
        (self.home / "logs").mkdir()
        for name, command in commands.items():
            self.programs.add(Program(name, command, env, self.home / "logs" / f"{name}.log"))
        for place, name in enumerate(self.names):
            node = Node(name, self.home / "nodes" / name, self.programs, web=self.web, broker=self.broker_port,
                        mounts=self._mounts, network=self.network)  # fmt: skip
            self.nodes[name] = node
            node.start(env, prepared / "nodes" / name / "token", rack=f"r{place % 2 + 1}")
        wait_until(self._ready, self.programs, "all nodes are ready", 120)

    def _copy(self, prepared: Path) -> None:
        self.database.copy(TEMPLATE, self.name)
        for name in KEPT:
            source = prepared / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, self.home / name)
        shutil.copytree(prepared / "artifacts", self.store.path, dirs_exist_ok=True)
        self.demo = json.loads((self.home / "demo.json").read_text())

    def client(self, user: str = "alice") -> httpx.Client:
        """A REST client with the user's token, straight to the server; it reads no certificates for plain HTTP."""
        token = self.demo["users"][user]["token"]
        return httpx.Client(base_url=f"http://127.0.0.1:{self.web}/api/v1", timeout=10,
                            headers={"Authorization": f"Bearer {token}"}, trust_env=False, verify=False)  # fmt: skip

    def _ready(self) -> bool:
        return len(self.ready()) == len(self.names)

    def ready(self) -> set[str]:
        """The nodes that may be given work; none while the server does not answer."""
        try:
            with self.client("admin") as client:
                nodes = client.get("/pool/").json()["nodes"]
        except (httpx.HTTPError, ValueError, KeyError):
            return set()
        return {node["name"] for node in nodes if node["state"] == "READY"}

    def findings(self, *, settled: bool) -> list[str]:
        """Every invariant that is broken so far; ``settled`` when all jobs must have come to an end."""
        told = evidence.told(self.truth)  # before the events: who began has been granted then
        with psycopg.connect(self.database.url(self.name, SUPERUSER)) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ  # one instant for all tables
            return check.check_database(connection.cursor(), now=time.time(), scale=self.scale, settled=settled,
                                        truth=told, artifacts=self.store.path)  # fmt: skip

    def close(self) -> None:
        """No process of it is left, and its database is gone; what it wrote stays."""
        self.programs.end()
        for node in self.nodes.values():
            node.close()
        self._witness.__exit__(None, None, None)
        self.database.until_ready()
        self.database.drop(self.name)
        self.store.close()
