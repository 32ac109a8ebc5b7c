"""Where everything of a node lies on disk, and how it is written so that a crash can't tear it.

Standard library only: the keeper reads this file too. Layout::

    agent.lock  keeper.lock     held (flock) by the living agent and keeper; the second's mtime is the keeper's pulse
    agent.bell  keeper.bell     named pipes: one byte wakes the other side; a lost byte costs a poll period
    keeper.json  keeper.log     who the keeper is, and what it did
    keeper.ended                that the agent ended the one before it, and why
    lease.json                  until when jobs may run (boot-time clock), written by the agent
    spool/<n>.json              commands to the keeper, written by rename, removed when done
    cache/                      input files by sha256
    attempts/<attempt>-<epoch>/ launch.json meet.json job.json exec.json stop.json pid.json status.json
                                report.json tail.json upload.json stdout events.jsonl preempt
                                work/{input,output,checkpoint,scratch}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_REF = re.compile(r"([A-Za-z0-9_.-]{1,80})-(\d{1,18})")


def boottime() -> float:
    """Seconds on the clock that goes on through suspend and never jumps: all durations on a node use it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The kernel's name for this boot; boot-time clocks of different boots must not be compared."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One attempt as the node knows it: the same attempt with another epoch is another run."""

    attempt: str
    epoch: int

    @property
    def name(self) -> str:
        """Its directory's name."""
        return f"{self.attempt}-{self.epoch}"

    @staticmethod
    def parse(name: str) -> Ref | None:
        """The reference a directory is named for; None for a name that is none."""
        found = _REF.fullmatch(name)
        return Ref(found[1], int(found[2])) if found else None


def write_json(path: Path, value: Any) -> None:
    """``path`` holds ``value`` as JSON, wholly or not at all, and survives a power cut once this returns."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("w", encoding="utf-8") as out:
        json.dump(value, out)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in ``path``; None when there is none or it is not one (a torn or foreign file)."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class StateDir:
    """The paths of one state directory; it exists, private to its owner, once this object does."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.attempts = self.root / "attempts"
        self.spool = self.root / "spool"
        self.cache = self.root / "cache"
        for directory in (self.root, self.attempts, self.spool, self.cache):
            directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.lease = self.root / "lease.json"
        self.keeper_lock = self.root / "keeper.lock"
        self.keeper_file = self.root / "keeper.json"
        self.keeper_ended = self.root / "keeper.ended"
        self.keeper_bell = self.root / "keeper.bell"
        self.agent_bell = self.root / "agent.bell"

    def of(self, ref: Ref) -> Path:
        """The directory of one attempt."""
        return self.attempts / ref.name

    def refs(self) -> list[Ref]:
        """Every attempt that has a directory, in order of name; other entries are left alone."""
        found = (Ref.parse(entry.name) for entry in self.attempts.iterdir() if entry.is_dir())
        return sorted(ref for ref in found if ref is not None)


@contextlib.contextmanager
def lock(path: Path, *, wait_s: float = 0.0) -> Iterator[IO[bytes] | None]:
    """Hold the lock file ``path`` for the block; yields None when another process held it for ``wait_s``."""
    with path.open("ab") as handle:
        until = time.monotonic() + wait_s
        held = False
        while not held:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                if time.monotonic() >= until:
                    break
                time.sleep(0.02)
        yield handle if held else None


def open_bell(path: Path) -> int:
    """A descriptor that becomes readable when someone rings ``path``; the caller closes it."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def ring(path: Path) -> None:
    """Wake whoever waits at ``path``; nobody there, or enough rings already waiting, is no error."""
    with contextlib.suppress(OSError):
        bell = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(bell, b"!")
        finally:
            os.close(bell)
