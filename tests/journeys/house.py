"""The whole house as real processes: ``manage.py up`` in a directory of its own, driven over HTTP like a stranger.

Its job processes write their own logs beside it, and :meth:`House.findings` compares them with what the house recorded.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.checker import check, evidence, export, truth
from tests.checker.witness import Witness
from tests.throwaway import SHARED, free_port

log = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0
BUSY_S = 60.0
# How often the server is asked anew: each answer costs it as much time of a processor as the house does meanwhile.
ASKING_S = 0.2
# heartbeat 1.5 s, fence 6.75 s, kill 1.5 s, lease 9 s: fence + kill < lease as in the real ones
SCALE = "0.15"
PREPARES = """
import django
django.setup()
from django.conf import settings
from emep_site.embedded import prepare
(settings.DATA_DIR / "run").mkdir()
prepare.everything(print)
"""


def throttles(throttle_s: float) -> dict[str, str]:
    """The environment in which jobs of every kind take their time, about 9 x ``throttle_s`` or somewhat more.

    A search has twice as many steps as the others, so it rests half as long after each.
    """
    steps = {"MERGE": 1.0, "EVALUATE": 1.0, "INFER": 1.0, "EVOLVE": 0.5}
    return {f"EMEP_{kind}_THROTTLE_S": str(share * throttle_s) for kind, share in steps.items()}


def until(true: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """What ``true`` returned once it was true; AssertionError naming ``what`` when it never was."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if result := true():
            return result
        time.sleep(ASKING_S)
    raise AssertionError(f"never happened: {what}")


