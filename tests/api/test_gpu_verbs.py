"""What operators do to GPUs over REST, and what REST tells of a GPU that is out of service."""

from __future__ import annotations

import pytest

from tests.api.calls import busy_world, problem, world
from tests.services.sick_gpus import HOT, fails, report

pytestmark = pytest.mark.django_db


def test_a_gpu_out_of_service_says_why_since_when_and_what_comes_next():
    w = world()
    fails({0: HOT})
    told = w.alice.get("pool/gpus/GPU-n1-0/").json()
    assert (told["state"], told["since"]) == ("QUARANTINED", "2026-03-02T12:00:30Z")
    assert told["why"].startswith("3 checks in a row failed: 105 °C")
    assert told["next"] == "waits for a clean check before its test"


def test_a_gpu_in_service_says_nothing_comes_next():
    w = world()
    report(at=10)
    assert w.alice.get("pool/gpus/GPU-n1-0/").json()["next"] is None


def test_a_gpu_is_retired_and_returned_and_each_twice_is_the_same():
    w = world()
    admin = w.caller("admin")
    for verb, state in (("retire", "RETIRED"), ("return", "QUARANTINED")):
        for _ in range(2):
            answer = admin.post(f"pool/gpus/GPU-n1-0/{verb}/")
            assert (answer.status_code, answer.json()) == (200, {"uuid": "GPU-n1-0", "state": state})


def test_a_gpu_with_a_job_is_not_retired_and_the_answer_says_what_to_do():
    w, run = busy_world()
    told = problem(w.caller("admin").post(f"pool/gpus/{run.gpus[0]}/retire/"), 409, "gpu_busy")
    assert "wait for its end, or cancel it" in told["detail"]


@pytest.mark.parametrize("verb", ["retire", "return"])
def test_operating_a_gpu_needs_the_permission_beside_the_scope(verb: str):
    w = world()
    problem(w.alice.post(f"pool/gpus/GPU-n1-0/{verb}/"), 403, "permission_denied")


@pytest.mark.parametrize("verb", ["retire", "return"])
def test_a_gpu_that_is_not_there_is_404(verb: str):
    w = world()
    problem(w.caller("admin").post(f"pool/gpus/GPU-none/{verb}/"), 404, "not_found")
