"""What an agent that is started anew makes of the attempts it finds on its disk."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF
from workers.agent import messages as m
from workers.agent.command import open_devices
from workers.agent.loop import Loop
from workers.agent.outcome import Exit, Facts
from workers.agent.phase import Phase
from workers.agent.processes import Processes
from workers.agent.settings import load, parser
from workers.agent.statedir import StateDir, write_json


@pytest.fixture
def before(tmp_path: Path) -> Processes:
    """The agent before: it has claimed one attempt, and no keeper runs."""
    state = StateDir(tmp_path / "state")
    state.of(REF).mkdir()
    write_json(state.of(REF) / "launch.json", launch_of())
    return Processes(state)


def an_agent(state: StateDir) -> Loop:
    """An agent's loop that does not turn: what it is told to do it does."""
    for name, path in (("token", "t"), ("gpus.yaml", "gpus:\n- {uuid: SIM-0, memory: 1GiB}")):
        (state.root / name).write_text(path)
    options = ["--state", str(state.root), "--server", "http://127.0.0.1:9", "--node", "n1", "--bell", "none"]
    options += ["--token-file", str(state.root / "token"), "--gpus", f"simulated:{state.root / 'gpus.yaml'}"]
    settings = load(parser().parse_args([*options, "--keeper", "outside"]), {})
    return Loop(settings, open_devices(settings)[0], node={}, token="t")


def phase(state: StateDir) -> Phase:
    (held,) = Processes(state).found()
    return held.phase


def test_what_the_keeper_was_not_told_of_is_prepared_again(before: Processes) -> None:
    write_json(before.state.of(REF) / "exec.json", {"argv": ["true"]})
    assert phase(before.state) is Phase.PREPARING


def test_what_the_keeper_was_told_to_start_is_starting_though_it_has_not_done_so_yet(before: Processes) -> None:
    before.start(REF)
    assert phase(before.state) is Phase.STARTING


@pytest.mark.parametrize(("why", "outcome"), [("cancel", "CANCELLED"), ("disk_quota", "FAILED")])
def test_a_kill_that_was_not_asked_for_before_is_remembered_with_its_reason(
    before: Processes, why: str, outcome: str
) -> None:
    state, loop = before.state, an_agent(before.state)
    write_json(state.of(REF) / "pid.json", {"pid": 1, "at": 5.0, "boot_id": before.boot})
    loop.deeds[m.Kill](m.Kill(REF, m.StopAsked(why, 7.0, 7.0)))
    (held,) = Processes(state).found()
    assert held.stop == m.StopAsked(why, 7.0, 7.0)
    held.ended(m.Exited(REF, Exit(signal=9, cause="kill"), Facts()), 9.0, free_within_s=None)
    assert held.report is not None
    assert (held.report["outcome"], bool(held.report["error"])) == (outcome, why == "disk_quota")


def test_the_time_that_an_upload_has_left_is_not_given_anew(before: Processes) -> None:
    """The server has called the grace over at 100 s; the agent is started anew 15 s later."""
    loop = an_agent(before.state)
    loop.deeds[m.UploadLimit](m.UploadLimit(REF, 120.0))
    write_json(before.state.of(REF) / "pid.json", {"pid": 1, "at": 5.0, "boot_id": before.boot})
    write_json(before.state.of(REF) / "stop.json", asdict(m.StopAsked("preempt", 7.0, None)))
    (held,) = Processes(before.state).found()
    held.ended(m.Exited(REF, Exit(85, at=90.0), Facts(last_path="s", last_step=8)), 115.0, free_within_s=None)
    assert held.phase is Phase.PUBLISHING
    held.checkpoint_found()
    held.kill("preempt", 115.0, 10.0)
    assert held.pass_time(119.9, 10.0) == []
    assert m.Abort(REF) in held.pass_time(120.0, 10.0)
    assert held.report is not None
    assert held.report["detail"] == "upload given up"


def test_a_time_of_another_boot_says_nothing_of_this_one(before: Processes) -> None:
    write_json(before.state.of(REF) / "upload.json", {"until": 3.0, "boot_id": "another"})
    (held,) = Processes(before.state).found()
    assert held.upload.until == math.inf


def test_an_order_that_starts_nothing_changes_nothing(before: Processes) -> None:
    before.term(REF)
    (before.state.spool / "1.json").write_text("torn")
    assert phase(before.state) is Phase.PREPARING
