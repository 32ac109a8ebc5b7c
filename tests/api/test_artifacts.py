"""Artifacts over REST: resumable uploads, bytes that are checked, downloads by range, and no way out of the store."""

from __future__ import annotations

import io
import zipfile
from typing import Any
from uuid import UUID

import pytest

from scheduling.api import uploads
from scheduling.api.shapes.artifacts import ArtifactShape, CodeShape, LineageNode, LineageShape, MadeByShape
from scheduling.api.shapes.files import FileShape
from scheduling.models import Artifact, Project
from scheduling.services import artifact_files
from tests import builders as b
from tests import stored
from tests.api.calls import Caller, busy_world, error, fetched, problem, sha, world

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]


def begun(caller: Caller, files: dict[str, bytes], *, hashes: bool = False, **changed: Any) -> dict[str, Any]:
    """The opened upload of these files."""
    entries = [{"path": p, "size": len(c), **({"sha256": sha(c)} if hashes else {})} for p, c in files.items()]
    answer = caller.post("artifacts/", {"name": "m", "kind": "model", "project": "alpha", "files": entries, **changed})
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_an_upload_in_parts_becomes_an_artifact_with_the_same_bytes():
    w = world(node=False)
    alice, content = w.alice, b.tensors(7)
    upload = begun(alice, {"model.safetensors": content})["upload"]
    where = f"artifacts/uploads/{upload}/files/model.safetensors"
    half = len(content) // 2
    assert alice.put(f"{where}?offset=0", content[:half]).json() == {"offset": half}
    assert alice.get(f"artifacts/uploads/{upload}/").json()["have"] == {"model.safetensors": half}
    assert alice.put(f"{where}?offset={half}", content[half:]).json() == {"offset": len(content)}
    made = alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"model.safetensors": sha(content)}})
    assert (made.status_code, made.json()["name"], made.json()["size"]) == (201, "m", len(content))
    assert fetched(alice.get(f"artifacts/{made.json()['id']}/files/model.safetensors")) == content


def test_a_commit_that_is_sent_twice_gives_the_same_artifact():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abc")
    commits = [
        w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"a.txt": sha(b"abc")}}).json() for _ in range(2)
    ]
    assert commits[0]["id"] == commits[1]["id"]


def test_bytes_that_the_store_has_need_not_be_sent():
    w = world(node=False)
    content = b.tensors(1)  # those of the model a
    opened = begun(w.alice, {"model.safetensors": content}, hashes=True)
    assert opened["have"] == {"model.safetensors": len(content)}
    assert w.alice.post(f"artifacts/uploads/{opened['upload']}/commit/").status_code == 201


def test_a_wrong_offset_is_409_with_the_right_one():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abcdef"}, kind="output")["upload"]
    where = f"artifacts/uploads/{upload}/files/a.txt"
    w.alice.put(f"{where}?offset=0", b"abc")
    assert problem(w.alice.put(f"{where}?offset=5", b"f"), 409, "wrong_offset")["offset"] == 3


def test_bytes_that_are_here_already_are_not_overwritten():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abcdef"}, kind="output")["upload"]
    where = f"artifacts/uploads/{upload}/files/a.txt"
    w.alice.put(f"{where}?offset=0", b"abc")
    assert problem(w.alice.put(f"{where}?offset=0", b"xyz"), 409, "wrong_offset")["offset"] == 3
    w.alice.put(f"{where}?offset=3", b"def")
    committed = w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"a.txt": sha(b"abcdef")}})
    assert committed.status_code == 201


def test_a_commit_of_half_an_upload_is_409_with_what_is_there():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abcdef"}, kind="output")["upload"]
    w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abc")
    answer = w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"a.txt": sha(b"abcdef")}})
    assert problem(answer, 409, "incomplete")["offset"] == 3


def test_more_bytes_than_were_announced_are_refused():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    problem(w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abcdef"), 422, "too_long")


def test_a_part_larger_than_the_limit_is_413_and_names_it(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_PART", 4)
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abcdef"}, kind="output")["upload"]
    assert (
        problem(w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abcdef"), 413, "too_large")["errors"][0][
            "limit"
        ]
        == 4
    )


def test_bytes_with_another_sha256_are_refused_with_the_one_they_have():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abd")
    answer = w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"a.txt": sha(b"abc")}})
    assert problem(answer, 422, "sha256_mismatch")["sha256"] == sha(b"abd")
    assert not Artifact.objects.filter(name="m").exists()


