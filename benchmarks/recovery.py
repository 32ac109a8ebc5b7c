"""How long it takes to make room, and to get over a lost node or a server that was away, as real processes.

    python -m benchmarks.recovery [--rounds 3] [--scale 1.0]

A house of web, scheduler, Celery, broker, PostgreSQL and two nodes of two simulated GPUs on this machine. ``--scale 1``
has the real waits (heartbeat 10 s, lease 60 s, pause before a retry 10 s). All instants are of this machine's clock, as
the server wrote them down. Needs PostgreSQL.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.arguments import Parser, whole
from tests.chaos_processes import house
from tests.chaos_processes.customers import ENDED, Customers
from tests.chaos_processes.database import Database
from tests.chaos_processes.house import House
from tests.chaos_processes.load import Order
from tests.chaos_processes.node import wait_until

NODES = ("node-1", "node-2")
STEP_S, PATIENCE_S = 0.25, 300.0
# The work of a victim is longer than the longest save, else a neighbour's own end would make the room.
STEPS, FEW_STEPS = 80, 8
AWAY_S = 20.0
# A loop that takes so long to save: some steps of a quarter of a second, and `save_s` when it is asked to leave.
WORK = f"""
import emep_job as job
job.attach()
import sys, time
save_s, steps, start = float(sys.argv[1]), int(sys.argv[2]), 0
if job.resuming():
    start = int((job.resume_dir() / "step").read_text())
for step in range(start, steps):
    time.sleep({STEP_S})
    job.progress(step + 1, steps)
    if job.should_stop():
        with job.checkpoint(step + 1) as directory:
            time.sleep(save_s)
            (directory / "step").write_text(str(step + 1))
        job.exit_checkpointed()
(job.output_dir() / "result").write_text(str(steps))
job.artifact("result", "result")
job.done()
"""


class Bench:
    """A house at work, and what it has been asked for."""

    def __init__(self, up: House) -> None:
        self.up, self.customers, self._made = up, Customers(up), 0

    def work(self, *, save_s: float = 0.0, gpus: int = 2) -> str:
        """The name of a submitted Low job of the loop."""
        body = {"kind": "command", "queue": "merge", "priority": "Low", "gpu_count": gpus,
                "params": {"argv": [sys.executable, "-c", WORK, str(save_s), str(STEPS)]}}  # fmt: skip
        return self._submitted("work", body)

    def gate(self) -> str:
        """The name of a submitted Critical job of the loop on two GPUs."""
        body = {"kind": "command", "queue": "merge", "priority": "Critical", "purpose": "regression_gate",
                "gpu_count": 2, "params": {"argv": [sys.executable, "-c", WORK, "0", str(FEW_STEPS)]}}  # fmt: skip
        return self._submitted("gate", body)

    def _submitted(self, kind: str, body: dict[str, Any]) -> str:
        self._made += 1
        name = f"{kind}-{self._made}"
        every = {"name": name, "project": "alpha", "max_duration": "30m"}
        self.customers.submit(Order(name, every | body, user="admin"))
        if self.customers.wrong:
            raise RuntimeError(self.customers.wrong[0])
        return name

    def until(self, true: Any, what: str) -> None:
        """Returns once it is true; everything is kept running meanwhile."""
        wait_until(true, self.up.programs, what, PATIENCE_S)

    def at_work(self, names: Sequence[str]) -> None:
        """Each of these has done some steps."""

        def there() -> bool:
            found = [self.customers.job(name).get("progress") or {} for name in names]
            return all((progress.get("step") or 0) >= 4 for progress in found)

        self.until(there, f"{names} are at work")

    def ended(self, names: Sequence[str]) -> None:
        """Each of these has succeeded."""
        self.until(lambda: all(self.customers.states().get(name) in ENDED for name in names), f"{names} have ended")
        states = self.customers.states()
        if wrong := {name: states[name] for name in names if states[name] != "SUCCEEDED"}:
            raise RuntimeError(f"not all succeeded: {wrong}")

    def attempts(self, name: str) -> list[dict[str, Any]]:
        """Every run of the job, the first one first."""
        with self.up.client("admin") as client:
            return list(client.get(f"/jobs/{self.customers.ids[name]}/attempts/").json()["results"])


def at(text: str) -> float:
    """The instant in seconds."""
    return datetime.fromisoformat(text).timestamp()


def held_s(bench: Bench, name: str) -> float:
    """How long the job held GPUs, over all its attempts."""
    return sum(at(run["ended_at"]) - at(run["granted_at"]) for run in bench.attempts(name))


def preemption(bench: Bench, rounds: int) -> None:
    """A Critical job on a full pool, against how long its victim takes to save; and what that costs the victim."""
    name = bench.work()
    bench.ended([name])
    undisturbed = held_s(bench, name)
    print(f"undisturbed, the victim's work holds its GPUs for {undisturbed:.1f} s")
    evictions, gates = 0, 0
    for save_s in (0.0, 2.0, 8.0):
        waits, costs = [], []
        for _ in range(rounds):
            full = [bench.work(save_s=save_s) for _ in NODES]
            bench.at_work(full)
            gate = bench.gate()
            bench.ended([*full, gate])
            first = bench.attempts(gate)[0]
            waits.append(at(first["started_at"]) - at(bench.customers.job(gate)["submitted_at"]))
            victims = [name for name in full if len(bench.attempts(name)) > 1]
            costs += [held_s(bench, name) - undisturbed for name in victims]
            evictions, gates = evictions + len(victims), gates + 1
        print(f"  save {save_s:.0f} s: Critical runs after {spread(waits)}, less that {spread(waits, save_s)}")
        print(f"    the victim holds its GPUs {spread(costs)} longer, less that {spread(costs, save_s)}")
    print(f"  {gates} Critical jobs, {evictions} evictions, {evictions - gates} useless")


def dead_node(bench: Bench, rounds: int) -> None:
    """From a node's death to its job running on another one."""
    waits = []
    for _ in range(rounds):
        name = bench.work()
        bench.at_work([name])
        where = bench.attempts(name)[0]["gpus"][0]["node"]
        died = time.time()
        bench.up.nodes[where].die(3600.0)
        bench.ended([name])
        again = bench.attempts(name)[-1]
        if again["gpus"][0]["node"] == where or len(bench.attempts(name)) != 2:
            raise RuntimeError(f"{name} did not run again elsewhere: {bench.attempts(name)}")
        waits.append(at(again["started_at"]) - died)
        bench.up.programs.awake()
        bench.until(lambda: bench.up.ready() == set(NODES), "all nodes are back")
    waits_for = f"lease {60 * bench.up.scale:g} s, pause {10 * bench.up.scale:g} s"
    print(f"node dead to its job running elsewhere: {spread(waits)} ({waits_for})")


