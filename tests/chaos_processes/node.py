"""One node of a house of chaos: agent, keeper and jobs behind a wire, a disk and a clock that can all go wrong."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil
import yaml

from tests.chaos_processes.disk import Disk
from tests.chaos_processes.link import Link
from tests.chaos_processes.network import Network
from tests.chaos_processes.programs import Program, Programs, kill_below

GPUS = 2
ASK_EVERY_S = 2.0  # whoever asks more often keeps the server from its work
DISK = "256m"
DISK_LOW_BYTES = 8 * 2**20


class Node:
    """Its processes are programs of the house, ``agent-NAME`` and ``keeper-NAME``."""

    def __init__(
        self, name: str, home: Path, programs: Programs, *, web: int, broker: int, mounts: bool, network: Network | None
    ) -> None:
        self.name, self.home, self._programs, self._network = name, home, programs, network
        self._server = network.server if network else "127.0.0.1"
        self._web, self._bell = Link(web, http=True, host=self._server), Link(broker, http=False, host=self._server)
        self.disk = Disk(home / "disk", DISK, mounts=mounts)
        self.state, self._clock = self.disk.path / "state", home / "clock"

    def start(self, env: Mapping[str, str], token: Path, rack: str) -> None:
        """Its keeper and its agent run."""
        gpus = [
            {"uuid": f"GPU-SIM-{self.name}-{n}", "model": "SIM H100 80GB", "memory": "76294MiB",
             "nvlink_group_id": f"{self.name}-nv"}
            for n in range(GPUS)
        ]  # fmt: skip
        (self.home / "gpus.yaml").write_text(yaml.safe_dump({"node": {"rack_id": rack}, "gpus": gpus}))
        env = {**env, "EMEP_CHAOS_CLOCK": str(self._clock), "EMEP_DISK_LOW_BYTES": str(DISK_LOW_BYTES),
               "EMEP_BROKER_URL": f"redis://{self._server}:{self._bell.port}/0"}  # fmt: skip
        state = str(self.state)
        keeper = [sys.executable, "-m", "workers", "keeper", "--state", state]
        agent = [
            sys.executable, "-m", "workers", "agent", "--state", state,
            "--server", f"http://{self._server}:{self._web.port}",
            "--node", self.name, "--token-file", str(token), "--gpus", f"simulated:{self.home / 'gpus.yaml'}",
            "--bell", "broker", "--keeper", "outside",
            "--address", self._network.address(self.name) if self._network else "127.0.0.1",
        ]  # fmt: skip
        there = self._network.inside(self.name) if self._network else []
        for kind, command in (("keeper", keeper), ("agent", agent)):
            name = f"{kind}-{self.name}"
            self._programs.add(Program(name, [*there, *command], env, self.home / f"{kind}.log"))

    @property
    def agent(self) -> Program:
        return self._programs.all[f"agent-{self.name}"]

    @property
    def keeper(self) -> Program:
        return self._programs.all[f"keeper-{self.name}"]

    def jobs(self) -> list[psutil.Process]:
        """The leaders of its jobs that live."""
        return sorted(self.at_work().values(), key=lambda leader: leader.pid)

    def at_work(self) -> dict[str, psutil.Process]:
        """The leaders that live, by the directory of their attempt, which has one name on all nodes of a gang."""
        found = {}
        for file in self.state.glob("attempts/*/pid.json"):
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                leader = psutil.Process(int(json.loads(file.read_text())["pid"]))
                ours = leader.environ().get("EMEP_JOB_FILE", "").startswith(str(file.parent))
                if ours and leader.status() != psutil.STATUS_ZOMBIE:
                    found[file.parent.name] = leader
        return found

    def die(self, rest_s: float) -> int:
        """Everything of it is gone at once, as when its power fails; it starts again after the rest."""
        killed = 0
        for program in (self.agent, self.keeper):
            killed += program.kill()
            program.killed, program.again_at = True, time.monotonic() + rest_s
        return killed + kill_below(self.state)

    def jump(self, seconds: float) -> None:
        """Its wall clock is off by so much from now on."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.replace(self._clock)

    def hold(self, ways: Iterable[str]) -> None:
        """Nothing arrives in these directions between it and the server until :meth:`mend`, and nobody is told."""
        if self._network:
            self._network.hold(self.name, ways)
        else:
            self._web.hold(ways)
            self._bell.hold(ways)

    def cut(self) -> None:
        """Every connection to the server is reset, and so is each new one until :meth:`mend`."""
        self._web.cut()
        self._bell.cut()

    def delay(self, seconds: float) -> None:
        """Each piece between it and the web takes so much longer until :meth:`mend`."""
        self._web.delay(seconds)

    def mend(self) -> None:
        """Its way to the server is as good as new."""
        self._web.heal()
        self._bell.heal()
        if self._network:
            self._network.heal(self.name)

    def heal(self) -> None:
        """Wires and disk are well, and none of its jobs is stopped. The clock stays wrong: nobody need mend it."""
        self.mend()
        self.disk.empty()
        for leader in self.jobs():
            with contextlib.suppress(psutil.NoSuchProcess):
                leader.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Nothing of it is left but its logs."""
        kill_below(self.state)
        for link in (self._web, self._bell):
            link.close()
        self.disk.close()


def wait_until(true: Callable[[], object], programs: Programs, what: str, patience_s: float) -> None:
    """Returns once it is true; the programs are kept meanwhile. AssertionError names ``what`` when it never is."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened within {patience_s:.0f} s: {what}")
        asked_again_at = time.monotonic() + ASK_EVERY_S
        while time.monotonic() < asked_again_at:
            programs.keep()
            time.sleep(0.1)