@pytest.mark.parametrize("claimed", ["", "xyz", "../../../../../etc/passwd", "..//etc/passwd", 5, ["a"]])
def test_a_sha256_that_is_none_is_refused(claimed: Any):
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    w.alice.put(f"artifacts/uploads/{upload}/files/a.txt", b"abc")
    problem(w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"a.txt": claimed}}), 422, "bad_sha256")


def test_a_commit_tells_a_sha256_that_is_missing_and_before_that_bytes_that_are():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc", "b.txt": b""}, kind="output")["upload"]
    where = f"artifacts/uploads/{upload}"
    w.alice.put(f"{where}/files/a.txt", b"a")
    told = problem(w.alice.post(f"{where}/commit/"), 409, "incomplete")
    assert (told["offset"], told["detail"].split("; ")[0]) == (1, "'a.txt' has 1 of 3 bytes: send the rest")
    w.alice.put(f"{where}/files/a.txt?offset=1", b"bc")
    told = error(w.alice.post(f"{where}/commit/"), 422, "a.txt", "required")["message"]
    assert told.split("; ")[0] == "sha256 of 'a.txt' is missing: give it in sha256, as 64 hex digits"
    digests = {"a.txt": sha(b"abc"), "b.txt": sha(b"")}
    assert w.alice.post(f"{where}/commit/", {"sha256": digests}).status_code == 201


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as whole:
        whole.writestr("archive/data.pkl", b"x" * 400)
    return file.getvalue()


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        (
            "w.pt",
            archive()[:-30],
            "'w.pt' holds no whole weights: it is a zip archive without its end, cut off perhaps",
        ),
        ("pytorch_model.bin", b"", "'pytorch_model.bin' holds no whole weights: it is empty"),
        ("w.pt", archive(), ""),
        ("w.pth", b"\x80\x02old", ""),
        ("readme.zip", archive()[:-30], ""),
    ],
)
def test_weights_of_pytorch_that_were_cut_off_are_refused_at_the_commit(path: str, content: bytes, said: str):
    w = world(node=False)
    upload = begun(w.alice, {path: content}, hashes=True)["upload"]
    if content:
        w.alice.put(f"artifacts/uploads/{upload}/files/{path}", content)
    answer = w.alice.post(f"artifacts/uploads/{upload}/commit/")
    if said:
        assert error(answer, 422, path, "corrupt_model")["message"] == said
    else:
        assert answer.status_code == 201


def test_an_upload_that_is_given_up_is_gone_with_its_bytes_and_frees_its_quota():
    w = world(node=False)
    Project.objects.filter(name="alpha").update(artifact_quota_gb=1)
    large = {"name": "m", "project": "alpha", "files": [{"path": "m.bin", "size": 9 * 10**8}]}
    upload = w.alice.post("artifacts/", large).json()["upload"]
    where = f"artifacts/uploads/{upload}/"
    w.alice.put(f"{where}files/m.bin", b"abc")
    problem(w.alice.post("artifacts/", large), 413, "over_quota")
    problem(w.caller("bob").delete(where), 404, "no_such_upload")
    assert w.caller("alice", "artifacts:read").delete(where).status_code == 403
    assert (w.alice.delete(where).status_code, artifact_files.part_sizes(UUID(upload))) == (204, {})
    problem(w.alice.delete(where), 404, "no_such_upload")
    problem(w.alice.post(f"{where}commit/"), 404, "no_such_upload")
    assert w.alice.post("artifacts/", large).status_code == 201


def test_a_committed_upload_can_not_be_given_up():
    w = world(node=False)
    upload = begun(w.alice, {"model.safetensors": b.tensors(1)}, hashes=True)["upload"]
    made = w.alice.post(f"artifacts/uploads/{upload}/commit/").json()["id"]
    problem(w.alice.delete(f"artifacts/uploads/{upload}/"), 409, "committed")
    assert w.alice.get(f"artifacts/{made}/").status_code == 200


@pytest.mark.parametrize(
    "cut", [lambda c: c[:-7], lambda c: b"\xff" * 64, lambda c: b""], ids=["truncated", "noise", "empty"]
)
def test_a_corrupt_safetensors_file_is_refused(cut):
    w = world(node=False)
    content = cut(b.tensors(7))
    upload = begun(w.alice, {"model.safetensors": content})["upload"]
    w.alice.put(f"artifacts/uploads/{upload}/files/model.safetensors", content)
    answer = w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": {"model.safetensors": sha(content)}})
    error(answer, 422, "model.safetensors", "corrupt_model")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a\\b", "a//b", "..", "a%2fb", "x."])