def outage(bench: Bench, rounds: int) -> None:
    """From the start of web and scheduler after an outage to all nodes heard of, and to a new job running."""
    heard, running, lost = [], [], 0
    for _ in range(rounds):
        before = bench.work(gpus=1)
        bench.at_work([before])
        for program in ("web", "scheduler"):
            bench.up.programs.all[program].kill(3600.0)
        time.sleep(AWAY_S)
        begun = time.time()
        bench.up.programs.awake()
        new = bench.work(gpus=1)
        bench.until(lambda: bench.up.ready() == set(NODES), "all nodes are ready")
        heard.append(time.time() - begun)
        bench.ended([before, new])
        running.append(at(bench.attempts(new)[0]["started_at"]) - begun)
        lost += len(bench.attempts(before)) - 1
    print(f"web and scheduler away for {AWAY_S:.0f} s, from their start on: all nodes ready {spread(heard)}, a new job"
          f" running {spread(running)}; {lost} attempts were lost")  # fmt: skip


def spread(values: Sequence[float], less: float = 0.0) -> str:
    """Median and range."""
    found = sorted(value - less for value in values)
    if not found:
        return "(none)"
    return f"{statistics.median(found):.1f} s ({found[0]:.1f} to {found[-1]:.1f})"


@contextmanager
def running(scaled: float) -> Iterator[House]:
    """A house with all nodes ready; afterwards the checker has been silent, or RuntimeError says what it found."""
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="emep-recovery-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        database = stack.enter_context(closing(Database()))
        database.until_ready()
        house.prepare(database, home / "prepared", NODES)
        (home / "run").mkdir()
        up = House(home / "run", database, "emep_recovery", nodes=NODES, mounts=False, network=None, scale=scaled,
                   throttle_s=0.0, say=lambda what: None)  # fmt: skip
        stack.enter_context(closing(up))
        up.start(home / "prepared")
        yield up
        if found := up.findings(settled=True):
            raise RuntimeError("\n".join(found))


def scale(text: str) -> float:
    """Reads a number from 0.1 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"write a number from 0.1 to 1, not {text[:40]!r}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures; 0, or 1 with what went wrong."""
    parser = Parser("recovery", __doc__)
    parser.add_argument("--rounds", type=whole(1, 100), default=3, help="how often each is measured (default 3)")
    parser.add_argument("--scale", type=scale, default=1.0, help="of all waits of the house (default 1)")
    given = parser.parse_args(argv)
    with running(given.scale) as up:
        bench = Bench(up)
        preemption(bench, given.rounds)
        outage(bench, given.rounds)
        dead_node(bench, given.rounds)
    print("the checker is silent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