class Patient(httpx.HTTPTransport):
    """Reads again what a busy server refused, when it says so; no certificates are read, which plain HTTP can spare."""

    def __init__(self) -> None:
        super().__init__(verify=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The first answer that is none of "try again"; the last one when it stays like that."""
        deadline = time.monotonic() + BUSY_S
        while True:
            answer = super().handle_request(request)
            again = answer.headers.get("Retry-After") if answer.status_code == 503 else None
            if again is None or request.method != "GET" or time.monotonic() > deadline:
                return answer
            answer.read()
            log.warning("%s: %s", request.url.path, answer.text)
            time.sleep(int(again))


@dataclass
class House:
    """A running set: its supervisor, its directory, and what demo.json says."""

    home: Path
    port: int
    env: dict[str, str]
    process: subprocess.Popen | None = None
    demo: dict[str, Any] = field(default_factory=dict)
    output: Path | None = None

    @property
    def truth(self) -> Path:
        """The directory in which the job processes write their own logs."""
        return self.home.parent / "truth"

    def findings(self, *, settled: bool = False) -> list[str]:
        """Every invariant that the house has broken so far; ``settled`` when all its jobs must have come to an end."""
        told = evidence.told(self.truth)  # before the events: who began has been granted then
        lines = export.of_file(
            self.home / "emep.sqlite3", settled=settled, scale=float(self.env["EMEP_TIME_SCALE"]), now=time.time()
        )
        return [str(f) for f in check.check(evidence.read(lines, told, artifacts=self.home / "artifacts"))]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> House:
        """The set is up, and both nodes have registered."""
        self.output = self.home.parent / f"up-{time.monotonic_ns()}.log"
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"], cwd=ROOT, env=self.env, stdout=out, stderr=subprocess.STDOUT
            )
        until(lambda: self.process.poll() is not None or self._ready(), f"ready on {self.url}", 180)
        assert self.process.poll() is None, self.output.read_text()
        self.demo = json.loads((self.home / "demo.json").read_text())
        return self

    def _ready(self) -> bool:
        try:
            if httpx.get(f"{self.url}/readyz", timeout=5, verify=False).status_code != 200:
                return False
            self.demo = json.loads((self.home / "demo.json").read_text())
            nodes = self.client("admin").get("/pool/").json()
        except (httpx.HTTPError, FileNotFoundError, ValueError):
            return False
        return len([n for n in _rows(nodes) if n["state"] == "READY"]) == 2

    def client(self, user: str = "alice") -> httpx.Client:
        """A REST client with the user's token."""
        token = self.demo["users"][user]["token"]
        return httpx.Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60,
                            transport=Patient())  # fmt: skip

    def merge(self, name: str, **kw: Any) -> dict[str, Any]:
        """The accepted merge of the two demo models on 2 GPUs of one NVLink group."""
        models = [self.demo["models"]["digits-0-4"], self.demo["models"]["digits-5-9"]]
        return self._submitted("merge", name, {"strategy": "slerp", "t": 0.5, "models": models}, kw)

    def evaluate(self, name: str, **kw: Any) -> dict[str, Any]:
        """The accepted evaluation of a demo model on 2 GPUs of one NVLink group."""
        params = {"model": self.demo["models"]["digits-base"], "dataset": self.demo["datasets"]["digits-test"],
                  "batch_size": 64}  # fmt: skip
        return self._submitted("evaluate", name, params, kw)

    def infer(self, name: str, **kw: Any) -> dict[str, Any]:
        """The accepted run of a demo model over the rows of the demo data set on 2 GPUs of one NVLink group."""
        params = {"model": self.demo["models"]["digits-base"], "input": self.demo["datasets"]["digits-test"],
                  "batch_size": 64}  # fmt: skip
        return self._submitted("infer", name, params, kw)

    def evolve(self, name: str, **kw: Any) -> dict[str, Any]:
        """The accepted search over the t of each layer of the demo models, 17 evaluations, on 2 GPUs of one NVLink
        group."""
        params = {
            "merge": {"strategy": "slerp", "models": [self.demo["models"]["digits-0-4"],
                                                      self.demo["models"]["digits-5-9"]]},
            "space": [{"name": "t", "low": 0, "high": 1, "per": "layer"}],
            "objective": {"dataset": self.demo["datasets"]["digits-search"], "batch_size": 1024},
            "test": {"dataset": self.demo["datasets"]["digits-test"]}, "budget": 13, "population": 4, "grid": 3,
        }  # fmt: skip
        return self._submitted("evolve", name, params, kw)

    def _submitted(self, kind: str, name: str, params: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        body = {"kind": kind, "name": name, "project": "alpha", "gpu_count": 2, "nvlink_required": True,
                "max_duration": "30m", "params": params, **more}  # fmt: skip
        answer = self.client().post("/jobs/", json=body)
        assert answer.status_code == 201, answer.text
        truth.acknowledged(self.truth, answer.json()["id"], user="alice")
        return answer.json()

    def job(self, job_id: str) -> dict[str, Any]:
        """The job now; None while the web process is away."""
        try:
            answer = self.client().get(f"/jobs/{job_id}/")
        except httpx.HTTPError:
            return {"state": "?", "progress": None, "attempt": 0}
        return answer.json() if answer.status_code == 200 else {"state": "?", "progress": None, "attempt": 0}

    def until_state(self, job_id: str, *states: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The job once it is in one of the states."""

        def there() -> Any:
            job = self.job(job_id)
            return job if job["state"] in states else None

        return until(there, f"job {job_id} in {states}; it is {self.job(job_id)}", patience_s)

    def half_done(self, job_id: str) -> dict[str, Any] | None:
        """The job if it has done something and has something left; else None."""
        job = self.job(job_id)
        p = job.get("progress") or {}
        return job if job["state"] == "RUNNING" and 0 < p.get("step", 0) < p.get("total", 0) else None

    def in_the_middle(self, job_id: str) -> dict[str, Any]:
        """The job once it has done something and has something left."""
        return until(lambda: self.half_done(job_id), f"job {job_id} half done; it is {self.job(job_id)}")

    def pid(self, program: str) -> int:
        """The process of one of the supervisor's programs, from its status lines (the newest)."""
        lines = re.findall(
            rf"^\S+\s+{re.escape(program)}\s+running \(process (\d+)\)", self.output.read_text(), re.MULTILINE
        )
        return int(lines[-1])

    def family(self) -> list[psutil.Process]:
        """Every process that descends from the supervisor, and the jobs."""
        found = {p.pid: p for p in psutil.Process(self.process.pid).children(recursive=True)}
        for p in psutil.process_iter(["environ"]):
            if (p.info["environ"] or {}).get("EMEP_JOB_FILE", "").startswith(str(self.home)):
                found[p.pid] = p
        return list(found.values())

    def stop(self, sig: int = signal.SIGTERM, patience_s: float = 60) -> int:
        """The supervisor has ended after the signal; returns its status."""
        self.process.send_signal(sig)
        return self.process.wait(patience_s)


def _rows(answer: Any) -> list[dict[str, Any]]:
    return answer if isinstance(answer, list) else answer.get("results", answer.get("nodes", []))


def gone(processes: list[psutil.Process]) -> bool:
    """True when none of these processes runs any more (zombies that nobody waits for do not run)."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:  # it may go between two looks
            return False

    return not any(runs(p) for p in processes)


def prepared(shared: Path) -> Path:
    """A directory of what the first start of a set leaves there before anything runs: made once, by whoever comes
    first."""
    home = shared / "prepared"
    with (shared / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            making = shared / "preparing"
            env = {**os.environ, "EMEP_DATA_DIR": str(making)}
            for name in ("DATABASE_URL", "EMEP_BROKER_URL"):
                env.pop(name, None)
            subprocess.run([sys.executable, "-c", PREPARES], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
            making.rename(home)
    return home


@contextmanager
def house(tmp: Path, *, throttle_s: float = 0.0, scale: str = SCALE, fresh: bool = False) -> Iterator[House]:
    """A house that is up and keeps every invariant; whatever is left of it is killed afterwards.

    Its directory is empty before if it is to be ``fresh``; else it may have been prepared once for the whole run.
    """
    home, port = tmp / "data", free_port()
    inside = Path(truth.__file__).parent / "inside"
    env = {**os.environ, "EMEP_DATA_DIR": str(home), "EMEP_PORT": str(port), "EMEP_TIME_SCALE": scale,
           **throttles(throttle_s), truth.DIRECTORY: str(tmp / "truth"),
           "PYTHONPATH": os.pathsep.join(p for p in (str(inside), os.environ.get("PYTHONPATH", "")) if p)}  # fmt: skip
    for name in ("DATABASE_URL", "EMEP_BROKER_URL", "EMEP_STOP_WITH_PARENT"):
        env.pop(name, None)
    made = House(home, port, env)
    if SHARED in os.environ and not fresh:
        shutil.copytree(prepared(Path(os.environ[SHARED])), home, symlinks=True)
    try:
        with Witness(made.truth):
            yield made.start()
        assert not (found := made.findings(settled=True)), "\n".join(found)
    finally:
        left = made.family() if made.process.poll() is None else []
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        for p in left:
            if p.is_running():
                p.kill()
