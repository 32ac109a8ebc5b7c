"""``python -m workers keeper``: the keeper as a program, in the background if asked. Standard library only."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from workers.agent.cgroup import AUTO, CgroupError, open_cgroups
from workers.agent.keeper import Keeper
from workers.agent.statedir import StateDir, lock


def detach(errors: Path) -> None:
    """Leave the caller's session for good: two forks, so that init is the parent. Returns only in the grandchild."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir("/")


def main(argv: list[str]) -> int:
    """``python -m workers keeper``: 0 after a clean stop, 75 when another keeper has this state directory."""
    parser = argparse.ArgumentParser(prog="python -m workers keeper", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the node's state directory")
    parser.add_argument("--detach", action="store_true", help="run in the background, in a session of its own")
    parser.add_argument("--guard", type=int, help="end all jobs and stop when this process is gone")
    parser.add_argument("--cgroup", default=AUTO, help="where each job gets its cgroup: auto, off or a directory")
    options = parser.parse_args(argv)
    state = StateDir(options.state)
    try:
        cgroups = open_cgroups(options.cgroup, state.root)
    except CgroupError as problem:
        if options.cgroup != AUTO:
            sys.stderr.write(f"--cgroup {options.cgroup}: {problem}\n")
            return 2
        cgroups = None
    if options.detach:
        detach(state.root / "keeper.err")
    with lock(state.keeper_lock, wait_s=2.0) as held:
        if held is None:
            sys.stderr.write(f"another keeper runs on {state.root}; stop it first, or choose another --state\n")
            return 75
        try:
            keeper = Keeper(state, guard=options.guard, cgroups=cgroups)
        except ProcessLookupError:
            sys.stderr.write(f"--guard {options.guard}: there is no such process\n")
            return 2
        keeper.run()
    return 0
