"""The real processes of a house: started on a leash, killed and stopped by pid, and started again as a supervisor does.

Everything here belongs to one thread: a leashed process dies with the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from emep_site.embedded import leash
from tests.journeys.house import ROOT, gone

AGAIN_S = 1.0
Say = Callable[[str], None]


@dataclass
class Program:
    """One process that is to run for as long as the house does, and when it may be started again."""

    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    again_at: float = 0.0
    killed: bool = False

    @property
    def runs(self) -> bool:
        """Whether its process is there, stopped or not."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """It runs; what it says is appended to its log."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", leash.__file__, *self.command],
                cwd=ROOT, env=dict(self.env), stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.killed = False

    def kill(self, rest_s: float = AGAIN_S) -> bool:
        """It is gone at once, and comes back after the rest; False where it did not run."""
        if not self.runs or self.process is None:
            return False
        self.killed, self.again_at = True, time.monotonic() + rest_s
        self.process.kill()
        self.process.wait()
        return True

    def send(self, sig: signal.Signals) -> None:
        """The signal, where it runs."""
        if self.runs and self.process is not None:
            self.process.send_signal(sig)


@dataclass
class Programs:
    """All of a house, in the order in which they are started."""

    say: Say
    all: dict[str, Program] = field(default_factory=dict)

    def add(self, program: Program) -> Program:
        """It runs from now on."""
        self.all[program.name] = program
        program.start()
        return program

    def keep(self) -> None:
        """Whatever has ended and rested long enough runs again; who ended without being killed is on record."""
        for program in self.all.values():
            if program.runs:
                continue
            if not program.killed and program.process is not None and program.again_at <= time.monotonic():
                self.say(f"{program.name} ended by itself with status {program.process.returncode}")
                program.killed, program.again_at = True, time.monotonic() + AGAIN_S
            elif program.again_at <= time.monotonic():
                program.start()

    def awake(self) -> None:
        """Nothing is stopped, and nothing rests."""
        for program in self.all.values():
            program.send(signal.SIGCONT)
            program.again_at = 0.0
        self.keep()

    def spent(self) -> dict[str, float]:
        """The CPU seconds that each program has used since it was last started."""
        found = {}
        for name, program in self.all.items():
            if program.runs and program.process is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    used = psutil.Process(program.process.pid).cpu_times()
                    found[name] = round(used.user + used.system, 1)
        return found

    def end(self, patience_s: float = 8.0) -> None:
        """All have ended: asked in the reverse order, and killed where they take too long."""
        for program in reversed(self.all.values()):
            program.send(signal.SIGCONT)
            program.send(signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        for program in reversed(self.all.values()):
            if program.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(max(0.1, deadline - time.monotonic()))
            program.kill()


def below(home: Path) -> list[psutil.Process]:
    """Every process that was told of a file below this directory: a node's agent, keeper and jobs, however far gone."""
    found = []
    for each in psutil.process_iter(["environ", "cmdline"]):
        environ = each.info["environ"] or {}
        words = [*(each.info["cmdline"] or ()), environ.get("EMEP_JOB_FILE", "")]
        if each.pid != os.getpid() and any(word.startswith(f"{home}/") for word in words):
            found.append(each)
    return found


def kill_below(home: Path, patience_s: float = 10.0) -> int:
    """Nothing of it runs any more, also what was born meanwhile; how many were killed."""
    count, deadline = 0, time.monotonic() + patience_s
    while left := [each for each in below(home) if not gone([each])]:
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
                count += 1
        if time.monotonic() > deadline:
            raise AssertionError(f"processes of {home} can't be killed: {left}")
        time.sleep(0.05)
    return count
