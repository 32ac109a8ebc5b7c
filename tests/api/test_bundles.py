"""The addresses of bundles: whose they are, and what a request that is no bundle is told."""

from __future__ import annotations

import hashlib

import pytest

from scheduling.models import Attempt
from tests.api.calls import busy_world, problem
from workers.bundles import MAX_BYTES, MAX_HEAD, arrived, head

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]

CONTENT = b"saved"
ENTRY = {"path": "a", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}
BUNDLE = head([ENTRY]) + CONTENT


def begun():
    w, run = busy_world()
    asked = {"epoch": run.epoch, "name": "checkpoint", "kind": "checkpoint", "files": [ENTRY]}
    upload = w.node.post(f"attempts/{run.attempt}/artifacts/", asked).json()["upload"]
    return w, run, f"attempts/{run.attempt}/artifacts/{upload}"


def test_what_a_node_saves_by_a_bundle_it_gets_back_by_a_bundle():
    w, run, where = begun()
    assert w.node.post(f"{where}/bundle/", BUNDLE, X_EMEP_Epoch=str(run.epoch)).json() == {"received": 1}
    saved = w.node.post(f"{where}/commit/", {"epoch": run.epoch}).json()["artifact"]
    Attempt.objects.filter(pk=run.attempt).update(resume=saved)
    answer = w.node.post(f"attempts/{run.attempt}/inputs/{saved}/bundle/", {"epoch": run.epoch, "paths": ["a"]})
    assert arrived(answer.content) == ([ENTRY], [CONTENT])


def test_without_an_epoch_or_with_an_old_one_nothing_is_taken():
    w, run, where = begun()
    problem(w.node.post(f"{where}/bundle/", BUNDLE), 422, "bad_epoch")
    problem(w.node.post(f"{where}/bundle/?epoch={run.epoch + 1}", BUNDLE), 409, "stale_epoch")


def test_a_body_larger_than_a_bundle_can_be_is_413():
    w, run, where = begun()
    sent = w.node.post(f"{where}/bundle/", bytes(MAX_HEAD + MAX_BYTES + 1), X_EMEP_Epoch=str(run.epoch))
    problem(sent, 413, "too_large")


def test_an_artifact_that_the_attempt_does_not_read_is_not_there_for_it():
    w, run, _ = begun()
    other = "00000000-0000-4000-8000-000000000000"
    asked = {"epoch": run.epoch, "paths": ["a"]}
    problem(w.node.post(f"attempts/{run.attempt}/inputs/{other}/bundle/", asked), 404, "not_found")
    problem(w.node.post(f"attempts/{run.attempt}/inputs/{other}/bundle/", {**asked, "epoch": 99}), 409, "stale_epoch")
