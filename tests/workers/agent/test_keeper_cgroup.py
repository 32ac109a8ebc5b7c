"""The keeper with a control group for each job, on a double of the kernel's directories and real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.workers.agent import kernel
from tests.workers.agent.test_keeper import FOREVER, REF, ROOT, STUBBORN, Kept, alive, keeping
from tests.workers.agent.waiting import until
from workers.agent.cgroup import JobCgroup
from workers.agent.statedir import Ref, read_json, write_json

OTHER = Ref("a2", 1)
# A daemon that has shed its mark, its session and its parents. What the kernel does by itself, it does for the double:
# it stays in the group of its ancestors.
ESCAPED = (
    "import os, sys, time\n"
    "procs = sys.argv[1]\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        open(procs, 'a').write(f'\\n{os.getpid()}\\n')\n"
    "        open('daemon.tmp', 'w').write(str(os.getpid())); os.rename('daemon.tmp', 'daemon')\n"
    "        os.execve('/bin/sleep', ['sleep', '1000'], {})\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "while not os.path.exists('daemon'): time.sleep(0.01)\n"
)


class OnDouble(Kept):
    """A keeper whose groups are the double's."""

    def __init__(self, root: Path, parent: Path) -> None:
        self.parent = parent
        super().__init__(root)

    def spawn(self) -> subprocess.Popen[bytes]:
        module = "tests.workers.agent.kernel"
        keeper = subprocess.Popen([sys.executable, "-m", module, str(self.state.root), str(self.parent)], cwd=ROOT)
        until(lambda: (read_json(self.state.keeper_file) or {}).get("pid") == keeper.pid, "the keeper")
        return keeper

    def group(self, ref: Ref = REF) -> JobCgroup:
        known = self.state.root.stat()
        return JobCgroup(ref.name, self.parent / f"emep.{known.st_dev:x}-{known.st_ino:x}.{ref.name}")

    def limit(self, ref: Ref, memory_bytes: int) -> None:
        path = self.state.of(ref) / "exec.json"
        write_json(path, {**(read_json(path) or {}), "memory_bytes": memory_bytes})


@contextmanager
def on_double(tmp_path: Path) -> Iterator[OnDouble]:
    parent = tmp_path / "cgroup"
    kernel.make(parent)
    with kernel.alive(parent):
        kept = OnDouble(tmp_path / "state", parent)
        kept.lease(60.0)
        try:
            yield kept
        finally:
            if kept.keeper.poll() is None:
                kept.keeper.kill()
            kept.keeper.wait()


def test_a_job_is_in_its_group_from_its_first_instruction_and_the_group_goes_with_it(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        pid = kept.run("import time; print('up', flush=True)\n" + FOREVER)
        kept.says("up")
        assert kept.group().pids() == {pid}
        kept.processes.kill(REF)
        end = kept.end()
        until(lambda: not kept.group().path.exists(), "the group's end")
        assert (end.signal, end.clean) == (9, True)


def test_a_daemon_without_any_mark_of_its_job_dies_with_it(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.run("import time\n" + FOREVER, ref=OTHER)  # with another job here nobody is the job's by elimination
        kept.lay(REF, [sys.executable, "-c", ESCAPED, str(kept.group().procs)])
        kept.processes.start(REF)
        end = kept.end()
        assert (end.exit_code, end.clean, alive(kept.daemon())) == (0, True, False)


def test_what_stays_in_the_group_is_told_as_a_survivor_in_time(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.run("import time; print('up', flush=True)\n" + FOREVER)
        kept.says("up")
        kept.group().procs.write_text("0\n")
        kept.processes.kill(REF)
        end = kept.end()
        assert (end.signal, end.clean, end.survivors) == (9, False, (0,))


def test_only_the_leader_gets_the_stop_signal_in_a_group_too(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kept.processes.term(REF)
        until(lambda: "sigterm" in kept.log(), "the signal")
        assert (alive(pid), (kept.group().path / "cgroup.kill").read_text()) == (True, "")


def test_a_job_that_the_kernel_ended_for_its_memory_is_told_with_its_limit(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.lay(REF, [sys.executable, "-c", "import time; print('up', flush=True)\n" + FOREVER])
        kept.limit(REF, 128 * 2**20)
        kept.processes.start(REF)
        kept.says("up")
        assert (kept.group().path / "memory.max").read_text() == "134217728"
        (kept.group().path / "memory.events").write_text("oom_kill 3\n")
        kept.processes.kill(REF)
        assert kept.end().memory_limit == 134217728


def test_a_limit_that_cannot_be_enforced_keeps_the_job_from_starting_and_is_the_nodes_affair(tmp_path: Path) -> None:
    with keeping(tmp_path, "--cgroup", "off") as kept:
        directory = kept.lay(REF, [sys.executable, "-c", "print('ran')"])
        write_json(directory / "exec.json", {**(read_json(directory / "exec.json") or {}), "memory_bytes": 2**30})
        kept.processes.start(REF)
        end = kept.end()
        assert (end.cause, end.error.split(":")[0]) == (
            "node", "the node's limit on a job's memory (job_memory_bytes) can't be enforced",
        )  # fmt: skip
        assert not (directory / "stdout").exists()


def test_a_group_that_cannot_be_made_costs_a_job_without_a_limit_nothing(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.group().path.write_text("in the way")
        kept.run("raise SystemExit(3)")
        assert (kept.end().exit_code, kept.end().clean) == (3, True)
        assert "no_cgroup" in kept.log()


def test_a_program_that_is_not_there_leaves_no_group(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.lay(REF, ["no-such-program"])
        kept.processes.start(REF)
        assert kept.end().cause == "exec"
        kept.run("pass", ref=OTHER)  # what was the other's has been tidied away with its end
        kept.end(OTHER)
        until(lambda: not kept.group().path.exists(), "the group's end")


def test_a_new_keeper_ends_what_is_in_the_groups_of_the_dead_one(tmp_path: Path) -> None:
    with on_double(tmp_path) as kept:
        kept.lay(REF, [sys.executable, "-c", ESCAPED + FOREVER, str(kept.group().procs)])
        kept.processes.start(REF)
        daemon = kept.daemon()
        until(lambda: kept.processes.born(REF), "the job on record")  # else the next keeper starts it again
        kept.keeper.kill()
        kept.keeper.wait()
        kept.keeper = kept.spawn()
        end = kept.end()
        until(lambda: not kept.group().path.exists(), "the group's end")
        assert (end.cause, end.clean, alive(daemon)) == ("keeper", True, False)


def test_a_given_directory_that_is_no_cgroup_keeps_the_keeper_from_starting(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workers", "keeper", "--state", str(tmp_path / "s"), "--cgroup", str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=30, text=True)
    assert said.returncode == 2
    assert said.stderr.startswith(f"--cgroup {tmp_path}: {tmp_path} is no cgroup version 2 directory")
