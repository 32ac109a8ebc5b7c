"""The mixed load: merges, training with checkpoints, gangs over gloo, shells, one that fails, one that is cancelled,
and jobs that come after these and read what they left.

What each must leave is worked out here by other code than that of the jobs, except for merges, whose bytes are those
of an undisturbed one.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

TRAIN_STEPS, TRAIN_SIZE, RANK_STEPS, LINES = 60, 32, 50, 500
MERGED = "model.safetensors"
RETRIES = 10  # a job process that is killed counts as a failure of the job

TRAIN = f"""
import emep_job as job
job.attach()
import json, random, sys, time
dice, weights, start = random.Random(int(sys.argv[1])), [0.0] * {TRAIN_SIZE}, 0
if job.resuming():
    saved = json.loads((job.resume_dir() / "state.json").read_text())
    weights, start = saved["weights"], saved["step"]
    version, inner, gauss = saved["dice"]
    dice.setstate((version, tuple(inner), gauss))
for step in range(start, {TRAIN_STEPS}):
    weights = [w + 0.1 * (dice.gauss(0.0, 1.0) - w) for w in weights]
    job.progress(step + 1, {TRAIN_STEPS}, loss=sum(w * w for w in weights))
    time.sleep(float(sys.argv[2]))
    if job.should_stop() or step % 10 == 9:
        with job.checkpoint(step + 1) as directory:
            told = {{"weights": weights, "step": step + 1, "dice": dice.getstate()}}
            (directory / "state.json").write_text(json.dumps(told))
        if job.should_stop():
            job.exit_checkpointed()
(job.output_dir() / "result").write_text(json.dumps(weights))
job.artifact("result", "result")
job.done()
"""

RANKS = f"""
import emep_job as job
job.attach()
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, state, start = dist.get_rank(), torch.zeros(4, dtype=torch.float64), 0
if job.resuming():
    saved = torch.load(job.resume_dir() / "state.pt", weights_only=True)
    state, start = saved["state"], saved["step"]
for step in range(start, {RANK_STEPS}):
    given = torch.full((4,), (rank + 1.0) * (step + 1), dtype=torch.float64)
    dist.all_reduce(given)
    state = (state * 3 + given) % 1000003
    job.progress(step + 1, {RANK_STEPS})
    time.sleep(float(sys.argv[1]))
    if job.should_stop() or step % 10 == 9:
        if rank == 0:
            with job.checkpoint(step + 1) as directory:
                torch.save({{"state": state, "step": step + 1}}, directory / "state.pt")
        if job.should_stop():
            dist.destroy_process_group()
            job.exit_checkpointed()
if rank == 0:
    (job.output_dir() / "result").write_bytes(state.numpy().tobytes())
    job.artifact("result", "result")
