"""A researcher's first day: one command, a merge by form and by REST, the same bytes twice, and an orderly stop."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import httpx
import pytest

from tests.checker import truth
from tests.journeys.house import ROOT, gone, house, until

pytestmark = [pytest.mark.journey, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with house(tmp_path_factory.mktemp("day"), fresh=True) as made:
        yield made


def merged_sha256(up, job: dict) -> str:
    """The sha256 of the downloaded model, which equals the one the artifact states."""
    made = job["artifacts"][0]
    file = next(f for f in made["files"] if f["path"] == "model.safetensors")
    content = up.client().get(f"/artifacts/{made['id']}/files/model.safetensors").content
    assert hashlib.sha256(content).hexdigest() == file["sha256"]
    return file["sha256"]


def test_demo_json_has_everything_a_script_needs(up):
    assert up.demo["project"] == "alpha"
    assert set(up.demo["users"]) == {"admin", "alice", "bob"}
    assert {"digits-0-4", "digits-5-9"} <= set(up.demo["models"])
    assert (up.home / "demo.json").stat().st_mode & 0o777 == 0o600


def test_the_terminal_says_once_that_the_address_answers(up):
    until(lambda: f"EMEP answers at {up.url}\n" in up.output.read_text(), "it is said that the address answers", 30)
    assert up.output.read_text().count("EMEP answers at") == 1


def test_the_pool_is_two_nodes_of_four_simulated_gpus_in_two_racks(up):
    nodes = up.client().get("/pool/").json()
    nodes = nodes if isinstance(nodes, list) else nodes["nodes"]
    assert [len(n["gpus"]) for n in nodes] == [4, 4]
    assert len({n["rack_id"] for n in nodes}) == 2
    assert all(n["simulated"] and len({g["nvlink_group_id"] for g in n["gpus"]}) == 1 for n in nodes)


def test_a_merge_by_rest_ends_with_a_downloadable_artifact_and_the_same_bytes_twice(up):
    jobs = [up.until_state(up.merge(f"rest-{i}")["id"], "SUCCEEDED", "FAILED") for i in range(2)]
    assert [j["state"] for j in jobs] == ["SUCCEEDED"] * 2, jobs
    assert len({g["nvlink_group_id"] for g in jobs[0]["gpus"]}) == 1
    assert len({merged_sha256(up, j) for j in jobs}) == 1


def hidden(page: str, name: str) -> str:
    """The value of a hidden field of the page."""
    field = next(f for f in re.findall(r"<input[^>]*>", page) if f'name="{name}"' in f)
    return re.search(r'value="([^"]*)"', field).group(1)


def test_a_merge_by_the_web_form_gives_the_same_bytes_and_posting_it_twice_makes_one_job(up):
    with httpx.Client(base_url=up.url, follow_redirects=True, timeout=60) as browser:
        password = up.demo["users"]["alice"]["password"]
        token = hidden(browser.get("/login/").text, "csrfmiddlewaretoken")
        form = {"username": "alice", "password": password, "csrfmiddlewaretoken": token}
        assert browser.post("/login/", data=form, headers={"Referer": f"{up.url}/login/"}).status_code == 200
        page = browser.get("/jobs/new/").text
        form = {
            "csrfmiddlewaretoken": hidden(page, "csrfmiddlewaretoken"), "key": hidden(page, "key"), "name": "by-form",
            "project": "alpha", "queue": "merge", "priority": "High", "strategy": "slerp", "t": "0.5", "gpu_count": "2",
            "nvlink_required": "on", "max_duration": "1h",
            "model": [up.demo["models"]["digits-0-4"], up.demo["models"]["digits-5-9"]],
        }  # fmt: skip
        pages = [browser.post("/jobs/new/", data=form, headers={"Referer": f"{up.url}/jobs/new/"}) for _ in range(2)]
        assert [p.status_code for p in pages] == [200, 200], pages[0].text
        assert len({p.url for p in pages}) == 1
        made = re.search(r"/jobs/([0-9a-f-]{36})/", str(pages[0].url)).group(1)
        truth.acknowledged(up.truth, made, user="alice", key=form["key"])
        job = up.until_state(made, "SUCCEEDED", "FAILED")
        assert (job["state"], job["priority"]) == ("SUCCEEDED", "High")
        made = job["artifacts"][0]
        content = browser.get(f"/api/v1/artifacts/{made['id']}/files/model.safetensors").content
    assert hashlib.sha256(content).hexdigest() == merged_sha256(
        up, up.until_state(up.merge("again")["id"], "SUCCEEDED")
    )


def test_the_first_update_waits_for_a_change_and_not_for_the_clock(up):
    job = up.merge("wait")
    begun = time.monotonic()
    answer = up.client().get(f"/jobs/{job['id']}/", params={"wait": 30, "since": job["version"]}).json()
    assert answer["version"] > job["version"]
    assert time.monotonic() - begun < 10
    up.until_state(job["id"], "SUCCEEDED")


def test_a_child_that_is_killed_comes_back(up):
    for program in ("web", "celery", "scheduler", "broker", "agent-node-1", "keeper-node-2"):
        pid = up.pid(program)
        os.kill(pid, signal.SIGKILL)
        until(lambda name=program, old=pid: up.pid(name) != old, f"{program} back", 60)
    up.until_state(up.merge("after")["id"], "SUCCEEDED", patience_s=120)


def test_sigterm_leaves_no_process_and_a_second_start_keeps_everything(up):
    before = up.client().get("/jobs/").json()["results"]
    family = up.family()
    assert up.stop() == 0, up.output.read_text()
    until(lambda: gone(family), f"all gone: {family}", 10)
    models = up.demo["models"]
    up.start()
    assert up.demo["models"] == models
    after = up.client().get("/jobs/").json()["results"]
    assert {j["id"]: j["state"] for j in after} == {j["id"]: j["state"] for j in before}


def test_killing_the_supervisor_leaves_no_orphan(up):
    family = up.family()
    assert len(family) >= 8
    up.process.kill()
    up.process.wait()
    until(lambda: gone(family), f"no orphan among {family}", 10)


def test_celery_does_its_chores_in_the_running_set(up):
    up.start()
    up.until_state(up.merge("charged")["id"], "SUCCEEDED")
    broker = re.search(r'EMEP_BROKER_URL="([^"]+)"', (up.home / "run" / "supervisord.conf").read_text()).group(1)
    call = [sys.executable, "-m", "celery", "-A", "emep_site", "call", "scheduling.tasks.roll_up_usage"]
    subprocess.run(call, cwd=ROOT, env={**up.env, "EMEP_BROKER_URL": broker}, check=True, stdout=subprocess.DEVNULL)

    def rolled_up() -> bool:
        with sqlite3.connect(f"file:{up.home / 'emep.sqlite3'}?mode=ro", uri=True) as database:
            rows = database.execute("select project, user, queue, gpu_ms from scheduling_usageday").fetchall()
        return [r[:3] for r in rows] == [("alpha", "alice", "merge")] and rows[0][3] > 0

    until(rolled_up, "the worker has rolled up the usage")