def test_a_file_name_that_leaves_its_artifact_is_refused(path: str):
    w = world(node=False)
    answer = w.alice.post("artifacts/", {"name": "m", "project": "alpha", "files": [{"path": path, "size": 1}]})
    error(answer, 400, "files", "unsafe_path")


def test_a_file_name_with_a_nul_is_refused():
    w = world(node=False)
    answer = w.alice.post("artifacts/", {"name": "m", "project": "alpha", "files": [{"path": "a\x00b", "size": 1}]})
    error(answer, 422, "files.0.path", "bad_character")


TRICKS = [
    "../../secret_key",
    "..%2f..%2fsecret_key",
    "%2e%2e/x",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "..%5cx",
    "a.txt%00",
    "%00",
    "A.TXT",
]


@pytest.mark.parametrize("path", TRICKS)
def test_no_path_leads_out_of_an_upload_or_an_artifact(path: str, settings):
    w = world(node=False)
    (settings.ARTIFACT_DIR.parent / "secret_key").write_text("secret")
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    made = b.artifact(w.who["alice"], "files", {"a.txt": b"abc"}, kind="output")
    for answer in (
        w.alice.put(f"artifacts/uploads/{upload}/files/{path}", b"abc"),
        w.alice.get(f"artifacts/{made}/files/{path}"),
    ):
        problem(answer, 404)


@pytest.mark.parametrize(
    ("changed", "status", "field", "code"),
    [
        ({"files": []}, 422, "files", "required"),
        ({"files": "a.txt"}, 422, "files", "required"),
        ({"files": ["a.txt"]}, 422, "files", "bad_file"),
        ({"files": [{"path": "a", "size": -1}]}, 422, "files", "bad_size"),
        ({"files": [{"path": "a", "size": "1"}]}, 422, "files", "bad_size"),
        ({"files": [{"path": "a", "size": 1, "sha256": "zz"}]}, 422, "files", "bad_sha256"),
        ({"files": [{"path": "a", "size": 1}, {"path": "A", "size": 1}]}, 422, "files", "duplicate_path"),
        ({"files": [{"path": "d/" + "x" * 256, "size": 1}]}, 400, "files", "unsafe_path"),
        ({"files": [{"path": "a", "size": 2**60}]}, 413, "files", "too_large"),
        ({"name": "a/b"}, 422, "name", "bad_name"),
        ({"name": ""}, 422, "name", "bad_name"),
        ({"kind": "modle"}, 422, "kind", "unknown_kind"),
        ({"kind": []}, 422, "kind", "unknown_kind"),
        ({"project": "beta"}, 422, "project", "unknown_project"),
    ],
)  # fmt: skip
def test_a_bad_announcement_is_refused(changed: dict[str, Any], status: int, field: str, code: str):
    w = world(node=False)
    body = {"name": "m", "project": "alpha", "files": [{"path": "a.txt", "size": 1}], **changed}
    error(w.alice.post("artifacts/", body), status, field, code)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["a", "a/b"], "'a' is a file and also the folder of 'a/b' (case does not count): rename one"),
        (["d/x/y/z", "D/X"], "'D/X' is a file and also the folder of 'd/x/y/z' (case does not count): rename one"),
        (["a/b", "A/B"], "two files have one name (case does not count): 'a/b' and 'A/B'"),
    ],
)
def test_files_that_can_not_lie_in_one_directory_are_refused_by_name(paths: list[str], said: str):
    body = {"name": "m", "project": "alpha", "files": [{"path": path, "size": 1} for path in paths]}
    answer = world(node=False).alice.post("artifacts/", body)
    assert error(answer, 422, "files", "duplicate_path")["message"] == said


def test_names_that_only_begin_alike_are_no_clash():
    paths = ["a", "a.b/c", "ab/c", "b/a", "b/c/a"]
    body = {"name": "m", "project": "alpha", "files": [{"path": path, "size": 1} for path in paths]}
    assert world(node=False).alice.post("artifacts/", body).status_code == 201


def test_what_is_wrong_with_an_announcement_is_told_at_once_and_bounded():
    files = [{"path": f"f{place}", "size": -1} for place in range(7)]
    answer = world(node=False).alice.post("artifacts/", {"name": "a/b", "kind": "modle", "files": files})
    told = error(answer, 422, "files", "bad_size")["message"]
    assert told.startswith("size of 'f0' must be a whole number of bytes; size of 'f1' must")
    assert told.endswith("size of 'f4' must be a whole number of bytes; and 4 more")


