"""The agent and its keeper as real processes against a real HTTP double of the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import FAST, TOKEN, NodeServer, launch_of
from tests.workers.agent.waiting import forget_groups, until
from workers.agent.statedir import StateDir, lock, read_json
from workers.protocol import Timings

ROOT = Path(__file__).resolve().parents[3]
GPUS = """
node: {rack_id: r7, network_bandwidth_gbps: 100, labels: {zone: a, ssd: true}}
gpus:
  - {uuid: SIM-0, model: Simulated 80, memory: 80GiB, nvlink_group_id: g0}
  - {uuid: SIM-1, model: Simulated 80, memory: 80GiB, nvlink_group_id: g0}
"""
PRELUDE = "import json, os, sys, time, signal, pathlib\n" + (
    "E = os.environ\ndef say(**event):\n    with open(E['EMEP_EVENTS'], 'a') as f: f.write(json.dumps(event) + '\\n')\n"
)
WORKS = """
out = pathlib.Path(E['EMEP_OUTPUT_DIR']) / 'model'; out.mkdir()
job = json.load(open(E['EMEP_JOB_FILE']))
text = (pathlib.Path(E['EMEP_INPUT_DIR']) / 'base' / 'w.txt').read_text()
(out / 'w.txt').write_text(text * job['params']['times'])
print('hello', E['CUDA_VISIBLE_DEVICES'], flush=True)
say(type='progress', step=3, total=3, unit='tensor')
say(type='metric', step=3, name='loss', value=0.5)
say(type='artifact', name='merged', path='model', kind='model', meta={'a': 1})
say(type='done')
"""
# Saves into its checkpoint directory on SIGTERM and exits 85; a gate file lets a test see that it is ready.
STOPPABLE = """
def stop(*_):
    (pathlib.Path(E['EMEP_CHECKPOINT_DIR']) / 'state.txt').write_text('step 7')
    say(type='checkpoint', step=7)
    sys.exit(85)
signal.signal(signal.SIGTERM, stop)
print('ready', flush=True)
say(type='progress', step=1, total=9, unit='step')
while True: time.sleep(0.02)
"""
# Saves by the client, as frameworks do: with a link to the newest file in each checkpoint.
LINKING = f"""
sys.path.insert(0, {str(ROOT)!r})
from workers import emep_job as job
job.attach()
with job.checkpoint(1) as directory:
    (directory / 's.json').write_text('1')
    (directory / 'latest').symlink_to(json.load(open(E['EMEP_JOB_FILE']))['params']['target'])
while not job.should_stop(): time.sleep(0.02)
job.exit_checkpointed()
"""


def script(text: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + text]


class Node:
    """One node's state directory and the processes on it."""

    def __init__(self, tmp_path: Path, server: NodeServer) -> None:
        self.state = StateDir(tmp_path / "state")
        self.server = server
        (tmp_path / "token").write_text(TOKEN)
        (tmp_path / "gpus.yaml").write_text(GPUS)
        self.arguments = [
            "--state", str(self.state.root), "--server", server.url, "--node", "n1",
            "--token-file", str(tmp_path / "token"), "--gpus", f"simulated:{tmp_path / 'gpus.yaml'}",
            "--bell", "none", "--guard", str(os.getpid()),
        ]  # fmt: skip
        self.log = (tmp_path / "agent.log").open("ab")
        self.agents: list[subprocess.Popen[bytes]] = []

    def start_agent(self, *more: str) -> subprocess.Popen[bytes]:
        agent = subprocess.Popen(
            [sys.executable, "-m", "workers", "agent", *self.arguments, *more], cwd=ROOT, stdout=self.log,
            stderr=self.log,
        )  # fmt: skip
        self.agents.append(agent)
        return agent

    def keeper_pid(self) -> int:
        known = until(lambda: read_json(self.state.keeper_file), "a keeper")
        return int(known["pid"])

    def file(self, name: str, attempt: str = "a1") -> Any:
        return read_json(self.state.attempts / f"{attempt}-1" / name)

    def keeper_alive(self) -> bool:
        with lock(self.state.keeper_lock) as held:
            return held is None

    def close(self) -> None:
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        if self.keeper_alive():
            with suppress(ProcessLookupError):  # it may end between the two looks
                os.kill(self.keeper_pid(), signal.SIGKILL)
            until(lambda: not self.keeper_alive(), "the keeper's end")
        forget_groups(self.state)
        self.log.close()


# An agent that is started anew on a busy machine must come back well before the fence.
CALM = Timings().scaled(0.2)


