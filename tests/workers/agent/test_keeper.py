"""The keeper with real child processes: it alone is under test, the test plays the agent. Fence after 0.4 s."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.waiting import forget_groups, until
from workers.agent import proctable
from workers.agent.keeper import Child, Keeper
from workers.agent.messages import StopAsked
from workers.agent.processes import Processes
from workers.agent.spawn import ExecSpec
from workers.agent.statedir import Ref, StateDir, boot_id, boottime, read_json, write_json

ROOT = Path(__file__).resolve().parents[3]
REF = Ref("a1", 1)
KILL_S = 0.3
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
FOREVER = "while True: time.sleep(0.02)\n"
# A daemon in the old manner: two forks and a session of its own; its pid is left in the file 'daemon'.
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        open('daemon.tmp', 'w').write(str(os.getpid())); os.rename('daemon.tmp', 'daemon')\n"
    "        time.sleep(1000)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "while not os.path.exists('daemon'): time.sleep(0.01)\n"
)


class Kept:
    """A keeper process on its own state directory, and the test in its agent's place."""

    def __init__(self, root: Path, *more: str) -> None:
        self.state = StateDir(root)
        self.processes = Processes(self.state)
        self.more = more
        self.keeper = self.spawn()

    def spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "workers", "keeper", "--state", str(self.state.root), *self.more]
        keeper = subprocess.Popen(command, cwd=ROOT)
        until(lambda: (read_json(self.state.keeper_file) or {}).get("pid") == keeper.pid, "the keeper")
        return keeper

    def lease(self, seconds: float) -> None:
        write_json(
            self.state.lease, {"deadline": boottime() + seconds, "kill_s": KILL_S, "boot_id": boot_id()}
        )  # fmt: skip

    def run(self, code: str, ref: Ref = REF, **env: str) -> int:
        """Start ``python -c code``; its pid."""
        self.lay(ref, [sys.executable, "-c", code], **env)
        self.processes.start(ref)
        return until(lambda: self.processes.born(ref), "the job's birth")[0]

    def lay(self, ref: Ref, argv: list[str], **env: str) -> Path:
        directory = self.state.of(ref)
        directory.mkdir()
        full = {"PATH": os.defpath, "EMEP_EVENTS": str(directory / "events.jsonl"), **env}
        write_json(directory / "exec.json", asdict(ExecSpec(argv, full, str(directory))))
        return directory

    def end(self, ref: Ref = REF) -> Any:
        return until(lambda: self.processes.ended(ref), "the status")

    def says(self, word: str, ref: Ref = REF) -> None:
        output = self.state.of(ref) / "stdout"
        until(lambda: output.exists() and word in output.read_text(), f"the job to say {word!r}")

    def daemon(self, ref: Ref = REF) -> int:
        path = self.state.of(ref) / "daemon"
        until(path.exists, "the daemon")
        return int(path.read_text())

    def log(self) -> str:
        return (self.state.root / "keeper.log").read_text()


@contextmanager
def keeping(tmp_path: Path, *more: str, lease: float = 60.0) -> Iterator[Kept]:
    kept = Kept(tmp_path / "state", *more)
    kept.lease(lease)
    try:
        yield kept
    finally:
        if kept.keeper.poll() is None:
            kept.keeper.kill()
        kept.keeper.wait()
        forget_groups(kept.state)


def alive(pid: int) -> bool:
    return proctable.read_proc(pid) is not None


