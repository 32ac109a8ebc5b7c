"""Files on the server become an artifact: what is taken, what is refused by name, and what a stop leaves."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from scheduling.models import Artifact, Project, Upload
from scheduling.services import artifact_files, importing, upkeep
from scheduling.services.artifacts import Refusal
from scheduling.services.import_sources import NotImportable, look
from scheduling.services.importing import Wanted
from tests import builders as b
from tests import stored as at_rest

REVISION = "0123456789abcdef0123456789abcdef01234567"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def laid(folder: Path, files: dict[str, bytes]) -> Path:
    """The directory with these files."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def snapshot(cache: Path, files: dict[str, bytes], *, sort: str = "models", revision: str = REVISION) -> Path:
    """A snapshot as Hugging Face's library leaves it: large files are named by sha256, small ones as git names them."""
    repository = cache / f"{sort}--org--tiny"
    folder = repository / "snapshots" / revision
    folder.mkdir(parents=True)
    (repository / "blobs").mkdir(exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(revision)
    for path, content in files.items():
        blob = repository / "blobs" / (sha(content) if path.endswith(".safetensors") else git(content))
        blob.write_bytes(content)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(os.path.relpath(blob, (folder / path).parent))
    return folder


@pytest.fixture
def who(db, each_store):
    return b.people()


def imported(actor, place: Path, *, told=lambda _: None, **wanted):
    source = look(place)
    return importing.run(source, Wanted(**{"project": "alpha", "name": source.name, "kind": source.kind, **wanted}),
                         actor, lambda: b.NOON, told)  # fmt: skip


def nothing_left() -> bool:
    files = [path for path in artifact_files.made().rglob("*") if path.is_file() and path.suffix != ".lock"]
    return not Upload.objects.exists() and not files


# A bucket takes no links.
TAKEN = [("directory", False), ("directory", True), ("bucket", False)]
FILES = {"model.safetensors": b.tensors(1), "config.json": b"{}", "deep/er/notes.txt": b"n", "empty.txt": b""}


# ---------------------------------------------------------------- what is taken


@pytest.mark.parametrize(("each_store", "link"), TAKEN, indirect=["each_store"])
def test_a_directory_has_the_digest_that_the_same_bytes_have_by_upload(who, tmp_path, link):
    uploaded = Artifact.objects.get(pk=b.artifact(who["bob"], "theirs", FILES, project="beta"))
    done = imported(who["alice"], laid(tmp_path / "mine", FILES), link=link)
    made = Artifact.objects.get(pk=done.artifact["id"])
    assert (made.digest, made.name, made.kind, made.tensors) == (uploaded.digest, "mine", "model", uploaded.tensors)
    assert (done.fresh, made.user.get_username(), made.published) == (True, "alice", True)
    assert made.meta == {"imported_from": "a directory"}
    stored = {each["path"]: at_rest.content(each["sha256"]) for each in made.files}
    assert stored == FILES
    assert not (artifact_files.made() / "uploads" / str(Upload.objects.get(artifact=made).pk)).exists()


@at_rest.in_directory
def test_a_link_is_the_file_itself_and_a_copy_is_not(who, tmp_path):
    mine = laid(tmp_path / "mine", {"a.txt": b"abc", "b.txt": b"def"})
    imported(who["alice"], mine / "a.txt", link=True)
    imported(who["alice"], mine / "b.txt")
    assert artifact_files.blob(sha(b"abc")).samefile(mine / "a.txt")
    assert not artifact_files.blob(sha(b"def")).samefile(mine / "b.txt")


def test_one_file_is_an_artifact_of_its_name(who, tmp_path):
    done = imported(who["alice"], laid(tmp_path, {"prompts.jsonl": b"{}\n"}) / "prompts.jsonl", kind="dataset")
    assert (done.artifact["name"], done.artifact["kind"]) == ("prompts.jsonl", "dataset")
    assert [each["path"] for each in done.artifact["files"]] == ["prompts.jsonl"]


def test_the_same_bytes_are_the_same_artifact_and_that_is_told(who, tmp_path):
    first = b.artifact(who["alice"], "first", FILES)
    done = imported(who["alice"], laid(tmp_path / "again", FILES))
    assert (done.fresh, done.artifact["id"], done.artifact["name"]) == (False, first, "first")


def test_what_tools_keep_for_themselves_is_left_out_and_told(tmp_path):
    mine = laid(tmp_path, {"a.txt": b"a", ".git/objects/x": b"x", ".cache/huggingface/y": b"y", ".gitattributes": b"z"})
    source = look(mine)
    assert ([item.path for item in source.items], source.left_out) == (
        [".gitattributes", "a.txt"], (".cache/huggingface", ".git"),
    )  # fmt: skip


def test_links_that_stay_inside_the_directory_are_followed(who, tmp_path):
    mine = laid(tmp_path / "mine", {"step-9/a.txt": b"abc"})
    (mine / "last.txt").symlink_to("step-9/a.txt")
    made = imported(who["alice"], mine).artifact
    assert {each["path"]: each["sha256"] for each in made["files"]} == {
        "last.txt": sha(b"abc"), "step-9/a.txt": sha(b"abc"),
    }  # fmt: skip


def test_progress_is_told_up_to_the_whole(who, tmp_path):
    told = []
    imported(who["alice"], laid(tmp_path / "mine", FILES), told=told.append)
    size = sum(len(content) for content in FILES.values())
    assert (told[-1].files, told[-1].bytes, told[-1].of_bytes) == (4, size, size)
    assert [each.bytes for each in told] == sorted(each.bytes for each in told)
    assert told[-1].in_words().startswith("importing: 4 of 4 files, ")


# ---------------------------------------------------------------- Hugging Face's cache


@pytest.mark.parametrize("named", ["the snapshot", "the repository"])
def test_a_snapshot_is_taken_with_its_repository_and_revision_on_record(who, tmp_path, named):
    folder = snapshot(tmp_path, FILES)
    done = imported(who["alice"], folder if named == "the snapshot" else tmp_path / "models--org--tiny")
    uploaded = Artifact.objects.get(pk=b.artifact(who["bob"], "theirs", FILES, project="beta"))
    assert (done.artifact["name"], done.artifact["kind"]) == ("tiny", "model")
    assert done.artifact["digest"] == uploaded.digest
    assert done.artifact["meta"] == {
        "imported_from": "a Hugging Face snapshot", "repository": "org/tiny", "revision": REVISION,
    }  # fmt: skip


def test_one_of_a_data_set_is_a_data_set(tmp_path):
    source = look(snapshot(tmp_path, {"train.jsonl": b"{}"}, sort="datasets"))
    assert (source.kind, source.meta["repository"]) == ("dataset", "org/tiny")


def test_of_several_snapshots_main_is_meant_and_without_it_one_must_be_named(tmp_path):
    older = snapshot(tmp_path, {"a.txt": b"old"}, revision="a" * 40)
    newer = snapshot(tmp_path, {"a.txt": b"new"}, revision="b" * 40)
    repository = tmp_path / "models--org--tiny"
    assert look(repository).meta["revision"] == newer.name
    (repository / "refs" / "main").unlink()
    with pytest.raises(NotImportable, match=f"has 2 snapshots .{older.name}, {newer.name}.: name the directory of one"):
        look(repository)


def test_a_link_out_of_the_snapshots_own_cache_is_refused_by_name(tmp_path):
    folder = snapshot(tmp_path, {"a.txt": b"a"})
    secret = laid(tmp_path, {"secret_key": b"s"}) / "secret_key"
    (folder / "b.txt").symlink_to(secret)
    with pytest.raises(NotImportable, match=f"'b.txt' is a link to {secret}, outside the snapshot's own cache"):
        look(folder)


def test_a_snapshot_that_is_not_all_there_is_refused(tmp_path):
    folder = snapshot(tmp_path, {"a.txt": b"a", "b.safetensors": b.tensors(1)})
    blob = (folder / "b.safetensors").resolve()
    blob.rename(blob.with_name(f"{blob.name}.incomplete"))
    with pytest.raises(
        NotImportable, match=r"'b.safetensors' is a link to nothing .*; a download into it was not fini"
    ):
        look(folder)


@pytest.mark.parametrize("path", ["model.safetensors", "config.json"])
def test_a_blob_that_is_not_what_the_cache_calls_it_is_refused_and_leaves_nothing(who, tmp_path, path):
    folder = snapshot(tmp_path, FILES)
    blob = (folder / path).resolve()
    blob.write_bytes(bytes(len(FILES[path])))
    refused = imported(who["alice"], folder)
    assert (refused.code, refused.field) == ("damaged_cache", path)
    assert f"the cache keeps it as {blob.name}, which its bytes are not: download it again" in refused.message
    assert nothing_left()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("lay", "said"),
    [
        (lambda d: None, r"has no files"),
        (lambda d: (d / "l").symlink_to("/etc/hostname"), r"'l' is a link to /etc/hostname, outside the directory"),
        (lambda d: (d / "l").symlink_to("nowhere"), r"'l' is a link to nothing \(nowhere\)"),
        (lambda d: (d / "l").symlink_to("l"), r"'l' is a link to nothing \(l\)"),
        (lambda d: (d / "l").symlink_to("."), r"'l' is a link to a directory: put the directory itself there"),
        (lambda d: os.mkfifo(d / "p"), r"'p' is neither a file nor a directory"),
        (lambda d: (d / "a:b").write_bytes(b""), r"unsafe file name 'a:b': rename it"),
        (lambda d: (d / os.fsdecode(b"a\xff")).write_bytes(b""), r"file name .a.xff. is not UTF-8: rename it"),
        (lambda d: laid(d, {"a": b"", "A/b": b""}), r"'a' is a file and also the folder of 'A/b'.*: rename one"),
        (lambda d: laid(d, {"a": b"", "A": b""}), r"two files have one name \(case does not count\): 'A' and 'a'"),
        (lambda d: [(d / f"{n}?").write_bytes(b"") for n in range(7)], r"'0\?'.*'4\?': rename it; and 2 more"),
    ],
)
def test_what_can_not_be_taken_is_named_and_how_to_mend_it(tmp_path, lay, said):
    lay(tmp_path)
    with pytest.raises(NotImportable, match=said):
        look(tmp_path)


