"""Whether jobs can have control groups here, as --check and the agent's start say it."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.kernel import groups
from tests.workers.agent.server import TOKEN
from workers.agent import cgroup, cgroup_check
from workers.agent.cgroup import CgroupError
from workers.agent.check import check
from workers.agent.command import main, open_devices
from workers.agent.settings import Settings
from workers.agent.statedir import StateDir, lock, write_json

GIB = 2**30


def settings(tmp_path: Path, **more: Any) -> Settings:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "gpus.yaml").write_text("gpus: [{uuid: S0, memory: 80GiB}]")
    gpus = f"simulated:{tmp_path}/gpus.yaml"
    return Settings(tmp_path / "state", "http://127.0.0.1:9", "n1", tmp_path / "token", gpus, **more)


def said(tmp_path: Path, **more: Any) -> str:
    """The line of --check about control groups."""
    out = io.StringIO()
    check(settings(tmp_path, **more), open_devices, out)
    return next(line for line in out.getvalue().splitlines() if "cgroup" in line or "job_memory" in line)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise CgroupError("this system has no control groups of version 2")

    monkeypatch.setattr(cgroup, "own_directory", none)


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Groups can be had in the directory of the double."""
    found = groups(tmp_path)
    monkeypatch.setattr(cgroup_check, "open_cgroups", lambda _setting, _state: found)
    return found.parent


@pytest.mark.usefixtures("nowhere")
def test_what_there_is_none_of_is_said_and_no_error(tmp_path: Path) -> None:
    assert said(tmp_path) == (
        "ok  cgroup: none (this system has no control groups of version 2); "
        "a job's end is proved by its process group, sessions and descendants"
    )


@pytest.mark.usefixtures("nowhere")
def test_a_limit_where_there_are_none_is_an_error(tmp_path: Path) -> None:
    assert said(tmp_path, job_memory_bytes=GIB) == (
        "BAD job_memory_bytes: it can't be enforced: this system has no control groups of version 2"
    )


def test_a_given_directory_that_can_not_be_used_is_an_error(tmp_path: Path) -> None:
    assert said(tmp_path, cgroup=str(tmp_path)).startswith(
        f"BAD cgroup: {tmp_path} is no cgroup version 2 directory"
    )  # fmt: skip


def test_off_is_said(tmp_path: Path) -> None:
    assert said(tmp_path, cgroup="off").startswith("ok  cgroup: off; a job's end is proved by")


def test_where_they_are_and_what_a_job_gets_is_said(tmp_path: Path, double: Path) -> None:
    assert said(tmp_path, job_memory_bytes=GIB) == (
        f"ok  cgroup: one for each job in {double}; each job gets {GIB} bytes of memory"
    )


def test_that_no_limit_is_possible_is_said_and_an_error_only_where_one_is_wanted(tmp_path: Path, double: Path) -> None:
    (double / "cgroup.controllers").write_text("cpu")
    assert said(tmp_path).startswith(f"ok  cgroup: one for each job in {double}; no memory limit is possible (the ")
    assert said(tmp_path, job_memory_bytes=GIB).startswith("BAD job_memory_bytes: it can't be enforced: the memory")


@pytest.mark.usefixtures("double")
def test_a_keeper_without_groups_that_runs_already_can_not_enforce_a_limit(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    write_json(state.keeper_file, {"pid": os.getpid(), "boot_id": "b", "cgroup": None})
    with lock(state.keeper_lock):
        assert said(tmp_path, job_memory_bytes=GIB).startswith(
            "BAD job_memory_bytes: the keeper that runs here has no cgroups, so it can't be enforced: drain the node"
        )


def test_a_keeper_from_outside_sees_to_it_itself(tmp_path: Path) -> None:
    assert said(tmp_path, keeper="outside", cgroup=str(tmp_path)) == (
        "ok  cgroup: the affair of the keeper, which somebody else starts"
    )


def test_an_agent_does_not_start_with_a_directory_that_can_not_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = settings(tmp_path)
    flags = [
        "--state", str(one.state), "--server", one.server, "--node", "n1", "--token-file", str(one.token_file),
        "--gpus", one.gpus, "--cgroup", str(tmp_path),
    ]  # fmt: skip
    assert main(flags) == 2
    assert capsys.readouterr().err.startswith(f"cgroup: {tmp_path} is no cgroup version 2 directory")