def test_exit_code_and_output_are_kept(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        assert kept.end().exit_code == 3
        assert sorted((kept.state.of(REF) / "stdout").read_text().split()) == ["err", "out"]


def test_death_by_signal_is_told_from_an_exit(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.run("import os; os.kill(os.getpid(), 11)")
        assert (kept.end().exit_code, kept.end().signal) == (None, 11)


def test_the_job_leads_a_session_of_its_own_and_dies_with_the_keeper(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        proc = proctable.read_proc(pid)
        assert proc is not None
        assert (proc.session, proc.pgrp, proc.ppid) == (pid, pid, kept.keeper.pid)
        kept.keeper.kill()
        until(lambda: not alive(pid), "the job's death")


def test_a_program_that_cannot_run_is_a_status_and_no_job(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.lay(REF, ["no-such-program"])
        kept.processes.start(REF)
        end = kept.end()
        assert (end.cause, end.exit_code) == ("exec", 127)
        assert end.error == "cannot run 'no-such-program': there is no such program in PATH; give its full path"


def test_a_working_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        directory = kept.lay(REF, ["true"])
        spec = read_json(directory / "exec.json") or {}
        write_json(directory / "exec.json", {**spec, "cwd": "/no/such/place"})
        kept.processes.start(REF)
        assert "/no/such/place" in kept.end().error


def test_the_leader_is_asked_by_the_signal_the_job_wants(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        directory = kept.lay(REF, [sys.executable, "-c", STUBBORN + FOREVER])
        spec = read_json(directory / "exec.json") or {}
        write_json(directory / "exec.json", {**spec, "stop_signal": "SIGUSR1"})
        kept.processes.start(REF)
        kept.says("up")
        kept.processes.term(REF)
        assert kept.end().signal == signal.SIGUSR1


def test_a_job_that_ignores_sigterm_is_killed_on_demand(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kept.processes.term(REF)
        until(lambda: "sigterm" in kept.log(), "the signal")
        assert alive(pid)
        kept.processes.kill(REF)
        assert (kept.end().cause, kept.end().signal) == ("kill", 9)


def asked_to_stop(kept: Kept, *, within_s: float | None) -> float:
    """The agent has put the stop on record and sent the signal, and does nothing more; when its time is over."""
    now = boottime()
    kill_at = None if within_s is None else now + within_s
    write_json(kept.state.of(REF) / "stop.json", asdict(StopAsked("preempt", now, kill_at)))
    (kept.state.of(REF) / "preempt").write_text("{}")
    kept.processes.term(REF)
    until(lambda: "sigterm" in kept.log(), "the signal")
    return now if kill_at is None else kill_at


def test_a_job_that_does_not_stop_in_its_time_is_killed_though_its_agent_is_gone(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kill_at = asked_to_stop(kept, within_s=0.4)
        end = kept.end()
        assert (end.cause, end.signal) == ("kill", 9)
        assert end.at >= kill_at


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_stop_that_was_taken_back_or_has_no_end_kills_nobody(tmp_path: Path, taken_back: bool) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kill_at = asked_to_stop(kept, within_s=0.5 if taken_back else None)
        if taken_back:
            (kept.state.of(REF) / "preempt").unlink()
        until(lambda: boottime() > kill_at, "the end of its time")
        kept.run("pass", ref=Ref("a2", 1))  # the keeper has gone round since
        assert alive(pid)
        assert kept.processes.ended(REF) is None


def test_only_the_leader_gets_sigterm_and_only_once(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "child = os.fork()\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('term', child and 'leader' or 'child', flush=True))\n"
        "print('up', flush=True)\n"
    )
    with keeping(tmp_path) as kept:
        kept.run(code + FOREVER)
        until(lambda: (kept.state.of(REF) / "stdout").read_text().count("up") == 2, "both processes")
        kept.processes.term(REF)
        kept.processes.term(REF)
        kept.says("term leader")
        until(lambda: not list(kept.state.spool.glob("*.json")), "both commands to be obeyed")
        kept.processes.kill(REF)
        kept.end()
        assert (kept.state.of(REF) / "stdout").read_text().count("term") == 1


def test_a_daemon_with_its_own_session_dies_with_its_job(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.run(DAEMON)
        end = kept.end()
        assert (end.exit_code, end.clean, alive(kept.daemon())) == (0, True, False)


def test_the_end_of_one_job_leaves_the_daemon_of_another_alone(tmp_path: Path) -> None:
    other = Ref("a2", 1)
    with keeping(tmp_path) as kept:
        kept.run(DAEMON + FOREVER, ref=other)
        daemon = kept.daemon(other)
        kept.run("pass")
        kept.end()
        assert alive(daemon)
        kept.processes.kill(other)
        kept.end(other)
        assert not alive(daemon)


def test_the_lease_of_a_hung_agent_runs_out_and_the_keeper_fences_by_itself(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kept.lease(0.2)
        deadline = float(read_json(kept.state.lease)["deadline"])  # type: ignore[index]
        end = kept.end()
        assert (end.cause, end.signal, alive(pid)) == ("fence", 9, False)
        assert end.at >= deadline + KILL_S


def test_a_renewed_lease_keeps_the_job(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.lease(0.5)
        old = boottime() + 0.6
        kept.lease(60.0)
        until(lambda: boottime() > old, "the old deadline")
        kept.run("pass", ref=Ref("a2", 1))  # the keeper has gone round since
        assert alive(pid)


def test_nothing_starts_without_a_lease(tmp_path: Path) -> None:
    with keeping(tmp_path, lease=-1.0) as kept:
        kept.lay(REF, ["true"])
        kept.processes.start(REF)
        assert "lease" in kept.end().error


def test_a_lease_of_another_boot_is_none(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        write_json(kept.state.lease, {"deadline": boottime() + 60, "kill_s": KILL_S, "boot_id": "another"})
        kept.lay(REF, ["true"])
        kept.processes.start(REF)
        assert kept.end().cause == "fence"


def test_a_doubled_start_runs_once(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.lay(REF, [sys.executable, "-c", "print('ran')"])
        kept.processes.start(REF)
        kept.processes.start(REF)
        kept.end()
        kept.processes.start(REF)
        until(lambda: kept.log().count("start_again_ignored") == 2, "both doubles")
        assert (kept.state.of(REF) / "stdout").read_text() == "ran\n"


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"op": "start", "job": "../../etc"}', b'{"op": "fly"}'])
def test_a_torn_or_foreign_command_is_dropped(tmp_path: Path, torn: bytes) -> None:
    with keeping(tmp_path) as kept:
        (kept.state.spool / "0000.json").write_bytes(torn)
        kept.run("pass")
        assert kept.end().exit_code == 0
        assert "bad_command" in kept.log()


def test_a_new_keeper_sweeps_what_the_dead_one_left_and_marks_it_lost(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(DAEMON + FOREVER)
        daemon = kept.daemon()
        kept.keeper.kill()
        kept.keeper.wait()
        until(lambda: not alive(pid), "the leader's death")
        kept.keeper = kept.spawn()
        end = kept.end()
        assert (end.cause, end.clean, alive(daemon)) == ("keeper", True, False)


def test_sigterm_stops_the_keeper_only_after_its_jobs(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        kept.keeper.terminate()
        kept.lay(Ref("a2", 1), ["true"])
        kept.processes.start(Ref("a2", 1))
        assert "stopping" in kept.end(Ref("a2", 1)).error
        assert alive(pid)
        kept.processes.kill(REF)
        assert kept.keeper.wait(30) == 0


def test_two_keepers_cannot_share_a_state_directory(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        command = [sys.executable, "-m", "workers", "keeper", "--state", str(kept.state.root)]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=30)
        assert second.returncode == 75
        assert b"another keeper" in second.stderr


def test_the_end_of_its_guard_ends_the_jobs_and_the_keeper(tmp_path: Path) -> None:
    guard = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with keeping(tmp_path, "--guard", str(guard.pid)) as kept:
        pid = kept.run("import time\n" + FOREVER)
        guard.kill()
        guard.wait()
        assert kept.keeper.wait(30) == 0
        assert not alive(pid)


def test_the_exit_status_waits_for_an_agent_that_comes_later(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        kept.run("raise SystemExit(5)")
        kept.end()
        assert Processes(kept.state).ended(REF).exit_code == 5  # type: ignore[union-attr]


def test_the_keeper_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, workers.agent.keeper_program as k; "
        "print([m for m in ('httpx', 'yaml', 'kombu', 'pynvml', 'psutil', 'structlog') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    assert said.stdout == "[]\n"


def test_a_full_disk_delays_a_status_and_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    state = StateDir(tmp_path / "state")
    directory = state.of(REF)
    directory.mkdir()
    keeper = Keeper(state)
    child = keeper.children[REF.name] = Child(REF.name, directory, 0, b"", wait_status=3 << 8)
    monkeypatch.setattr(keeper, "_members", lambda _: set())
    with monkeypatch.context() as disk:
        disk.setattr("workers.agent.keeper.write_json", full)
        keeper.finish(child)
    assert keeper.children
    keeper.finish(child)
    assert (read_json(directory / "status.json") or {})["exit_code"] == 3


def test_sigstop_does_not_save_a_job_from_the_fence(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        pid = kept.run(STUBBORN + FOREVER)
        os.kill(pid, signal.SIGSTOP)
        kept.lease(0.2)
        assert kept.end().cause == "fence"
        assert not alive(pid)