def test_a_place_where_nothing_is_and_one_that_is_no_file_are_refused(tmp_path):
    with pytest.raises(NotImportable, match=f"there is nothing at {tmp_path}/x: name a directory or a file"):
        look(tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotImportable, match="is neither a directory nor a file"):
        look(tmp_path / "pipe")


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(NotImportable, match=r"'a.txt' can't be read .Permission denied."):
        look(laid(tmp_path, {"a.txt": b"a"}))


def test_a_project_that_there_is_not_or_that_the_person_is_not_in_is_refused(who, tmp_path):
    mine = laid(tmp_path / "mine", {"a.txt": b"a"})
    assert "there is no project 'gamma'" in imported(who["admin"], mine, project="gamma").message
    refused = imported(who["alice"], mine, project="beta")
    assert (refused.status, refused.code) == (403, "not_a_member")
    assert refused.message == "alice is not in project beta: name somebody who is with --user"
    assert nothing_left()


def test_a_name_that_no_artifact_may_have_is_refused_as_for_an_upload(who, tmp_path):
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}), name="a/b")
    assert (refused.status, refused.code, refused.field) == (422, "bad_name", "name")


def test_a_project_without_room_takes_nothing(who, tmp_path):
    Project.objects.filter(name="alpha").update(artifact_quota_gb=0)
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}))
    assert (refused.status, refused.code) == (413, "over_quota")
    assert nothing_left()


