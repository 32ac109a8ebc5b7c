"""A job whose program can't be begun yet holds up nothing, is started once, and is there for whoever starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.workers.agent.test_keeper import FOREVER, REF, STUBBORN, Kept, alive, keeping
from tests.workers.agent.waiting import until
from workers.agent.keeper import Keeper
from workers.agent.statedir import Ref, StateDir, boot_id, boottime, read_json, write_json

SLOW = Ref("slow", 1)


def begun_on_a_disk_that_waits(kept: Kept, *argv: str) -> Path:
    """The job ``SLOW`` is told to start and can't open its output: a named pipe that nobody reads."""
    directory = kept.lay(SLOW, list(argv or ["true"]))
    os.mkfifo(directory / "stdout")
    kept.processes.start(SLOW)
    return directory


def read_on(directory: Path) -> int:
    return os.open(directory / "stdout", os.O_RDONLY | os.O_NONBLOCK)


def test_a_job_that_hangs_before_its_program_holds_up_no_other_and_no_fence(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        directory = begun_on_a_disk_that_waits(kept)
        pid = kept.run(STUBBORN + FOREVER)
        kept.says("up")
        kept.lease(0.1)
        assert kept.end().cause == "fence"
        assert not alive(pid)
        assert kept.end(SLOW).cause == "fence"
        assert not (directory / "pid.json").exists() or read_json(directory / "status.json")


def test_it_runs_and_is_on_record_once_it_can(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        directory = begun_on_a_disk_that_waits(kept, sys.executable, "-c", "raise SystemExit(7)")
        kept.run("pass")
        assert (kept.processes.born(SLOW), len(list(kept.state.spool.glob("*.json")))) == (None, 1)
        output = read_on(directory)
        assert kept.end(SLOW).exit_code == 7
        assert kept.processes.born(SLOW) is not None
        os.close(output)
        until(lambda: not list(kept.state.spool.glob("*.json")), "the order's end")


def test_a_kill_reaches_it_before_its_program(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        begun_on_a_disk_that_waits(kept)
        kept.processes.kill(SLOW)
        assert (kept.end(SLOW).cause, kept.end(SLOW).signal) == ("kill", 9)


def test_the_next_keeper_starts_it_when_its_own_died(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        directory = begun_on_a_disk_that_waits(kept, "echo", "once")
        kept.run("pass")
        kept.keeper.kill()
        kept.keeper.wait()
        (directory / "stdout").rename(directory / "was")
        kept.keeper = kept.spawn()
        assert kept.end(SLOW).exit_code == 0
        assert (directory / "stdout").read_text() == "once\n"


def test_a_job_that_can_not_start_on_a_full_disk_is_told_of_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    state = StateDir(tmp_path / "state")
    state.of(REF).mkdir()
    write_json(state.lease, {"deadline": boottime() + 60, "kill_s": 1, "boot_id": boot_id()})
    write_json(state.spool / "1.json", {"op": "start", "job": REF.name})
    keeper = Keeper(state)
    with monkeypatch.context() as disk:
        disk.setattr("workers.agent.keeper.write_json", full)
        keeper.step()
    assert (state.spool / "1.json").exists()
    keeper.step()
    status = read_json(state.of(REF) / "status.json") or {}
    assert (status["cause"], status["exit_code"], list(state.spool.glob("*.json"))) == ("exec", 127, [])
