"""Bytes on their way in: whose they are, where they go on, and what a wrong digest does."""

from __future__ import annotations

import hashlib

import pytest

from scheduling.services import artifact_files, artifacts
from scheduling.services.artifacts import Owner, Refusal
from tests import builders as b
from tests import stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]


def opened(actor, content: bytes, project: str, sha: str | None = None):
    entry = {"path": "model.safetensors", "size": len(content), "sha256": sha or hashlib.sha256(content).hexdigest()}
    return artifacts.begin(Owner(actor=actor), {"project": project, "name": "x", "files": [entry]}, b.NOON)


def put(actor, upload, offset, content):
    return artifacts.put(Owner(actor=actor), upload, "model.safetensors", offset, iter([content]))


def test_bytes_that_the_project_has_need_not_be_sent_again():
    who, content = b.people(), b.tensors(1)
    b.artifact(who["alice"], "first", {"model.safetensors": content})
    made = opened(who["alice"], content, "alpha")
    assert made["have"] == {"model.safetensors": len(content)}
    assert "artifact" in artifacts.commit(Owner(actor=who["alice"]), made["upload"], {}, b.NOON)


@stored.in_bucket
def test_a_commit_that_is_asked_for_again_while_it_goes_on_is_told_to_wait(each_store):
    alice, content = b.people()["alice"], b.tensors(1)
    upload = opened(alice, content, "alpha")["upload"]
    put(alice, upload, 0, content)
    with artifact_files.alone_with(upload, "commit.lock"):
        told = artifacts.commit(Owner(actor=alice), upload, {}, b.NOON)
        assert (told.status, told.code) == (503, "under_way")
    first, again = (artifacts.commit(Owner(actor=alice), upload, {}, b.NOON) for _ in range(2))
    assert first == again
    assert not artifact_files.part(upload, 0).parent.exists()


def test_bytes_of_another_project_read_like_unknown_ones_and_cannot_be_had_by_their_digest():
    who, content = b.people(), b.tensors(1)
    b.artifact(who["alice"], "secret", {"model.safetensors": content})
    made = opened(who["bob"], content, "beta")
    assert made["have"] == {}
    refused = artifacts.commit(Owner(actor=who["bob"]), made["upload"], {}, b.NOON)
    assert (refused.status, refused.code, refused.facts) == (409, "incomplete", {"offset": 0})


def test_a_part_at_any_other_offset_is_answered_with_the_right_one_and_loses_nothing():
    who, content = b.people(), b.tensors(1)
    made = opened(who["alice"], content, "alpha")
    assert put(who["alice"], made["upload"], 0, content[:100]) == {"offset": 100}
    for wrong in (0, 50, 101):
        assert put(who["alice"], made["upload"], wrong, b"zz").facts == {"offset": 100}
    assert put(who["alice"], made["upload"], 100, content[100:]) == {"offset": len(content)}
    assert "artifact" in artifacts.commit(Owner(actor=who["alice"]), made["upload"], {}, b.NOON)


def test_a_file_with_another_digest_is_dropped_and_can_be_sent_again():
    who, content = b.people(), b.tensors(1)
    made = opened(who["alice"], content, "alpha")
    put(who["alice"], made["upload"], 0, bytes(len(content)))
    refused = artifacts.commit(Owner(actor=who["alice"]), made["upload"], {}, b.NOON)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.facts["offset"]) == ("sha256_mismatch", 0)
    put(who["alice"], made["upload"], 0, content)
    assert "artifact" in artifacts.commit(Owner(actor=who["alice"]), made["upload"], {}, b.NOON)


def test_too_many_files_are_refused_with_their_number_the_limit_and_what_to_do():
    who = b.people()
    entries = [{"path": f"{n}", "size": 0, "sha256": ""} for n in range(artifacts.MAX_FILES + 1)]
    refused = artifacts.begin(Owner(actor=who["alice"]), {"project": "alpha", "name": "x", "files": entries}, b.NOON)
    assert (refused.status, refused.code, refused.message) == (
        422, "too_many_files", "it has 10001 files; the limit is 10000: pack them into fewer",
    )  # fmt: skip
