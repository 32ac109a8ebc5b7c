"""Files that can run code when they are loaded are known by their names and their bytes, and only told."""

from __future__ import annotations

import io
import pickle
import zipfile
from importlib import import_module

import pytest
from django.apps import apps

from scheduling.models import Artifact
from scheduling.services import unsafe_files
from tests import builders as b


def zipped(*names: str) -> bytes:
    """An archive of these members, the same whenever it is made: the parameters below are names of tests."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"x")
    return file.getvalue()


class Bomb:
    """Whoever loads it fails."""

    def __reduce__(self):
        return (pytest.fail, ("it was loaded",))


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("pytorch_model.bin", b"", "PyTorch pickle"),
        ("sub/Model.PT", b"", "PyTorch pickle"),
        ("epoch.ckpt", b"", "PyTorch pickle"),
        ("trees.joblib", b"", "pickle"),
        ("net.keras", b"", "Keras"),
        ("innocent.txt", pickle.dumps(Bomb(), protocol=2), "pickle"),
        ("model.safetensors", pickle.dumps(Bomb(), protocol=5), "pickle"),
        ("weights.dat", zipped("archive/data.pkl", "archive/data/0"), "archive with a pickle"),
        ("notes.zip", zipped("a.txt", "b.json"), ""),
        ("model.safetensors", b.tensors(1), ""),
        ("model.safetensors", (640).to_bytes(8, "little") + b"{}".ljust(640), ""),
        ("config.json", b"{}", ""),
        ("empty", b"", ""),
        ("one", b"\x80", ""),
        ("text", b"\x80\x09abc", ""),
        ("cut.zip", zipped("a.pkl")[:-30], ""),
        ("PK", b"PK\x03\x04", ""),
    ],
)
def test_it_is_told_by_name_or_by_content_and_never_loaded(path, content, told):
    assert unsafe_files.format_of(path, lambda: io.BytesIO(content)) == told


def test_an_archive_with_more_members_than_are_looked_through_is_labelled(monkeypatch):
    content = zipped(*(f"{n}.txt" for n in range(9)))
    assert unsafe_files.format_of("a.zip", lambda: io.BytesIO(content)) == ""
    monkeypatch.setattr(unsafe_files, "MAX_DIRECTORY", 100)
    assert unsafe_files.format_of("a.zip", lambda: io.BytesIO(content)) == "archive with a pickle"


@pytest.mark.django_db
@pytest.mark.usefixtures("each_store")
def test_what_is_stored_is_labelled_with_its_commit_also_where_its_bytes_were_there_before():
    alice = b.people()["alice"]
    weights = pickle.dumps(Bomb())
    files = {"a.bin": weights, "b/c.txt": weights, "config.json": b"{}"}
    labels = {"a.bin": "PyTorch pickle", "b/c.txt": "pickle"}
    first = b.artifact(alice, "first", files)
    second = b.artifact(alice, "second", {**files, "more.txt": b"x"})
    assert [Artifact.objects.get(pk=each).unsafe for each in (first, second)] == [labels, labels]


@pytest.mark.django_db
@pytest.mark.usefixtures("each_store")
def test_what_was_stored_before_there_were_labels_is_labelled_by_name():
    alice = b.people()["alice"]
    made = [b.artifact(alice, "a", {"a.BIN": b"x", "b.txt": b"y"}), b.artifact(alice, "b", {"b.txt": b"z"})]
    Artifact.objects.update(unsafe={})
    import_module("scheduling.migrations.0020_unsafe_formats").label_by_name(apps, None)
    assert [Artifact.objects.get(pk=each).unsafe for each in made] == [{"a.BIN": "PyTorch pickle"}, {}]