def test_every_file_that_is_no_model_is_told_at_once():
    w = world(node=False)
    contents = {"a.safetensors": b"noise", "b.safetensors": b""}
    upload = begun(w.alice, contents)["upload"]
    for path, content in contents.items():
        w.alice.put(f"artifacts/uploads/{upload}/files/{path}", content)
    digests = {path: sha(content) for path, content in contents.items()}
    answer = w.alice.post(f"artifacts/uploads/{upload}/commit/", {"sha256": digests})
    told = error(answer, 422, "a.safetensors", "corrupt_model")["message"]
    assert ["'a.safetensors' is not a whole" in told, "'b.safetensors' is not a whole" in told] == [True, True]


def test_a_project_that_is_no_text_is_said_back_as_it_was_sent():
    body = {"name": "m", "project": ["beta"], "files": [{"path": "a.txt", "size": 1}]}
    answer = world(node=False).alice.post("artifacts/", body)
    assert error(answer, 422, "project", "unknown_project")["message"] == 'there is no project ["beta"] among yours'


def test_an_announcement_without_its_project_says_that_it_is_missing():
    answer = world(node=False).alice.post("artifacts/", {"name": "m", "files": [{"path": "a.txt", "size": 1}]})
    assert error(answer, 422, "project", "required")["message"].startswith("project is missing: name the project")


def test_unknown_fields_of_an_announcement_are_refused_with_the_nearest():
    w = world(node=False)
    body = {"name": "m", "project": "alpha", "files": [{"path": "a.txt", "size": 1}], "knid": "model", "colour": 1}
    answer = w.alice.post("artifacts/", body)
    assert "did you mean 'kind'" in error(answer, 422, "knid", "unknown_field")["message"]
    error(answer, 422, "colour", "unknown_field")


@pytest.mark.parametrize(
    ("meta", "field", "code"),
    [
        ({"note": "a\x00b"}, "meta.note", "bad_character"),
        ({"notes": ["a", "\ud800"]}, "meta.notes.1", "bad_character"),
        ({"seed": 10**400}, "meta.seed", "number_too_large"),
    ],
)
def test_what_no_database_keeps_is_refused_by_its_path(meta: dict[str, Any], field: str, code: str):
    w = world(node=False)
    body = {"name": "m", "project": "alpha", "files": [{"path": "a.txt", "size": 1}], "meta": meta}
    error(w.alice.post("artifacts/", body), 422, field, code)


def test_another_persons_upload_reads_like_one_that_is_not_there():
    w = world(node=False)
    upload = begun(w.alice, {"a.txt": b"abc"}, kind="output")["upload"]
    bob, missing = w.caller("bob"), "00000000-0000-4000-8000-000000000000"
    for method, rest, body in (("GET", "", None), ("PUT", "files/a.txt", b"abc"), ("POST", "commit/", {})):
        theirs, none = (bob(method, f"artifacts/uploads/{u}/{rest}", body) for u in (upload, missing))
        assert (theirs.status_code, theirs.content) == (404, none.content)


def test_artifacts_are_listed_filtered_and_shaped_as_documented():
    w = world(node=False)
    b.artifact(w.who["alice"], "table", {"a.csv": b"1"}, kind="dataset")
    listed = w.alice.get("artifacts/?kind=dataset&project=alpha&q=tab").json()["results"]
    assert [a["name"] for a in listed] == ["table"]
    assert listed[0].keys() == ArtifactShape().fields.keys()
    assert len(w.alice.get("artifacts/?limit=2").json()["results"]) == 2


def test_damaged_ones_are_listed_apart():
    w = world(node=False)
    Artifact.objects.filter(pk=w.models[0]).update(corrupt=True)
    listed = {flag: w.alice.get(f"artifacts/?corrupt={flag}").json()["results"] for flag in ("true", "false")}
    assert [a["id"] for a in listed["true"]] == [w.models[0]]
    assert w.models[0] not in [a["id"] for a in listed["false"]]
    error(w.alice.get("artifacts/?corrupt=maybe"), 400, "corrupt", "unknown_corrupt")


def test_files_that_can_run_code_when_they_are_loaded_are_labelled():
    w = world(node=False)
    made = b.artifact(w.who["alice"], "old", {"net.pt": b"x", "config.json": b"{}"})
    files = w.alice.get(f"artifacts/{made}/").json()["files"]
    assert [(f["path"], f["unsafe"]) for f in files] == [("config.json", None), ("net.pt", "PyTorch pickle")]
    assert files[0].keys() == FileShape().fields.keys()


def test_an_upload_into_a_project_that_there_is_not_is_refused_to_admins_too():
    w = world(node=False)
    body = {"name": "m", "project": "gamma", "files": [{"path": "a.txt", "size": 1}]}
    error(w.caller("admin").post("artifacts/", body), 422, "project", "unknown_project")