def test_a_disk_without_room_is_told_before_anything_is_copied_and_a_link_needs_none(
    who, each_store, tmp_path, monkeypatch
):
    monkeypatch.setattr(artifact_files, "room", lambda: 2)
    mine = laid(tmp_path / "mine", {"a.txt": b"abc"})
    refused = imported(who["alice"], mine)
    assert (refused.status, refused.code) == (507, "no_space")
    assert "3 bytes are to be copied and 2 have room" in refused.message
    assert nothing_left()
    if each_store == "directory":
        assert refused.message.endswith("free some, or take the files themselves by --link")
        assert imported(who["alice"], mine, link=True).fresh
    else:
        assert refused.message.endswith(": free some")


@at_rest.in_bucket
def test_a_bucket_takes_no_links(who, tmp_path):
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}), link=True)
    assert (refused.status, refused.code) == (422, "cant_link")
    assert refused.message.endswith("/lab/one, which takes no links: leave --link out to copy them")
    assert nothing_left()


def test_a_disk_that_fills_meanwhile_is_told_and_nothing_is_left(who, tmp_path, monkeypatch):
    def full(*_):
        raise artifact_files.NoSpace("the artifact store is full")

    monkeypatch.setattr(artifact_files, "append", full)
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"abc"}))
    assert (refused.status, refused.message.split(":")[0]) == (507, "the artifact store is full")
    assert nothing_left()


