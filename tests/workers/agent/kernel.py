"""A double of the kernel's side of control groups: plain directories, and a thread that does what the kernel would."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.agent import proctable
from workers.agent.cgroup import Cgroups
from workers.agent.keeper import Keeper
from workers.agent.statedir import StateDir

# A file that the kernel would overwrite is empty here: one write into a plain one leaves what it does not cover.
FILES = {
    "cgroup.procs": "", "cgroup.kill": "", "cgroup.controllers": "memory", "cgroup.subtree_control": "",
    "memory.max": "", "memory.swap.max": "", "memory.oom.group": "",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
}  # fmt: skip
# A process of another pid namespace; the double keeps it whatever is done.
STAYS = "0"


def make(path: Path) -> None:
    """A new group with the kernel's files."""
    path.mkdir()
    for name, text in FILES.items():
        (path / name).write_text(text)


def remove(path: Path) -> None:
    """The group is gone if nothing is in it; what a shell wrote of itself ("0") has ended with it."""
    if (path / "cgroup.procs").read_text().strip() not in ("", STAYS) or any(p.is_dir() for p in path.iterdir()):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    shutil.rmtree(path)


def groups(tmp_path: Path) -> Cgroups:
    """Groups below a directory of the double, for a state directory beside it."""
    parent, state = tmp_path / "cgroup", tmp_path / "state"
    make(parent)
    state.mkdir(exist_ok=True)
    return Cgroups(parent, state, make=make, remove=remove)


def _act(group: Path) -> None:
    """The dead leave the list, and a kill reaches everybody on it."""
    procs = group / "cgroup.procs"
    pids = procs.read_text().split()
    if (group / "cgroup.kill").read_text() == "1":
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL) if pid != STAYS else None
    left = [pid for pid in pids if pid == STAYS or proctable.read_proc(int(pid)) is not None]
    if left != pids:
        procs.write_text("".join(f"{pid}\n" for pid in left))


@contextmanager
def alive(parent: Path) -> Iterator[None]:
    """The double is at work on the groups below ``parent``."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.01):
            for group in list(parent.glob("emep.*")):
                with suppress(OSError):
                    _act(group)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":  # a keeper on the double: STATE PARENT
    state = StateDir(Path(sys.argv[1]))
    Keeper(state, cgroups=Cgroups(Path(sys.argv[2]), state.root, make=make, remove=remove)).run()