def test_lineage_names_the_models_a_merge_was_made_from():
    w, run = busy_world()
    made = b.output(run)
    b.finished(run, artifacts=[made])
    lineage = w.alice.get(f"artifacts/{made}/lineage/").json()
    assert {(e["parent"], e["child"]) for e in lineage["edges"]} == {(m, made) for m in w.models}


def test_lineage_has_the_documented_members_and_goes_one_way_where_that_is_asked():
    w, run = busy_world()
    made = b.output(run)
    b.finished(run, artifacts=[made])
    whole = w.alice.get(f"artifacts/{made}/lineage/").json()
    assert whole.keys() == LineageShape().fields.keys()
    assert whole["nodes"][-1].keys() == LineageNode().fields.keys()
    assert whole["nodes"][-1]["made_by"].keys() == MadeByShape().fields.keys()
    assert whole["nodes"][-1]["made_by"]["code"].keys() == CodeShape().fields.keys()
    sizes = [len(w.alice.get(f"artifacts/{made}/lineage/?{q}").json()["nodes"]) for q in ("direction=down", "depth=1")]
    assert sizes == [1, 3]


@pytest.mark.parametrize(
    ("asked", "field"), [("direction=sideways", "direction"), ("depth=0", "depth"), ("depth=21", "depth")]
)
def test_another_direction_or_depth_is_400_with_those_there_are(asked: str, field: str):
    w = world(node=False)
    refused = error(w.alice.get(f"artifacts/{w.models[0]}/lineage/?{asked}"), 400, field, "bad_parameter")
    assert refused["limit"] in (["both", "up", "down"], [1, 20])


# ---------------------------------------------------------------- ranges

TEN = b"0123456789"


def ten() -> tuple[Caller, str]:
    w = world(node=False)
    made = b.artifact(w.who["alice"], "ten", {"dir/ten ü.bin": TEN}, kind="output")
    return w.alice, f"artifacts/{made}/files/dir/ten%20%C3%BC.bin"


def test_a_download_is_an_attachment_that_is_never_sniffed():
    alice, where = ten()
    answer = alice.get(where)
    assert (answer.status_code, fetched(answer), answer["Content-Length"]) == (200, TEN, "10")
    assert (answer["ETag"], answer["Accept-Ranges"]) == (f'"{sha(TEN)}"', "bytes")
    assert (answer["X-Content-Type-Options"], answer["Content-Type"]) == ("nosniff", "application/octet-stream")
    assert answer["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("asked", "bytes_", "told"),
    [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=0-99", TEN, "bytes 0-9/10"),
        ("bytes=-99", TEN, "bytes 0-9/10"),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
    ],
)
def test_a_range_is_206_with_just_those_bytes(asked: str, bytes_: bytes, told: str):
    alice, where = ten()
    answer = alice.get(where, Range=asked)
    assert (answer.status_code, fetched(answer), answer["Content-Range"], answer["Content-Length"]) == (
        206, bytes_, told, str(len(bytes_))
    )  # fmt: skip


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_outside_is_416_with_the_size(asked: str):
    alice, where = ten()
    answer = alice.get(where, Range=asked)
    assert problem(answer, 416, "range_not_satisfiable")["errors"][0]["limit"] == 10
    assert answer["Content-Range"] == "bytes */10"


@pytest.mark.parametrize("asked", ["bytes=", "bytes=a-b", "items=0-1", "bytes=4-2", "bytes=0-1,3-4", "bytes=-"])
def test_a_range_that_is_not_one_range_means_the_whole(asked: str):
    alice, where = ten()
    answer = alice.get(where, Range=asked)
    assert (answer.status_code, fetched(answer)) == (200, TEN)


def test_a_range_of_another_version_means_the_whole():
    alice, where = ten()
    assert alice.get(where, Range="bytes=2-4", If_Range='"other"').status_code == 200
    assert alice.get(where, Range="bytes=2-4", If_Range=f'"{sha(TEN)}"').status_code == 206


def test_bytes_one_has_are_304():
    alice, where = ten()
    assert alice.get(where, If_None_Match=f'"{sha(TEN)}"').status_code == 304


def test_head_tells_the_length_and_sends_nothing():
    alice, where = ten()
    answer = alice("HEAD", where)
    assert (answer.status_code, answer["Content-Length"], fetched(answer)) == (200, "10", b"")


def test_bytes_that_are_gone_are_a_plain_500():
    alice, where = ten()
    stored.spoil(sha(TEN), None)
    problem(alice.get(where), 500, "bytes_missing")
