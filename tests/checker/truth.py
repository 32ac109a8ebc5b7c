"""What a job's process says about itself: JSON lines of its own, in a directory that only tests name.

Standard library only, so that any job may use it. Nothing of the product is asked: who runs is known from the
contract's environment, when from the boot-time clock, and that nobody else holds the GPU from a lock which the kernel
gives back when the process and all its forks are gone, whatever killed them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DIRECTORY = "EMEP_TRUTH_DIR"
BELL = "bell"


class Truth:
    """One process's own log: :meth:`start` first, :meth:`end` last; a killed process leaves no end."""

    def __init__(self, directory: Path, *, job: str, epoch: int, gpus: tuple[str, ...] = ()) -> None:
        self._directory, self._who = directory, {"job": job, "epoch": epoch, "pid": os.getpid()}
        self._gpus = gpus
        path = directory / f"{job}-{epoch}-{os.getpid()}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._locks: list[int] = []

    @staticmethod
    def of(environ: Mapping[str, str]) -> Truth | None:
        """The log of the job process with this environment; None where no test asked for one."""
        if DIRECTORY not in environ or "EMEP_JOB_ID" not in environ:
            return None
        gpus = tuple(g for g in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if g)
        return Truth(Path(environ[DIRECTORY]), job=environ["EMEP_JOB_ID"], epoch=int(environ["EMEP_EPOCH"]), gpus=gpus)

    def start(self) -> None:
        """The process runs and holds its GPUs; whoever else holds one of them, or this job, is on record too."""
        self._write("start", gpus=list(self._gpus))
        for what in (*(f"gpu:{g}" for g in self._gpus), f"job:{self._who['job']}"):
            self._hold(what)
        ring(self._directory)

    def step(self, number: int) -> None:
        """Work number ``number`` is done."""
        self._write("step", step=number)

    def saved(self, number: int) -> None:
        """A checkpoint of that step lies whole where the contract wants it."""
        self._write("saved", step=number)

    def resumed(self, number: int | None = None) -> None:
        """The process goes on from a checkpoint, of that step where it knows it."""
        self._write("resumed", **({} if number is None else {"step": number}))

    def end(self) -> None:
        """The process ends by itself now."""
        self._write("end")

    def _hold(self, what: str) -> None:
        """Lock ``what`` until the last process that shares the lock is gone; say who has it otherwise."""
        lock = os.open(self._directory / f"{what.replace('/', '_')}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with contextlib.suppress(ValueError):
                self._write("collision", on=what, holder=json.loads(os.pread(lock, 4096, 0)))
            os.close(lock)
            return
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(self._who).encode(), 0)
        self._locks.append(lock)

    def _write(self, event: str, **fields: Any) -> None:
        write(self._fd, event, **self._who, **fields)


class Spoken:
    """What an agent says of its own calls: when it spoke to the server, whether of its GPUs, and what came back."""

    def __init__(self, directory: Path, node: str) -> None:
        self._node = node
        path = directory / f"node-{node}-{os.getpid()}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def around(
        self, call: Callable[..., Any], failed: type[Exception], refused: Callable[[Any], bool]
    ) -> Callable[..., Any]:
        """The call, told of before and after; a failure is a refusal (somebody said no) or silence."""

        def told(client: Any, body: Mapping[str, Any], **named: Any) -> Any:
            sent = time.clock_gettime(time.CLOCK_BOOTTIME)
            write(self._fd, "sent", node=self._node, checked=body.get("gpus") is not None and "protocol" not in body)
            try:
                reply = call(client, body, **named)
            except failed as problem:
                write(self._fd, "failed", node=self._node, sent=round(sent, 4), refused=refused(problem))
                raise
            write(self._fd, "answered", node=self._node, sent=round(sent, 4))
            return reply

        return told


def write(descriptor: int, event: str, **fields: Any) -> None:
    """One line by one write: whole or not there, whoever else appends to the file."""
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = json.dumps({"event": event, "at": round(at, 4), "wall": round(time.time(), 4), **fields})
    os.write(descriptor, line.encode() + b"\n")


def ring(directory: Path) -> None:
    """Whoever witnesses this directory looks again; nobody there is no error."""
    with contextlib.suppress(OSError):
        bell = os.open(directory / BELL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(bell, b"!")
        os.close(bell)


def acknowledged(directory: Path, job: str, *, user: str = "", key: str = "") -> None:
    """A client was told with 2xx that its submission is this job."""
    path = directory / f"client-{os.getpid()}.jsonl"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    write(descriptor, "acknowledged", job=job, epoch=0, pid=os.getpid(), user=user, key=key)
    os.close(descriptor)
