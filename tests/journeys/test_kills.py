"""Agent, keeper's agent by SIGSTOP, scheduler, web and broker: each is lost once in the middle of a job of every kind.

The four jobs fill the pool and are disturbed together: what befalls the house befalls each of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from tests.journeys.house import House, gone, house, throttles, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]

KINDS = {"merge": House.merge, "evaluate": House.evaluate, "infer": House.infer, "evolve": House.evolve}
QUICK_S = 2.5  # so long that all four are in the middle at once, also where they share a processor
Jobs = dict[str, dict[str, Any]]  # by kind


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with house(tmp_path_factory.mktemp("kills"), throttle_s=3) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(up) -> dict[str, str]:
    """The digests of what the job of each kind makes when nothing happens to it."""
    return digests({kind: up.until_state(job, "SUCCEEDED") for kind, job in submitted(up, "undisturbed").items()})


def submitted(up: House, name: str, kinds: Iterable[str] = KINDS, **more: Any) -> dict[str, str]:
    """The id of a new job of each of the kinds."""
    return {kind: KINDS[kind](up, f"{name}-{kind}", **more)["id"] for kind in kinds}


def digests(jobs: Jobs) -> dict[str, str]:
    """The digests of all that each job made: of a search the best model and its ledger, else one artifact."""
    made = {kind: sorted(artifact["sha256"] for artifact in job["artifacts"]) for kind, job in jobs.items()}
    assert {kind: len(each) for kind, each in made.items()} == {kind: 1 + (kind == "evolve") for kind in jobs}, jobs
    return {kind: " ".join(each) for kind, each in made.items()}


def all_half_done(up: House, ids: dict[str, str]) -> Jobs:
    """The jobs of these ids, all in the middle of their work at the same time."""

    def there() -> Jobs | None:
        jobs = {kind: up.half_done(job) for kind, job in ids.items()}
        return jobs if all(jobs.values()) else None

    # Four jobs that start at once start four times as slowly where there is one processor for them.
    return until(there, f"all of {ids} half done at once", 240)


def ended_once(up: House, jobs: Jobs) -> Jobs:
    """The jobs, each SUCCEEDED by exactly one terminal event."""
    return {kind: _ended_once(up, job["id"]) for kind, job in jobs.items()}


def _ended_once(up: House, job_id: str) -> dict[str, Any]:
    job = up.until_state(job_id, "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", patience_s=180)
    assert job["state"] == "SUCCEEDED", (job, up.client().get(f"/jobs/{job_id}/events/").text)
    events = up.client().get(f"/jobs/{job_id}/events/").json()
    events = events if isinstance(events, list) else events["results"]
    assert [e["type"] for e in events].count("succeeded") == 1
    return job


def nodes_of(jobs: Jobs) -> dict[str, str]:
    """The node that runs each job."""
    return {kind: job["gpus"][0]["node"] for kind, job in jobs.items()}


# The first of them, so that the house need not be stopped another time for jobs that last longer.
def test_sigterm_in_the_middle_of_a_job_requeues_it_with_a_checkpoint_for_the_next_start(up, request):
    # The scheduler is stopped before the agents: the jobs must last longer than that, also on a busy machine.
    jobs = all_half_done(up, submitted(up, "stop-all"))
    family = up.family()
    assert up.stop(patience_s=120) == 0, up.output.read_text()
    until(lambda: gone(family), "all gone", 10)
    up.env |= throttles(QUICK_S)
    up.start()
    done = ended_once(up, jobs)
    assert digests(done) == request.getfixturevalue("undisturbed")
    told = {kind: (job["attempt"], job["preempt_count"]) for kind, job in done.items()}
    assert told == dict.fromkeys(KINDS, (2, 0))


@pytest.mark.parametrize("program", ["agent", "scheduler", "web", "broker"])
def test_a_process_killed_in_the_middle_of_a_job_costs_nothing(up, undisturbed, program):
    jobs = all_half_done(up, submitted(up, f"kill-{program}"))
    names = {f"agent-{node}" for node in nodes_of(jobs).values()} if program == "agent" else {program}
    old = {name: up.pid(name) for name in names}
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(up.pid(name) != pid for name, pid in old.items()), f"{names} back")
    done = ended_once(up, jobs)
    assert digests(done) == undisturbed
    assert {kind: job["attempt"] for kind, job in done.items()} == dict.fromkeys(KINDS, 1)


@pytest.mark.parametrize("kinds", [("merge", "evaluate"), ("infer", "evolve")], ids=" ".join)
def test_a_stopped_agent_is_fenced_by_its_keeper_and_each_of_its_jobs_runs_once_elsewhere(up, undisturbed, kinds):
    pool = up.client().get("/pool/").json()["nodes"]
    here = {"preferred": [{"key": "rack_id", "op": "In", "values": [pool[0]["rack_id"]], "weight": 100}]}
    jobs = all_half_done(up, submitted(up, "stop-agent", kinds, affinity=here))
    node = pool[0]["name"]
    assert nodes_of(jobs) == dict.fromkeys(kinds, node)
    pid = up.pid(f"agent-{node}")
    old_jobs = [p for p in up.family() if "workers.kinds" in p.cmdline()]
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: gone(old_jobs), "the keeper has fenced the old attempts")
        attempts = {kind: up.job(job["id"])["attempt"] for kind, job in jobs.items()}
        assert attempts == dict.fromkeys(kinds, 1), "a job was given away before its processes were gone"
        done = ended_once(up, jobs)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert digests(done) == {kind: undisturbed[kind] for kind in kinds}
    assert {kind: job["attempt"] for kind, job in done.items()} == dict.fromkeys(kinds, 2)
    assert node not in nodes_of(done).values()