@pytest.mark.parametrize(("each_store", "link"), TAKEN, indirect=["each_store"])
@pytest.mark.parametrize("change", [lambda p: p.write_bytes(b"abcd"), lambda p: os.utime(p, ns=(1, 1))])
def test_a_file_that_changes_under_the_import_is_refused_by_name(who, tmp_path, change, link):
    mine = laid(tmp_path / "mine", {"a.txt": b"abc"})
    source = look(mine)
    change(mine / "a.txt")
    refused = importing.run(source, Wanted("alpha", "x", "model", link), who["alice"], lambda: b.NOON, lambda _: None)
    assert (refused.code, refused.field) == ("changed", "a.txt")
    assert nothing_left()
    assert (mine / "a.txt").exists()


def test_a_broken_model_is_refused_and_leaves_nothing(who, tmp_path):
    mine = laid(tmp_path / "mine", {"model.safetensors": b.tensors(1)[:-1]})
    assert imported(who["alice"], mine).code == "corrupt_model"
    assert nothing_left()


@at_rest.in_directory
def test_a_link_over_file_systems_is_refused_and_says_what_to_do(who, tmp_path, monkeypatch):
    def other(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(artifact_files, "linked", other)
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}), link=True)
    assert (refused.code, refused.field) == ("cant_link", "a.txt")
    assert refused.message.endswith("(Invalid cross-device link): leave --link out to copy it")
    assert nothing_left()


def test_root_stores_nothing_in_another_users_directory(who, tmp_path, monkeypatch):
    folder = artifact_files.made()
    monkeypatch.setattr(importing.os, "geteuid", lambda: 0)
    monkeypatch.setattr(importing, "_owner", lambda _: 1234)
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}))
    assert refused.message == (
        f"{folder} belongs to user 1234, whose server could not write beside what root stores: run this as that user"
    )


@at_rest.in_directory
def test_another_persons_file_is_not_linked(who, tmp_path, monkeypatch):
    monkeypatch.setattr(importing.os, "geteuid", lambda: 4321)
    refused = imported(who["alice"], laid(tmp_path / "mine", {"a.txt": b"a"}), link=True)
    assert refused.message == "'a.txt' belongs to somebody else: leave --link out to copy it"


def test_nobody_and_an_unknown_person_are_no_owner(who):
    assert importing.owner("bob").username == "bob"
    assert importing.owner("").username == "admin"
    assert importing.owner("eve") == "there is no active user 'eve': name one with --user"
    type(Upload.objects.none().model.user.field.related_model.objects.first()).objects.update(is_active=False)
    assert importing.owner("") == "there is no active admin whose it would be: name somebody with --user"


# ---------------------------------------------------------------- stopped in the middle


