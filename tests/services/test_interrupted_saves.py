"""A checkpoint of four shards whose upload is cut off at any point: it is never resumed from."""

from __future__ import annotations

import hashlib

import pytest

from scheduling.models import Artifact, Job
from scheduling.services import artifacts
from tests import builders as b

pytestmark = pytest.mark.django_db

SHARDS = {f"framework/shard-{n}.bin": bytes([n]) * 40 for n in range(4)}
HALVES = [(path, 20 * half, SHARDS[path][20 * half : 20 * half + 20]) for path in SHARDS for half in (0, 1)]
DIGESTS = {"sha256": {path: hashlib.sha256(content).hexdigest() for path, content in SHARDS.items()}}


def uploaded(run: b.Running, pieces: int) -> tuple[artifacts.Owner, str]:
    """An upload of the four shards, of which so many pieces have arrived."""
    owner = artifacts.Owner(node=run.node, attempt=run.attempt, epoch=run.epoch)
    files = [{"path": path, "size": 40, "sha256": digest} for path, digest in DIGESTS["sha256"].items()]
    opened = artifacts.begin(owner, {"name": "checkpoint", "kind": "checkpoint", "files": files}, b.later(10))
    for path, offset, piece in HALVES[:pieces]:
        artifacts.put(owner, opened["upload"], path, offset, iter([piece]))
    return owner, opened["upload"]


def lost(run: b.Running) -> Job:
    """The job, after its node said that it was lost."""
    b.finished(run, "LOST", why="lost", now=b.later(20))
    return Job.objects.get(pk=run.job)


@pytest.mark.parametrize("pieces", range(len(HALVES) + 1))
def test_cut_off_before_its_commit_the_one_before_it_is_resumed_from(pieces):
    _, run = b.busy_lab()
    whole = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint", now=b.later(5))
    report = {"type": "checkpoint", "attempt": run.attempt, "epoch": run.epoch, "artifact": whole, "step": 3}
    assert b.beat(now=b.later(6), reports=[report])["answers"][0]["ok"]
    uploaded(run, pieces)
    job = lost(run)
    assert (str(job.resume_id), job.resume_step) == (whole, 3)
    assert Artifact.objects.filter(kind="checkpoint").count() == 1


def test_a_commit_before_the_last_piece_is_refused_and_leaves_nothing():
    _, run = b.busy_lab()
    owner, upload = uploaded(run, len(HALVES) - 1)
    assert isinstance(artifacts.commit(owner, upload, DIGESTS, b.later(11)), artifacts.Refusal)
    assert (lost(run).resume_id, Artifact.objects.filter(kind="checkpoint").count()) == (None, 0)


def test_committed_and_not_yet_told_it_is_not_resumed_from_either():
    _, run = b.busy_lab()
    owner, upload = uploaded(run, len(HALVES))
    artifacts.commit(owner, upload, DIGESTS, b.later(11))
    assert (lost(run).resume_id, Artifact.objects.get(kind="checkpoint").published) == (None, False)
