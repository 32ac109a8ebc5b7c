"""Content in, content out, by digest; never half an artifact."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.workers.engines.builders import candidate, merged, model, random_model, refusal
from tests.workers.engines.dying import run_and_die
from workers.engines.artifacts import ArtifactStore, Damage
from workers.protocol import manifest_digest

HELLO = hashlib.sha256(b"hello").hexdigest()


def folder(directory: Path, **files: str) -> Path:
    for name, content in files.items():
        path = directory / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return directory


def test_the_id_is_the_digest_of_the_manifest(tmp_path: Path) -> None:
    stored = ArtifactStore(tmp_path / "s").put(folder(tmp_path / "d", sub__x="hello"))
    assert stored == manifest_digest([{"path": "sub/x", "size": 5, "sha256": HELLO}])


def test_equal_contents_have_one_id_whatever_their_times_and_order(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "1", a="1", b="2"), folder(tmp_path / "2", b="2", a="1")
    os.utime(second / "a", (1, 1))
    store = ArtifactStore(tmp_path / "s")
    assert store.put(first) == store.put(second)


def test_what_was_put_comes_back_byte_for_byte(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    back = store.get(store.put(folder(tmp_path / "d", a="one", sub__b="two")), tmp_path / "back")
    assert {p.relative_to(back).as_posix(): p.read_text() for p in back.rglob("*") if p.is_file()} == {
        "a": "one",
        "sub/b": "two",
    }


def test_a_single_file_is_an_artifact_of_its_name(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    with store.open(store.put(folder(tmp_path / "d", x="hello") / "x"), "x") as file:
        assert file.read() == b"hello"


def test_equal_blobs_are_kept_once_and_cannot_be_written(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    store.put(folder(tmp_path / "d", a="hello", b="hello"))
    blobs = [p for p in (tmp_path / "s" / "objects").rglob("*") if p.is_file()]
    assert [(b.parent.name + b.name, b.stat().st_mode & 0o777) for b in blobs] == [(HELLO, 0o444)]


def test_stat_tells_files_size_kind_and_what_was_said(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    got = store.stat(store.put(folder(tmp_path / "d", x="hello"), "dataset", metadata={"note": "small"}))
    assert (got.size, got.kind, dict(got.metadata), [f["path"] for f in got.files]) == (
        5,
        "dataset",
        {"note": "small"},
        ["x"],
    )


def test_the_list_can_be_narrowed_to_a_kind(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    log = store.put(folder(tmp_path / "1", x="log"), "log")
    store.put(folder(tmp_path / "2", x="model"), "model")
    assert [a.id for a in store.list("log")] == [log]


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_symbolic_link_is_refused(link: str, tmp_path: Path) -> None:
    outside = folder(tmp_path / "outside", secret="s")
    inside = folder(tmp_path / "d", x="1")
    (inside / "l").symlink_to(outside / "secret" if link == "file" else outside)
    assert refusal(ArtifactStore(tmp_path / "s").put, inside).code == "unsafe_path"


def test_a_link_to_the_whole_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(folder(tmp_path / "d", x="1"))
    assert refusal(ArtifactStore(tmp_path / "s").put, tmp_path / "l").code == "unsafe_path"


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path / "d", x="1") / "pipe")
    assert refusal(ArtifactStore(tmp_path / "s").put, tmp_path / "d").code == "unsafe_path"


def test_an_unsafe_name_is_refused(tmp_path: Path) -> None:
    (folder(tmp_path / "d", x="1") / "a:b").write_text("2")
    assert refusal(ArtifactStore(tmp_path / "s").put, tmp_path / "d").code == "unsafe_path"


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert refusal(ArtifactStore(tmp_path / "s").put, tmp_path / "d").code == "empty_artifact"


@pytest.mark.parametrize("wrong", ["sha256:" + "0" * 64, "sha256:../../etc/passwd", "model"])
def test_an_id_that_is_not_stored_is_refused(wrong: str, tmp_path: Path) -> None:
    assert refusal(ArtifactStore(tmp_path / "s").stat, wrong).code == "not_found"


def test_a_file_that_the_artifact_does_not_have_is_refused(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    assert refusal(store.open, store.put(folder(tmp_path / "d", x="1")), "y").code == "not_found"


def test_get_into_something_that_exists_is_refused(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    assert refusal(store.get, store.put(folder(tmp_path / "d", x="1")), tmp_path / "d").code == "exists"


def spoil(store: ArtifactStore, digest: str = HELLO) -> Path:
    blob = store.root / "objects" / digest[:2] / digest[2:]
    blob.chmod(0o644)
    blob.write_bytes(b"jello")
    return blob


def test_changed_bytes_are_not_given_out(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    stored = store.put(folder(tmp_path / "d", x="hello"))
    spoil(store)
    assert (refusal(store.get, stored, tmp_path / "back").code, (tmp_path / "back").exists()) == (
        "corrupt_artifact",
        False,
    )


def test_verify_names_what_is_corrupt_and_what_is_missing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    stored = store.put(folder(tmp_path / "d", x="hello", y="other"))
    spoil(store)
    other = hashlib.sha256(b"other").hexdigest()
    (store.root / "objects" / other[:2] / other[2:]).unlink()
    assert store.verify(stored) == (Damage("x", "corrupt"), Damage("y", "missing"))


def test_a_put_killed_at_any_step_leaves_no_half_artifact(tmp_path: Path) -> None:
    source = folder(tmp_path / "d", a="one", b="two")
    step = 0
    while run_and_die(lambda: ArtifactStore(tmp_path / f"{step}").put(source), step := step + 1):
        store = ArtifactStore(tmp_path / f"{step}")
        assert [store.verify(a.id) for a in store.list()] in ([], [()])
        assert store.verify(store.put(source)) == ()
    assert step > 6


def test_store_puts_the_merge_with_its_lineage(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    parents = [store.put(random_model(tmp_path / n, i)) for i, n in enumerate("ab")]
    made = candidate(*(store.get(p, tmp_path / f"m{i}") for i, p in enumerate(parents)), t=0.3)
    stored = store.store(made, parents)
    assert store.lineage(stored) == tuple(parents)
    assert store.lineage(parents[0], "down") == (stored,)
    got = load_file(store.get(stored, tmp_path / "back") / "model.safetensors")
    assert {n: t.tolist() for n, t in got.items()} == {n: t.tolist() for n, t in merged(made).items()}


def test_the_same_merge_stored_twice_has_one_id(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    made = candidate(random_model(tmp_path / "a", 1), random_model(tmp_path / "b", 2))
    assert store.store(made) == store.store(made)


def test_a_refused_merge_stores_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "s")
    made = candidate(model(tmp_path / "a", {"w": [float("nan")]}), model(tmp_path / "b", {"w": [1.0]}))
    assert (refusal(store.store, made).code, store.list(), list((tmp_path / "s" / "tmp").iterdir())) == (
        "nonfinite_input",
        (),
        [],
    )
