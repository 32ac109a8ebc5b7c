"""Jobs on several nodes, as real processes that meet by gloo: one end for all, and the undisturbed bytes in the end."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from tests.checker import truth
from tests.journeys.agents import Agent, agents
from tests.journeys.house import House, house, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]

ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")
STEPS = 60
SCALE = 0.4

# Every rank gives its part to each step, so that a rank too few, a step too many or one lost shows in the bytes.
RANKS = f"""
import emep_job as job
job.attach()
import time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, state, start = dist.get_rank(), torch.zeros(4, dtype=torch.float64), 0
if job.resuming():
    saved = torch.load(job.resume_dir() / "state.pt", weights_only=True)
    state, start = saved["state"], saved["step"]
for step in range(start, {STEPS}):
    given = torch.full((4,), (rank + 1.0) * (step + 1), dtype=torch.float64)
    dist.all_reduce(given)
    state = torch.sin(state) + given
    job.progress(step + 1, {STEPS})
    time.sleep(0.05)
    if job.should_stop() or step % 20 == 19:
        if rank == 0:
            with job.checkpoint(step + 1) as directory:
                torch.save({{"state": state, "step": step + 1}}, directory / "state.pt")
        if job.should_stop():
            dist.destroy_process_group()
            job.exit_checkpointed()
print(f"rank {{rank}} of {{dist.get_world_size()}} at the end", flush=True)
if rank == 0:
    (job.output_dir() / "sum.bin").write_bytes(state.numpy().tobytes())
    job.artifact("sum", "sum.bin", kind="output")
dist.destroy_process_group()
job.done()
"""


def right(ranks: int) -> bytes:
    """What the program must leave when so many ranks took every step once."""
    state = torch.zeros(4, dtype=torch.float64)
    for step in range(STEPS):
        state = torch.sin(state) + sum(range(1, ranks + 1)) * (step + 1.0)
    return state.numpy().tobytes()


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with house(tmp_path_factory.mktemp("gang"), scale=str(SCALE), throttle_s=0.5) as made:
        yield made


@pytest.fixture(scope="module")
def more(up):
    """Two nodes beside the set's own two."""
    with agents(up, ["node-3", "node-4"], gpus=4, labels={"place": "annex"}) as made:
        yield made


def submit(up: House, nodes: int, *, each: int = 1, **more: Any) -> str:
    body = {"kind": "command", "name": f"ranks-{nodes}", "project": "alpha", "node_count": nodes, "gpus_per_node": each,
            "max_duration": "30m", "params": {"argv": [sys.executable, "-c", RANKS]}, **more}  # fmt: skip
    answer = up.client().post("/jobs/", json=body)
    assert answer.status_code == 201, answer.text
    truth.acknowledged(up.truth, answer.json()["id"], user="alice")
    return answer.json()["id"]


def bytes_of(up: House, job: dict[str, Any]) -> bytes:
    """The content of the job's one artifact."""
    (artifact,) = job["artifacts"]
    return up.client().get(f"/artifacts/{artifact['id']}/files/sum.bin").content


def ended(up: House, job: str) -> dict[str, Any]:
    found = up.until_state(job, *ENDED, patience_s=240)
    assert found["state"] == "SUCCEEDED", (found, up.client().get(f"/jobs/{job}/logs/?format=text").text)
    return found


def last_attempt(up: House, job: str) -> dict[str, Any]:
    return up.client().get(f"/jobs/{job}/attempts/").json()["results"][-1]


def moving(up: House, job: str) -> dict[str, Any]:
    """The newest run of the job once all its nodes work and it has saved something."""
    until(lambda: 21 <= ((up.job(job).get("progress") or {}).get("step") or 0) < STEPS, f"{job} in the middle", 120)
    return last_attempt(up, job)


def test_two_nodes_meet_and_reduce_to_the_right_bytes(up):
    job = submit(up, 2)
    done = ended(up, job)
    assert bytes_of(up, done) == right(2)
    run = last_attempt(up, job)
    assert [part["rank"] for part in run["nodes"]] == [0, 1]
    assert {part["outcome"] for part in run["nodes"]} == {"SUCCEEDED"}
    for part in run["nodes"]:
        log = up.client().get(f"/jobs/{job}/logs/?format=text&node={part['node']}").text
        assert f"rank {part['rank']} of 2 at the end" in log


def test_four_nodes_do_too(up, more):
    job = submit(up, 4)
    done = ended(up, job)
    assert bytes_of(up, done) == right(4)
    assert len({part["node"] for part in last_attempt(up, job)["nodes"]}) == 4


def test_when_a_node_dies_the_others_stop_and_all_of_it_runs_again_from_its_checkpoint(up, more):
    here = {"preferred": [{"key": "place", "op": "In", "values": ["annex"], "weight": 100}]}
    job = submit(up, 2, affinity=here)
    run = moving(up, job)
    assert {part["node"] for part in run["nodes"]} == {"node-3", "node-4"}, run
    dead: Agent = next(agent for agent in more if agent.name == run["nodes"][1]["node"])
    dead.die()
    done = ended(up, job)
    assert (done["attempt"], bytes_of(up, done)) == (2, right(2))
    again = last_attempt(up, job)
    assert again["resumed_from"]
    assert dead.name not in {part["node"] for part in again["nodes"]}


def test_a_job_on_several_nodes_makes_room_as_a_whole_and_goes_on_where_it_was(up):
    nodes = [node for node in up.client("admin").get("/pool/").json()["nodes"] if node["state"] == "READY"]
    job = submit(up, len(nodes), each=4, priority="Low")
    moving(up, job)
    models = [up.demo["models"]["digits-0-4"], up.demo["models"]["digits-5-9"]]
    body = {"kind": "merge", "name": "gate", "project": "alpha", "priority": "Critical", "purpose": "regression_gate",
            "gpu_count": 2, "nvlink_required": True, "max_duration": "30m",
            "params": {"strategy": "slerp", "t": 0.25, "models": models}}  # fmt: skip
    gate = up.client("admin").post("/jobs/", json=body).json()["id"]
    assert up.until_state(gate, *ENDED, patience_s=240)["state"] == "SUCCEEDED"
    done = ended(up, job)
    assert (done["attempt"], done["preempt_count"], bytes_of(up, done)) == (2, 1, right(len(nodes)))
    first = up.client().get(f"/jobs/{job}/attempts/").json()["results"][0]
    assert {part["outcome"] for part in first["nodes"]} == {"PREEMPTED"}
