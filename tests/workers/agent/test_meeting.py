"""The port that rank 0's node keeps: which one, over what, and when it is given up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.workers.agent.server import TOKEN, launch_of
from tests.workers.agent.test_whole_node import CALM, finished, node, script
from tests.workers.agent.waiting import until
from tests.workers.agent.world import REF
from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.command import open_devices
from workers.agent.fence import FenceClock
from workers.agent.loop import Loop
from workers.agent.meeting import KeptPorts
from workers.agent.phase import Phase
from workers.agent.settings import Settings
from workers.agent.statedir import Ref, boottime, read_json

OTHER = Ref("a2", 1)
LISTENS = """
import socket
at = (E['MASTER_ADDR'], int(E['MASTER_PORT']))
socket.create_server(at)
print(*at, 'rank', E['RANK'], 'of', E['WORLD_SIZE'], flush=True)
"""


def free(port: int) -> bool:
    """Whether a job could listen at ``port`` on all interfaces."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def test_a_port_is_kept_once_and_given_up_once(tmp_path: Path) -> None:
    ports = KeptPorts()
    port = ports.bind(REF, tmp_path)
    assert (ports.bind(REF, tmp_path), free(port)) == (port, False)
    ports.release(REF)
    ports.release(REF)
    assert free(port)


def test_an_agent_started_anew_keeps_the_port_of_before(tmp_path: Path) -> None:
    before = KeptPorts()
    port = before.bind(REF, tmp_path)
    before.release(REF)
    after = KeptPorts()
    assert after.bind(REF, tmp_path) == port
    after.release(REF)


@pytest.mark.parametrize("memory", ['{"port": 70000}', '{"port": -1}', '{"port": "x"}', "torn"])
def test_a_memory_that_names_no_port_is_passed_over(tmp_path: Path, memory: str) -> None:
    (tmp_path / "meet.json").write_text(memory)
    ports = KeptPorts()
    assert ports.bind(REF, tmp_path) == port_in(tmp_path)
    ports.release(REF)


def port_in(directory: Path) -> int:
    """The port that ``directory`` remembers."""
    return int((read_json(directory / "meet.json") or {})["port"])


def test_a_port_that_another_attempt_keeps_by_now_is_not_kept_twice(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ports = KeptPorts()
    taken = ports.bind(REF, tmp_path / "one")
    (tmp_path / "two" / "meet.json").write_text(f'{{"port": {taken}}}')
    other = ports.bind(OTHER, tmp_path / "two")
    assert (other != taken, port_in(tmp_path / "two")) == (True, other)
    ports.release(REF)
    ports.release(OTHER)


def test_a_port_that_cannot_be_written_down_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def full(_path: Path, value: dict[str, int]) -> None:
        tried.append(value["port"])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workers.agent.meeting.write_json", full)
    ports = KeptPorts()
    with pytest.raises(OSError, match="No space"):
        ports.bind(REF, tmp_path)
    assert free(tried[0])
    ports.release(REF)


# ---------------------------------------------------------------- in the agent


def waiting(tmp_path: Path, run_as: str | None = None) -> tuple[Loop, int]:
    """An agent whose part, rank 0 of 2, is ready; and the port it keeps. Nobody answers it."""
    (tmp_path / "gpus.yaml").write_text("gpus: [{uuid: S0, memory: 80GiB}]")
    settings = Settings(
        tmp_path / "state", "http://127.0.0.1:9", "n1", tmp_path, f"simulated:{tmp_path}/gpus.yaml", run_as=run_as
    )
    loop = Loop(settings, open_devices(settings)[0], node={}, token=TOKEN)
    held = Held(REF, Phase.PREPARING, launch=launch_of(node_count=2))  # type: ignore[arg-type]
    loop.machine.attempts[REF] = held
    loop.machine.clock = FenceClock(boottime() + 60.0)
    (loop.state.of(REF) / "work" / "scratch").mkdir(parents=True)
    loop.feed(m.Prepared(REF))
    assert (held.phase, free(held.port)) == (Phase.READY, False)
    return loop, held.port


@pytest.mark.parametrize("command", [m.Abort(REF), m.Drop(REF)])
def test_the_port_of_what_is_not_to_start_is_given_up(tmp_path: Path, command: m.Command) -> None:
    loop, port = waiting(tmp_path)
    loop.deeds[type(command)](command)
    assert free(port)


def go(loop: Loop, port: int) -> None:
    for command in loop.machine.attempts[REF].go({"address": "127.0.0.1", "port": port}):
        loop.deeds[type(command)](command)


def test_the_port_is_given_up_before_the_keeper_is_told_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, port = waiting(tmp_path)
    told: list[bool] = []
    monkeypatch.setattr(loop.processes, "start", lambda _ref: told.append(free(port)))
    go(loop, port)
    assert told == [True]


def test_the_port_of_what_cannot_be_started_is_given_up(tmp_path: Path) -> None:
    loop, port = waiting(tmp_path, run_as="nobody-here")
    go(loop, port)
    assert (free(port), loop.machine.attempts[REF].phase) == (True, Phase.FINISHED)


def test_rank_0_has_its_port_from_before_a_restart_of_the_agent_until_its_job_listens_there(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(node_count=2, argv=script(LISTENS)))
        agent = one.start_agent()
        port = until(lambda: server.got("ready"), "the part to be ready")[0]["port"]
        assert not free(port)
        agent.kill()
        agent.wait()
        one.start_agent()
        until(lambda: len(server.got("ready")) == 2, "the part to be ready again")
        assert (server.got("ready")[1]["port"], one.file("pid.json")) == (port, None)
        server.go("a1", "127.0.0.1", port)
        assert finished(server)["outcome"] == "SUCCEEDED"
        assert server.logs["a1"].decode() == f"127.0.0.1 {port} rank 0 of 2\n"