dist.destroy_process_group()
job.done()
"""

SHELL = """
for part in 1 2 3; do "$0" -c "import time; time.sleep($1)" || exit 1; done
seq 1 "$2" > "$EMEP_OUTPUT_DIR/result"
"""

READER = """
import emep_job as job
job.attach()
import hashlib, sys, time
time.sleep(float(sys.argv[1]))
told = hashlib.sha256((job.input_dir() / "one" / "result").read_bytes()).hexdigest()
(job.output_dir() / "result").write_text(told)
job.artifact("result", "result")
job.done()
"""


@dataclass(frozen=True)
class Order:
    """One job to submit: who does, how it must end, and what it must leave.

    ``leaves`` is a sha256, or the name of the merge whose bytes it must have; "" for nothing. ``after_s`` into the
    faults it is submitted; below 0 it is there before them. It is cancelled at ``cancel_s``.
    """

    name: str
    body: dict[str, Any]
    user: str = "alice"
    ends: str = "SUCCEEDED"
    leaves: str = ""
    file: str = "result"
    after_s: float = -1.0
    cancel_s: float | None = None
    after: str = ""
    reads: bool = False

    def body_after(self, job: str) -> dict[str, Any]:
        """What is asked for, once the job that it waits for has this id."""
        if not self.after:
            return self.body
        inputs = {"inputs": {"one": f"@{job}"}} if self.reads else {}
        return {**self.body, "after": [job], "params": {**self.body["params"], **inputs}}


@dataclass(frozen=True)
class Pace:
    """How long jobs take, in seconds: a step of training, a step of a gang, one of three parts of a shell."""

    train_s: float = 0.25
    ranks_s: float = 0.2
    shell_s: float = 3.0


@dataclass
class Load:
    """All orders of a run, in the order of their submission."""

    models: list[str]
    pace: Pace = field(default_factory=Pace)
    orders: list[Order] = field(default_factory=list)

    def merges(self) -> set[str]:
        """The names of the merges whose bytes must be known."""
        return {order.leaves for order in self.orders if order.file == MERGED}

    def merge(self, name: str, *, t: float, **more: Any) -> None:
        """A merge on the two GPUs of one NVLink group."""
        body = {"kind": "merge", "gpu_count": 2, "nvlink_required": True, "priority": "Low",
                "params": {"strategy": "slerp", "t": t, "models": self.models}}  # fmt: skip
        self._add(name, body, leaves=f"merge {t}", file=MERGED, **more)

    def train(self, name: str, seed: int, **more: Any) -> None:
        """A training loop on one GPU that saves every ten steps."""
        argv = [sys.executable, "-c", TRAIN, str(seed), str(self.pace.train_s)]
        body = {"kind": "command", "gpu_count": 1, "params": {"argv": argv}}
        self._add(name, body, leaves=_sha256(json.dumps(trained(seed)).encode()), **more)

    def gang(self, name: str, nodes: int, **more: Any) -> None:
        """A program on so many nodes, whose ranks reduce over gloo."""
        argv = [sys.executable, "-c", RANKS, str(self.pace.ranks_s)]
        body = {"kind": "command", "node_count": nodes, "gpus_per_node": 1, "params": {"argv": argv}}
        self._add(name, body, leaves=_sha256(reduced(nodes)), **more)

    def shell(self, name: str, **more: Any) -> None:
        """A shell with children, which knows nothing of checkpoints."""
        argv = ["sh", "-c", SHELL, sys.executable, str(self.pace.shell_s), str(LINES)]
        body = {"kind": "command", "gpu_count": 1, "params": {"argv": argv}}
        self._add(name, body, leaves=_sha256("".join(f"{n}\n" for n in range(1, LINES + 1)).encode()), **more)

    def failing(self, name: str, **more: Any) -> None:
        """A program that ends with 3, and is tried once more."""
        argv = [sys.executable, "-c", "import sys, time; time.sleep(2); sys.exit(3)"]
        body = {"kind": "command", "gpu_count": 1, "retries": 1, "params": {"argv": argv}}
        self._add(name, body, ends="FAILED", **more)

    def cancelled(self, name: str, cancel_s: float, **more: Any) -> None:
        """A program that would sleep for long, and is cancelled in the middle of the faults."""
        argv = [sys.executable, "-c", "import time; time.sleep(900)"]
        body = {"kind": "command", "gpu_count": 1, "params": {"argv": argv}}
        self._add(name, body, ends="CANCELLED", cancel_s=cancel_s, **more)

    def gate(self, name: str, *, t: float, **more: Any) -> None:
        """A Critical merge, for which another job has to leave on a full pool."""
        body = {"kind": "merge", "gpu_count": 2, "nvlink_required": True, "priority": "Critical",
                "purpose": "regression_gate",
                "params": {"strategy": "slerp", "t": t, "models": self.models}}  # fmt: skip
        self._add(name, body, leaves=f"merge {t}", file=MERGED, user="admin", **more)

    def reader(self, name: str, of: str, **more: Any) -> None:
        """A program that comes after a job of known bytes, and leaves the sha256 of what that left."""
        known = next(order.leaves for order in self.orders if order.name == of)
        argv = [sys.executable, "-c", READER, str(self.pace.train_s)]
        body = {"kind": "command", "gpu_count": 1, "params": {"argv": argv}}
        self._add(name, body, leaves=_sha256(known.encode()), after=of, reads=True, **more)

    def follower(self, name: str, of: str, *, despite: bool, **more: Any) -> None:
        """A program that comes after a job that will be cancelled: ``despite`` that it runs, else it never does."""
        argv = [sys.executable, "-c", "import time; time.sleep(1)"]
        body = {"kind": "command", "gpu_count": 1, "after_any": despite, "params": {"argv": argv}}
        self._add(name, body, ends="SUCCEEDED" if despite else "CANCELLED", after=of, **more)

    def _add(self, name: str, body: dict[str, Any], **more: Any) -> None:
        every = {"name": name, "project": "alpha", "max_duration": "30m", "retries": RETRIES}
        self.orders.append(Order(name, every | body, **more))


def trained(seed: int) -> list[float]:
    """The weights after every step was taken once."""
    dice, weights = random.Random(seed), [0.0] * TRAIN_SIZE
    for _ in range(TRAIN_STEPS):
        weights = [weight + 0.1 * (dice.gauss(0.0, 1.0) - weight) for weight in weights]
    return weights


def reduced(nodes: int) -> bytes:
    """The state when so many ranks took every step once: whole numbers, so any machine has the same bytes."""
    state, ranks = 0, sum(range(1, nodes + 1))
    for step in range(RANK_STEPS):
        state = (state * 3 + ranks * (step + 1)) % 1000003
    return struct.pack("<4d", *[float(state)] * 4)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def full(models: list[str], seed: int) -> Load:
    """What eight nodes of two GPUs have to do: more than fits at once, some of it while the faults happen."""
    dice, load = random.Random(seed), Load(models)
    for number in range(4):
        load.merge(f"merge-{number}", t=0.5, after_s=-1.0 if number < 2 else dice.uniform(10, 55))
    for number in range(5):
        load.train(f"train-{number}", dice.randrange(10**6), after_s=-1.0 if number < 3 else dice.uniform(5, 60))
    load.gang("gang-a", 2)
    load.gang("gang-b", 2, after_s=dice.uniform(15, 35))
    for number in range(5):
        load.shell(f"shell-{number}", after_s=-1.0 if number < 3 else dice.uniform(5, 60))
    load.failing("failing", after_s=dice.uniform(1, 30))
    load.cancelled("cancelled", dice.uniform(20, 50))
    load.gate("gate", t=0.25, after_s=dice.uniform(8, 30))
    load.reader("reader-a", "train-0")
    load.reader("reader-b", "reader-a")
    load.reader("reader-c", "gang-a")
    load.follower("despite", "cancelled", despite=True)
    load.follower("never", "cancelled", despite=False)
    return load


def short(models: list[str], seed: int) -> Load:
    """One of each, for a run beside other tests."""
    load = Load(models, Pace(train_s=0.15, ranks_s=0.15, shell_s=2.0))
    load.merge("merge", t=0.5)
    load.train("train", seed)
    load.gang("gang", 2)
    load.shell("shell", after_s=2.0)
    load.failing("failing")
    load.cancelled("cancelled", 6.0)
    load.reader("reader", "train")
    load.follower("despite", "cancelled", despite=True)
    load.follower("never", "cancelled", despite=False)
    return load
