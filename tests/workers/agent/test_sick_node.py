"""An agent as a real process whose simulated GPUs have trouble: what its server hears, and what is tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.workers.agent.server import NodeServer, launch_of
from tests.workers.agent.test_whole_node import GPUS, STOPPABLE, Node, node, running, script
from tests.workers.agent.waiting import until

FAULTS = """
faults:
  - {gpu: SIM-0, fault: xid, xid: 48, when: double-bit}
  - {fault: reboot, when: power, order: [SIM-1, SIM-0]}
"""


def scripted(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text(GPUS + FAULTS)


def samples(server: NodeServer) -> list[dict[str, Any]]:
    """Every sample of SIM-0 so far."""
    found = [gpu for beat in list(server.heartbeats) for gpu in beat["gpus"] or []]
    return [gpu for gpu in found if gpu["uuid"] == "SIM-0"]


def listening_for_boots(server: NodeServer) -> None:
    """Like the real server it wants a node whose boot it does not know to register again."""
    plain = server.heartbeat

    def heartbeat(body: dict[str, Any]) -> tuple[int, Any]:
        if body["boot_id"] != server.registrations[-1]["boot_id"]:
            return 409, {"code": "reregister"}
        return plain(body)

    server.heartbeat = heartbeat  # type: ignore[method-assign]


def wanting_tests(server: NodeServer, *uuids: str) -> None:
    """It asks for tests until it has a result."""
    plain = server.heartbeat

    def heartbeat(body: dict[str, Any]) -> tuple[int, Any]:
        status, reply = plain(body)
        done = any("canary" in sample for sample in samples(server))
        return status, {**reply, "canary": [] if done else list(uuids)}

    server.heartbeat = heartbeat  # type: ignore[method-assign]


def test_a_test_that_the_server_asks_for_is_run_and_its_result_told(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        wanting_tests(server, "SIM-0")
        one.start_agent()
        told = until(lambda: [s["canary"] for s in samples(server) if "canary" in s], "a result")
        assert told[0] == {"passed": True, "detail": "simulated: nothing was computed"}


def test_an_xid_reaches_the_server(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        scripted(tmp_path)
        one.start_agent()
        until(lambda: samples(server), "a sample")
        (tmp_path / "double-bit").touch()
        told = until(lambda: [s for s in samples(server) if "xids" in s], "the Xid")[0]
        assert (told["xids"], told["xids_before"]) == ([48], 0)


def test_a_reboot_with_other_indices_is_registered_and_nothing_of_the_job_has_survived(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        scripted(tmp_path)
        listening_for_boots(server)
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        running(server, one)
        (tmp_path / "power").touch()
        again = until(lambda: server.registrations[1:], "the second registration")[0]
        assert [gpu["uuid"] for gpu in again["gpus"]] == ["SIM-1", "SIM-0"]
        assert [(a["attempt"], a["pid_alive"]) for a in again["attempts"]] == [("a1", False)]


def test_numbers_of_messages_rise_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        first = until_heard(server, one)
        first.kill()
        first.wait()
        newest = server.heartbeats[-1]["seq"]
        seen = len(server.heartbeats)
        until_heard(server, one, after=seen)
        assert server.heartbeats[seen]["seq"] > newest


def until_heard(server: NodeServer, one: Node, after: int = 0) -> Any:
    """A fresh agent whose first message has arrived."""
    agent = one.start_agent()
    until(lambda: len(server.heartbeats) > after, "a heartbeat")
    return agent


def test_a_failure_is_told_together_with_a_look_at_the_gpus(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script("sys.exit(3)")))
        one.start_agent()
        until(lambda: server.got("finished"), "the finished report")
        with_it = [beat for beat in server.heartbeats if any(r["type"] == "finished" for r in beat["reports"])]
        assert [gpu["uuid"] for gpu in with_it[0]["gpus"]] == ["SIM-0", "SIM-1"]
