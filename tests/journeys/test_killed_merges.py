"""A merge whose process or keeper is killed goes on from the checkpoint that it made on its way."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.journeys.house import House, house, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    # A tensor every 2.5 s on each of two GPUs: the first checkpoint is made after 5 s, and time is left to kill it.
    with house(tmp_path_factory.mktemp("killed-merges"), throttle_s=2.5) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(up) -> str:
    """The sha256 of what the merge makes when nothing happens to it."""
    return up.until_state(up.merge("undisturbed")["id"], "SUCCEEDED")["artifacts"][0]["sha256"]


def events(up: House, job_id: str, kind: str) -> list[dict]:
    found = up.client().get(f"/jobs/{job_id}/events/").json()
    found = found if isinstance(found, list) else found["results"]
    return [event for event in found if event["type"] == kind]


def saved(up: House, name: str) -> dict:
    """A merge with a checkpoint in the store."""
    job = up.merge(name)
    until(lambda: events(up, job["id"], "checkpoint_committed"), f"{name} has a checkpoint; it is {up.job(job['id'])}")
    return up.job(job["id"])


def process_of(up: House, job: dict) -> psutil.Process:
    """The process of the job itself."""
    [found] = [p for p in up.family() if "workers.kinds" in p.cmdline() and p.environ()["EMEP_JOB_ID"] == job["id"]]
    return found


def log_of(up: House, job: dict) -> str:
    return up.client().get(f"/jobs/{job['id']}/logs/", params={"attempt": job["attempt"]}).text


def test_retried_after_a_kill_9_it_goes_on_from_the_newest_checkpoint_to_the_same_bytes(up, undisturbed):
    job = saved(up, "killed")
    process_of(up, job).kill()
    up.until_state(job["id"], "FAILED")
    answer = up.client().post(f"/jobs/{job['id']}/retry/")
    assert answer.status_code == 201, answer.text
    assert answer.json()["resumes_from"] is not None
    done = up.until_state(answer.json()["id"], "SUCCEEDED")
    assert done["artifacts"][0]["sha256"] == undisturbed
    assert "verified and kept" in log_of(up, done)
    assert "resume: 0 of" not in log_of(up, done)


def test_with_its_keeper_killed_the_next_attempt_goes_on_from_it(up, undisturbed):
    job = saved(up, "lost")
    os.kill(up.pid(f"keeper-{job['gpus'][0]['node']}"), signal.SIGKILL)
    done = up.until_state(job["id"], "SUCCEEDED", patience_s=180)
    assert (done["artifacts"][0]["sha256"], done["attempt"]) == (undisturbed, 2)
    assert "verified and kept" in log_of(up, done)
    assert "resume: 0 of" not in log_of(up, done)