def stopped_after(count: int):
    """Something to be told that ends the process, so to say, when it is told so often."""
    told = []

    def tell(progress) -> None:
        told.append(progress)
        if len(told) == count:
            raise KeyboardInterrupt

    return tell


@pytest.mark.parametrize(
    ("each_store", "link", "count"),
    [*(("directory", link, count) for link in (False, True) for count in range(1, 9)), ("bucket", False, 5)],
    indirect=["each_store"],
)
def test_stopped_anywhere_nothing_is_there_and_started_again_it_goes_on(who, tmp_path, monkeypatch, count, link):
    monkeypatch.setattr(artifact_files, "CHUNK", 100)
    files = {"a.bin": bytes(range(250)), "b.bin": b"b" * 120, "c.txt": b"c"}
    mine = laid(tmp_path / "mine", files)
    with pytest.raises(KeyboardInterrupt):
        imported(who["alice"], mine, told=stopped_after(count), link=link)
    assert not Artifact.objects.exists()
    assert artifact_files.blobs() == {}
    (upload,) = Upload.objects.all()
    before = sum(artifact_files.part_sizes(upload.pk).values())
    done = imported(who["alice"], mine, link=link)
    assert (done.went_on, Upload.objects.count()) == (before, 1)
    uploaded = Artifact.objects.get(pk=b.artifact(who["bob"], "theirs", files, project="beta"))
    assert done.artifact["digest"] == uploaded.digest


def test_one_that_goes_on_counts_once_against_the_quota(who, tmp_path):
    mine = laid(tmp_path / "mine", {"a.txt": b"abc"})
    with pytest.raises(KeyboardInterrupt):
        imported(who["alice"], mine, told=stopped_after(1))
    Project.objects.filter(name="alpha").update(artifact_quota_gb=0)
    assert imported(who["alice"], mine).fresh


def test_a_file_that_was_changed_between_two_starts_is_stored_as_it_is_now(who, tmp_path, monkeypatch):
    monkeypatch.setattr(artifact_files, "CHUNK", 2)
    mine = laid(tmp_path / "mine", {"a.txt": b"abcdef", "b.txt": b"x"})
    with pytest.raises(KeyboardInterrupt):
        imported(who["alice"], mine, told=stopped_after(2))
    (mine / "a.txt").write_bytes(b"ABCDEF")
    done = imported(who["alice"], mine)
    assert {each["path"]: each["sha256"] for each in done.artifact["files"]}["a.txt"] == sha(b"ABCDEF")
    assert at_rest.content(sha(b"ABCDEF")) == b"ABCDEF"


def test_what_was_stopped_and_never_started_again_goes_with_abandoned_uploads(who, tmp_path):
    mine = laid(tmp_path / "mine", {"a.txt": b"abc"})
    with pytest.raises(KeyboardInterrupt):
        imported(who["alice"], mine, told=stopped_after(1))
    assert upkeep.collect_uploads(b.later(90_000)) == 1
    assert nothing_left()
    assert (mine / "a.txt").read_bytes() == b"abc"


def test_one_that_is_at_work_for_days_is_not_taken_for_abandoned(who, tmp_path):
    times = iter(range(0, 10**9, 3 * 3600))
    source = look(laid(tmp_path / "mine", {f"{n}.txt": b"abc" for n in range(12)}))

    def told(_) -> None:
        (upload,) = Upload.objects.all()
        assert upkeep.collect_uploads(upload.created_at + b.timedelta(hours=23)) == 0
        last.append(upload.created_at)

    last = []
    importing.run(source, Wanted("alpha", "x", "model"), who["alice"], lambda: b.later(next(times)), told)
    assert last[-1] > b.later(2 * 86_400)


def test_the_same_import_twice_at_once_is_refused(who, tmp_path):
    mine = laid(tmp_path / "mine", {"a.txt": b"abc", "b.txt": b"d"})
    second = []

    def told(_) -> None:
        if not second:
            second.append(imported(who["alice"], mine))

    assert imported(who["alice"], mine, told=told).fresh
    (refused,) = second
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (409, "under_way")