@contextmanager
def node(tmp_path: Path, timings: Timings = FAST) -> Iterator[tuple[NodeServer, Node]]:
    with NodeServer(timings) as server:
        one = Node(tmp_path, server)
        try:
            yield server, one
        finally:
            one.close()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between two looks
        return True


def finished(server: NodeServer, attempt: str = "a1") -> dict[str, Any]:
    return until(lambda: server.got("finished", attempt), "the finished report")[0]


def running(server: NodeServer, one: Node, attempt: str = "a1") -> int:
    """The pid of a STOPPABLE job that is ready for its signal."""
    until(lambda: server.got("progress", attempt), "the job's progress")
    return int(one.file("pid.json", attempt)["pid"])


def test_a_granted_job_runs_and_its_output_log_and_progress_reach_the_server(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.inputs[("base-artifact", "w.txt")] = b"abc"
        sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        files = [{"path": "w.txt", "size": 3, "sha256": sha}]
        server.grant(
            launch_of(
                argv=script(WORKS), params={"times": 2}, gpus=["SIM-0"],
                inputs=[{"artifact": "base-artifact", "as": "base", "files": files}],
            )
        )  # fmt: skip
        one.start_agent()
        report = finished(server)
        assert report["outcome"] == "SUCCEEDED", report
        artifact = server.artifacts[report["artifacts"][0]]
        assert (artifact["name"], artifact["kind"], artifact["meta"]) == ("merged", "model", {"a": 1})
        assert artifact["bytes"] == {"w.txt": b"abcabc"}
        assert server.logs["a1"] == b"hello SIM-0\n"
        assert server.got("progress")[-1]["step"] == 3
        assert server.got("metric")[0]["value"] == 0.5
        assert server.registrations[0]["rack_id"] == "r7"
        assert server.registrations[0]["labels"] == {"zone": "a", "ssd": "true"}
        until(lambda: not list(one.state.attempts.iterdir()), "the wiped attempt")


def test_a_killed_agents_job_goes_on_and_the_next_agent_delivers_its_end(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        agent = one.start_agent()
        pid = running(server, one)
        agent.kill()
        agent.wait()
        one.start_agent()
        until(lambda: len(server.registrations) == 2, "the second registration")
        assert server.registrations[1]["attempts"] == [{"attempt": "a1", "epoch": 1, "pid_alive": True, "runs": True}]
        assert not gone(pid)
        server.want("a1", "stop", "preempt")
        report = finished(server)
        assert (report["outcome"], report["exit_code"], report["detail"]) == ("PREEMPTED", 85, "confirmed")
        assert server.claims == ["a1"]


def test_a_final_report_survives_the_agents_death_while_the_server_is_away(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        agent = one.start_agent()
        running(server, one)
        server.want("a1", "kill", "cancel", then="503")
        until(lambda: one.file("report.json"), "the report on disk")
        agent.kill()
        agent.wait()
        one.start_agent()
        server.fault = None
        assert finished(server)["outcome"] == "CANCELLED"
        until(lambda: not list(one.state.attempts.iterdir()), "the wiped attempt")
        assert len(server.got("finished")) == 1


def test_a_keeper_from_outside_is_waited_for_and_not_started(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(argv=script("print('ran', flush=True)")))
        one.start_agent("--keeper", "outside")
        until(lambda: list(one.state.spool.glob("*.json")), "the command in the spool")
        assert not one.keeper_alive()
        keeper = subprocess.Popen(
            [sys.executable, "-m", "workers", "keeper", "--state", str(one.state.root)], cwd=ROOT
        )  # fmt: skip
        assert finished(server)["outcome"] == "SUCCEEDED"
        keeper.terminate()
        assert keeper.wait(30) == 0


def test_a_preempted_jobs_checkpoint_is_uploaded_in_two_parts(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        running(server, one)
        server.want("a1", "stop", "preempt")
        report = finished(server)
        uploaded = server.artifacts[report["checkpoint"]]["bytes"]
        assert uploaded["framework/state.txt"] == b"step 7"
        assert json.loads(uploaded["experiment.json"])["step"] == 7


@pytest.mark.parametrize(("target", "kinds"), [("s.json", ["checkpoint"]), ("gone", ["checkpoint_refused"])])
def test_a_running_jobs_checkpoint_with_a_link_is_stored_or_refused_at_once(
    tmp_path: Path, target: str, kinds: list[str]
) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(LINKING), params={"target": target}))
        one.start_agent()
        until(
            lambda: server.got("checkpoint", "a1") or server.got("checkpoint_refused", "a1"), "word of the checkpoint"
        )
        server.want("a1", "stop", "preempt")
        report = finished(server)
        told = [r["type"] for r in server.reports if r["type"].startswith("checkpoint")]
        assert (told, "'step-1/latest' is a symbolic link to nothing" in report["error"]) == (kinds, target == "gone")


def test_a_resumed_job_finds_its_checkpoint_where_it_left_it(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        running(server, one)
        server.want("a1", "stop", "preempt")
        kept = server.artifacts[finished(server)["checkpoint"]]
        for path, content in kept["bytes"].items():
            server.inputs[("ck", path)] = content
        resumes = "print(E['EMEP_RESUME'], sorted(os.listdir(E['EMEP_CHECKPOINT_DIR'])), flush=True)"
        resume = {"artifact": "ck", "step": 7, "files": kept["files"]}
        server.grant(launch_of("a2", argv=script(resumes), resume=resume))
        finished(server, "a2")
        assert server.logs["a2"] == b"1 ['state.txt']\n"


def test_a_stopped_agents_jobs_are_fenced_by_the_keeper(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        agent = one.start_agent()
        pid = running(server, one)
        agent.send_signal(signal.SIGSTOP)
        until(lambda: gone(pid), "the fence")
        until(lambda: one.file("status.json"), "the status")
        assert one.file("status.json")["cause"] == "fence"
        agent.send_signal(signal.SIGCONT)
        assert finished(server)["outcome"] == "LOST"


def test_a_killed_keeper_takes_its_jobs_along_and_they_are_reported_lost(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        pid = running(server, one)
        os.kill(one.keeper_pid(), signal.SIGKILL)
        until(lambda: gone(pid), "the job's death")
        report = finished(server)
        assert (report["outcome"], report["why"], report["detail"]) == ("LOST", "lost", "keeper")


def test_a_refusing_server_does_not_fence_and_a_silent_one_does(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        pid = running(server, one)
        server.fault = "503"
        first = float(read_json(one.state.lease)["deadline"])
        until(lambda: float(read_json(one.state.lease)["deadline"]) > first + 2 * server.timings.fence_s, "the pause")
        assert not gone(pid)
        server.fault = "hang"
        until(lambda: gone(pid), "the fence")


def test_drain_saves_the_jobs_reports_them_and_leaves_no_process(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        agent = one.start_agent("--on-term", "drain")
        running(server, one)
        agent.terminate()
        assert agent.wait(30) == 0
        report = finished(server)
        assert (report["outcome"], report["why"]) == ("PREEMPTED", "drain")
        assert report["checkpoint"] is not None
        assert any(beat["draining"] for beat in server.heartbeats)
        until(lambda: not one.keeper_alive(), "the keeper's end")


def test_sigterm_without_drain_leaves_the_job_to_the_keeper(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        agent = one.start_agent()
        pid = running(server, one)
        agent.terminate()
        assert agent.wait(30) == 0
        assert not gone(pid)


def test_an_attempt_that_was_taken_away_is_killed_without_a_report(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        pid = running(server, one)
        server.stale.add("a1")
        server.desired.clear()
        until(lambda: gone(pid), "the kill")
        until(lambda: not list(one.state.attempts.iterdir()), "the wiped attempt")
        assert server.got("finished") == []


def test_a_forgetful_server_makes_the_node_register_again_with_its_jobs(tmp_path: Path) -> None:
    with node(tmp_path, CALM) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        running(server, one)
        server.fault = "reregister"
        until(lambda: len(server.registrations) == 2, "the second registration")
        assert [a["attempt"] for a in server.registrations[1]["attempts"]] == ["a1"]


def test_a_job_past_its_time_limit_is_timed_out_with_its_checkpoint(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE), remaining_s=1.0, grace_s=0.5))
        one.start_agent()
        report = finished(server)
        assert (report["outcome"], report["why"]) == ("TIMED_OUT", "time_limit")
        assert report["checkpoint"] is not None


def test_a_program_that_does_not_exist_fails_with_its_name(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=["no-such-program"]))
        one.start_agent()
        report = finished(server)
        assert (report["outcome"], report["exit_code"]) == ("FAILED", 127)
        assert "no-such-program" in report["error"]


def test_the_agent_never_loads_torch() -> None:
    code = (
        "import sys, workers.agent.command, workers.agent.devices_nvml, workers.agent.devices_simulated, "
        "workers.agent.bell_broker; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
