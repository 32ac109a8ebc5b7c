"""A Critical job on a full pool: one running job saves, makes room, goes back to its place and loses nothing."""

from __future__ import annotations

import pytest

from tests.journeys.house import House, house, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]

ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with house(tmp_path_factory.mktemp("preemption"), throttle_s=2.0, scale="0.4") as made:
        yield made


def fill(up: House, submit, priority: str) -> list[str]:
    """Jobs of a kind and this priority on every GPU of the pool, all in the middle of their work; their ids."""
    nodes = up.client("admin").get("/pool/").json()["nodes"]
    gpus = sum(len(node["gpus"]) for node in nodes)
    jobs = [submit(up, f"low-{place}", priority=priority, gpu_count=4)["id"] for place in range(gpus // 4)]
    for job in jobs:
        up.in_the_middle(job)
    return jobs


def critical(up: House) -> str:
    models = [up.demo["models"]["digits-0-4"], up.demo["models"]["digits-5-9"]]
    body = {"kind": "merge", "name": "gate", "project": "alpha", "priority": "Critical", "purpose": "regression_gate",
            "gpu_count": 4, "nvlink_required": True, "max_duration": "30m",
            "params": {"strategy": "slerp", "t": 0.25, "models": models}}  # fmt: skip
    answer = up.client("admin").post("/jobs/", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def events(up: House, job: str) -> list[dict]:
    found = up.client("admin").get(f"/jobs/{job}/events/").json()
    return found if isinstance(found, list) else found["results"]


@pytest.mark.parametrize(
    ("submit", "lowest"),
    [(House.merge, "Low"), (House.evaluate, "Low"), (House.infer, "Normal"), (House.evolve, "Low")],
    ids=["merge", "evaluate", "infer", "evolve"],
)
def test_on_a_full_pool_one_low_job_saves_and_leaves_for_a_critical_one_and_loses_nothing(up, submit, lowest):
    jobs = fill(up, submit, lowest)
    gate = critical(up)
    until(lambda: up.job(gate)["state"] in ("RUNNING", *ENDED), "the Critical job runs")
    evicted = [job for job in jobs if up.job(job)["preempt_count"]]
    assert len(evicted) == 1, [up.job(job) for job in jobs]
    assert up.job(evicted[0])["preempted"] is True

    ended = {job: up.until_state(job, *ENDED, patience_s=240) for job in [*jobs, gate]}
    assert {job["state"] for job in ended.values()} == {"SUCCEEDED"}
    assert {ended[job]["attempt"] for job in jobs if job not in evicted} == {1}
    assert (ended[evicted[0]]["attempt"], ended[evicted[0]]["preempted"]) == (2, False)
    # All do the same work, so one that was disturbed ends with the bytes of those that were not.
    assert len({tuple(sorted(a["sha256"] for a in ended[job]["artifacts"])) for job in jobs}) == 1
    told = [event["message"] for event in events(up, evicted[0])]
    assert any("will resume from the checkpoint at step" in message for message in told), told
