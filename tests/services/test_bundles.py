"""Many small files in one request, up and down: each by its own sha256, all of them or none, and what is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from scheduling.models import Artifact, Upload
from scheduling.services import artifact_bundles, artifact_files, artifacts
from scheduling.services.artifacts import Owner, Refusal
from tests import builders as b
from tests import stored as at_rest
from tests.services.test_gangs import two
from workers.bundles import MAX_BYTES, MAX_FILES, arrived, head

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]

FILES = {"framework/a": b"one", "framework/b": b"two", "framework/c": b"three"}


def entry(path: str, content: bytes, **changed: Any) -> Any:
    return {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changed}


def bundle(files: dict[str, bytes], **changed: Any) -> bytes:
    return head([entry(path, content, **changed) for path, content in files.items()]) + b"".join(files.values())


class Saving:
    """A node that saves ``FILES`` as a checkpoint of its running job."""

    def __init__(self) -> None:
        _, self.run = b.busy_lab()
        self.owner = Owner(node="n1", attempt=self.run.attempt, epoch=self.run.epoch)
        self.opened = self.begins()

    def begins(self, files: dict[str, bytes] = FILES, **about: Any) -> dict[str, Any]:
        asked = {"name": "checkpoint", "kind": "checkpoint", "meta": {"step": 7}, **about}
        entries = [entry(path, content) for path, content in files.items()]
        return artifacts.begin(self.owner, {**asked, "files": entries}, b.NOON)

    def sends(self, content: bytes, owner: Owner | None = None) -> Any:
        return artifact_bundles.receive(owner or self.owner, self.opened["upload"], content)

    def commits(self) -> Any:
        return artifacts.commit(self.owner, self.opened["upload"], {}, b.NOON)


def refusal(answer: Any) -> tuple[int, str]:
    assert isinstance(answer, Refusal)
    return answer.status, answer.code


def test_the_files_of_a_bundle_are_an_artifact_once_committed():
    saving = Saving()
    assert saving.sends(bundle(FILES)) == {"received": 3}
    made = Artifact.objects.get(pk=saving.commits()["artifact"])
    stored = {f["path"]: at_rest.content(f["sha256"]) for f in made.files}
    assert stored == FILES


def test_what_an_attempt_stores_has_no_file_that_is_a_folder_too():
    answer = Saving().begins({"a": b"one", "A/b": b"two"}, name="out", kind="output")
    assert refusal(answer) == (422, "duplicate_path")
    assert "'a' is a file and also the folder of 'A/b'" in answer.message


def test_a_bundle_that_comes_twice_has_one_effect():
    saving = Saving()
    assert saving.sends(bundle(FILES)) == saving.sends(bundle(FILES))
    assert "artifact" in saving.commits()


def test_one_wrong_byte_refuses_the_whole_bundle_and_names_the_file():
    saving = Saving()
    answer = saving.sends(bundle(FILES).replace(b"two", b"twa"))
    assert (refusal(answer), answer.field) == ((422, "sha256_mismatch"), "framework/b")
    assert saving.begins()["have"] == {}


def test_a_sha256_other_than_the_announced_one_is_refused_though_its_bytes_have_it():
    saving = Saving()
    assert refusal(saving.sends(bundle({"framework/a": b"eno"}))) == (422, "sha256_mismatch")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (bundle({"framework/x": b"x"}), 404, "no_such_file"),
        (bundle({"framework/a": b"longer"}), 422, "bad_size"),
        (bundle(FILES)[:-1], 422, "bad_bundle"),
        (bundle(FILES) + b"x", 422, "bad_bundle"),
        (b"", 422, "bad_bundle"),
        (b"no line", 422, "bad_bundle"),
        (b"[]\n", 422, "bad_bundle"),
        (b"{}\n", 422, "bad_bundle"),
        (b"[3]\n", 422, "bad_bundle"),
        (head([entry("../a", b"")]), 422, "bad_bundle"),
        (head([entry("a", b"", size=-1)]), 422, "bad_bundle"),
        (head([entry("a", b"", sha256="zz")]), 422, "bad_bundle"),
        (head([entry("a", b""), entry("a", b"")]), 422, "bad_bundle"),
    ],
)
def test_what_is_no_bundle_of_announced_files_is_refused(content, status, code):
    assert refusal(Saving().sends(content)) == (status, code)


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([entry(f"f{n}", b"") for n in range(MAX_FILES + 1)], f"the limit is {MAX_FILES}"),
        ([entry("f", b"", size=MAX_BYTES + 1)], f"the limit is {MAX_BYTES}"),
    ],
)
def test_a_bundle_beyond_a_limit_is_refused_with_the_limit_and_what_to_do(rows, limit):
    answer = Saving().sends(head(rows))
    assert refusal(answer) == (422, "bad_bundle")
    assert limit in answer.message
    assert "send the rest in another" in answer.message


def test_a_stale_epoch_sends_nothing():
    saving = Saving()
    stale = Owner(node="n1", attempt=saving.run.attempt, epoch=saving.run.epoch + 1)
    assert refusal(saving.sends(bundle(FILES), stale)) == (409, "stale_epoch")


def test_after_the_commit_nothing_more_is_taken():
    saving = Saving()
    saving.sends(bundle(FILES))
    saving.commits()
    assert refusal(saving.sends(bundle(FILES))) == (409, "committed")


def test_a_full_disk_says_so_and_the_rest_can_come_later(monkeypatch):
    saving = Saving()

    def full(*_: object) -> None:
        raise artifact_files.NoSpace("the artifact store is full")

    monkeypatch.setattr(artifact_files, "keep_whole", full)
    assert refusal(saving.sends(bundle(FILES))) == (507, "no_space")


# ---------------------------------------------------------------- going on


def test_an_upload_that_was_cut_off_goes_on_with_what_has_arrived():
    saving = Saving()
    saving.sends(bundle({"framework/a": b"one"}))
    again = saving.begins()
    assert again == {"upload": saving.opened["upload"], "have": {"framework/a": 3}}


@pytest.mark.parametrize("other", [{"files": {"framework/a": b"new"}}, {"meta": {"step": 8}}, {"name": "other"}])
def test_what_is_not_the_same_is_an_upload_of_its_own(other):
    saving = Saving()
    assert saving.begins(**other)["upload"] != saving.opened["upload"]


def test_of_another_epoch_nothing_is_gone_on_with():
    saving = Saving()
    Upload.objects.update(epoch=saving.run.epoch + 1)
    assert saving.begins()["upload"] != saving.opened["upload"]


def test_equal_results_of_two_nodes_are_two_uploads():
    gang = two()
    asked = {"name": "out", "kind": "output", "files": [entry("a", b"one")]}
    owners = [Owner(node=node, attempt=gang.attempt, epoch=gang.epoch) for node in gang.ranks]
    assert len({artifacts.begin(owner, asked, b.NOON)["upload"] for owner in owners}) == 2


# ---------------------------------------------------------------- down


def stored(files: dict[str, bytes]) -> list[dict[str, Any]]:
    saving = Saving()
    saving.sends(bundle(files))
    return Artifact.objects.get(pk=saving.commits()["artifact"]).files


def test_the_files_that_are_asked_for_come_in_that_order():
    sent = artifact_bundles.send(stored(FILES), ["framework/c", "framework/a"])
    files, pieces = arrived(sent)
    assert [(f["path"], piece) for f, piece in zip(files, pieces, strict=True)] == [
        ("framework/c", b"three"), ("framework/a", b"one"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("paths", "status", "code"),
    [
        (None, 422, "required"), ([], 422, "required"), ([3], 422, "required"), (["x"], 404, "no_such_file"),
        (["a"] * (MAX_FILES + 1), 422, "too_many_files"), (["big"], 413, "too_large"),
    ],
)  # fmt: skip
def test_a_request_beyond_the_files_or_a_limit_is_refused(paths, status, code):
    files = [entry("a", b"one"), entry("big", b"", size=MAX_BYTES + 1)]
    assert refusal(artifact_bundles.send(files, paths)) == (status, code)


def test_bytes_that_are_gone_are_told_by_name():
    answer = artifact_bundles.send([entry("lost", b"nobody has stored this")], ["lost"])
    assert (refusal(answer), answer.field) == ((500, "bytes_missing"), "lost")
