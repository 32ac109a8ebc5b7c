"""Agent, keeper's agent by SIGSTOP, scheduler, web and broker: each is lost once in the middle of a job of a kind."""

from __future__ import annotations

import os
import signal

import pytest

from tests.journeys.house import THROTTLES, House, gone, house, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with house(tmp_path_factory.mktemp("kills"), throttle_s=0.5) as made:
        yield made


@pytest.fixture(
    scope="module", params=[House.merge, House.evaluate, House.infer, House.evolve],
    ids=["merge", "evaluate", "infer", "evolve"],
)  # fmt: skip
def submit(request):
    """How a job of the kind is submitted."""
    return request.param


@pytest.fixture(scope="module")
def undisturbed(up, submit) -> str:
    """The digests of what the job makes when nothing happens to it."""
    return digest(up.until_state(submit(up, "undisturbed")["id"], "SUCCEEDED"))


def digest(job: dict) -> str:
    """The digests of all that the job made: of a search the best model and its ledger, else one artifact."""
    made = sorted(artifact["sha256"] for artifact in job["artifacts"])
    assert len(made) == (2 if job["kind"] == "evolve" else 1), job
    return " ".join(made)


def ended_once(up, job_id: str) -> dict:
    """The job, SUCCEEDED by exactly one terminal event."""
    job = up.until_state(job_id, "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", patience_s=180)
    assert job["state"] == "SUCCEEDED", (job, up.client().get(f"/jobs/{job_id}/events/").text)
    events = up.client().get(f"/jobs/{job_id}/events/").json()
    events = events if isinstance(events, list) else events["results"]
    assert [e["type"] for e in events].count("succeeded") == 1
    return job


def node_of(up, job: dict) -> str:
    """The node that runs the job."""
    return job["gpus"][0]["node"]


@pytest.mark.parametrize("program", ["agent", "scheduler", "web", "broker"])
def test_a_process_killed_in_the_middle_of_a_job_costs_nothing(up, submit, undisturbed, program):
    job = up.in_the_middle(submit(up, f"kill-{program}")["id"])
    name = f"agent-{node_of(up, job)}" if program == "agent" else program
    pid = up.pid(name)
    os.kill(pid, signal.SIGKILL)
    until(lambda: up.pid(name) != pid, f"{name} back")
    done = ended_once(up, job["id"])
    assert digest(done) == undisturbed
    assert done["attempt"] == 1


def test_a_stopped_agent_is_fenced_by_its_keeper_and_the_job_runs_once_elsewhere(up, submit, undisturbed):
    job = up.in_the_middle(submit(up, "stop-agent")["id"])
    node = node_of(up, job)
    pid = up.pid(f"agent-{node}")
    old_jobs = [p for p in up.family() if "workers.kinds" in p.cmdline()]
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: gone(old_jobs), "the keeper has fenced the old attempt")
        assert up.job(job["id"])["attempt"] == 1, "the job was given away before its processes were gone"
        done = ended_once(up, job["id"])
    finally:
        os.kill(pid, signal.SIGCONT)
    assert digest(done) == undisturbed
    assert done["attempt"] == 2
    assert node_of(up, done) != node


def test_sigterm_in_the_middle_of_a_job_requeues_it_with_a_checkpoint_for_the_next_start(up, submit, undisturbed):
    # The scheduler is stopped before the agents: the job must last longer than that, also on a busy machine.
    quick = {name: up.env[name] for name in THROTTLES}
    up.stop(patience_s=120)
    up.env |= dict.fromkeys(THROTTLES, "3")
    job = up.start().in_the_middle(submit(up, "stop-all")["id"])
    family = up.family()
    assert up.stop(patience_s=120) == 0, up.output.read_text()
    until(lambda: gone(family), "all gone", 10)
    up.env |= quick
    up.start()
    done = ended_once(up, job["id"])
    assert digest(done) == undisturbed
    assert (done["attempt"], done["preempt_count"]) == (2, 0)
