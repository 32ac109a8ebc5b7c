"""What belongs to another project reads exactly like what does not exist."""

from __future__ import annotations

import pytest

from tests import builders as b
from tests.api.calls import busy_world, world

pytestmark = pytest.mark.django_db

MISSING = "00000000-0000-4000-8000-000000000000"
JOB_ROUTES = [("GET", r) for r in ("", "events/", "attempts/", "logs/", "metrics/")]
JOB_ROUTES += [("POST", r) for r in ("cancel/", "hold/", "release/", "clone/")]


@pytest.mark.parametrize(("method", "rest"), JOB_ROUTES, ids=lambda value: value)
def test_a_foreign_job_reads_like_a_missing_one(method: str, rest: str):
    w, run = busy_world()
    bob = w.caller("bob")
    foreign, missing, malformed = (bob(method, f"jobs/{j}/{rest}") for j in (run.job, MISSING, "nonsense"))
    assert foreign.status_code == 404
    assert foreign.content == missing.content == malformed.content
    assert foreign.headers == missing.headers


@pytest.mark.parametrize("rest", ["", "lineage/", "files/model.safetensors"])
def test_a_foreign_artifact_reads_like_a_missing_one(rest: str):
    w = world(node=False)
    bob = w.caller("bob")
    foreign, missing = (bob.get(f"artifacts/{a}/{rest}") for a in (w.models[0], MISSING))
    assert foreign.status_code == 404
    assert foreign.content == missing.content


def test_an_unpublished_output_of_a_running_attempt_is_not_there_yet():
    w, run = busy_world()
    assert w.alice.get(f"artifacts/{b.output(run)}/").status_code == 404


def test_a_gpu_held_by_a_foreign_job_is_busy_and_nothing_more():
    w, run = busy_world()
    theirs, ours = (w.caller(n).get(f"pool/gpus/{run.gpus[0]}/").json() for n in ("bob", "alice"))
    assert (theirs["busy"], theirs["job"]) == (True, None)
    assert ours["job"]["id"] == run.job


def test_a_foreign_token_can_not_be_revoked():
    w = world(node=False)
    token_id = w.alice.get("tokens/").json()["results"][0]["id"]
    assert w.caller("bob").delete(f"tokens/{token_id}/").status_code == 404
    assert w.caller("bob").delete("tokens/%25%25%25%25%25%25%25%25%25%25%25%25%25%25%25%25/").status_code == 404
